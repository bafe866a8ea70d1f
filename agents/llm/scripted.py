"""A model that answers from a script, for tests and demos. No network, no clock."""

import json
import threading
from collections.abc import Callable, Sequence
from typing import Any

from pydantic_core import to_jsonable_python

from agents.llm.errors import ModelRefused, RequestCancelled
from agents.llm.messages import Call, Reply, Request, check_pairs

Turn = str | Call | Reply | Exception | Sequence[str | Call] | Callable[[Request], "Turn"]

PREFIX = "scripted:"

_named: dict[str, "ScriptedModel"] = {}


class ScriptExhausted(ModelRefused):
    """The script has no turn left; add one for this request."""

    code = "script_exhausted"


def call(name: str, /, id: str | None = None, **arguments: Any) -> Call:  # noqa: A002
    """A tool call for a turn of a script; `id` is what a provider would send, by default nothing.

    For arguments that are no JSON write `Call(id="", name=…, arguments="{broken")` instead.
    """
    return Call(id=id or "", name=name, arguments=json.dumps(arguments, default=to_jsonable_python))


REQUESTS_MAX = 1000


class ScriptedModel:
    """A model whose replies are written down beforehand.

    `turns` is a list, worked off one turn a request in this process, or one function of the
    request, which suits several processes since it needs no counter. A turn is a text, a list of
    `call(…)` with texts allowed among them, a `Reply`, an exception to raise, or a function of
    the request that returns any of these. With `name` the model answers to the string
    `scripted:<name>`; a second of that name replaces the first. `requests` holds the last
    thousand requests given, oldest first.
    """

    def __init__(
        self, turns: Sequence[Turn] | Callable[[Request], Turn], name: str | None = None
    ) -> None:
        self.turns = turns if callable(turns) else list(turns)
        self.name = name
        self.requests: list[Request] = []
        self._counting = threading.Lock()
        self._taken = 0
        if name is not None:
            _named[name] = self

    def request(self, request: Request, *, cancelled: Callable[[], bool]) -> Reply:
        """Return the next turn as a reply, or raise what it says.

        Refuses a history that no provider would take (`UnpairedCalls`), and raises
        `ScriptExhausted` after the last turn.
        """
        check_pairs(request.messages)
        if cancelled():
            raise RequestCancelled
        with self._counting:
            self.requests.append(request)
            del self.requests[:-REQUESTS_MAX]
            turn = self._next()
        return _reply(turn, request)

    def _next(self) -> Turn:
        if callable(self.turns):
            return self.turns
        if self._taken == len(self.turns):
            raise ScriptExhausted(
                f"The script of {self.name or 'this model'} has no turn left after {self._taken}."
            )
        self._taken += 1
        return self.turns[self._taken - 1]


def named(name: str) -> ScriptedModel:
    """The scripted model of that name; `ModelRefused` when none was made in this process."""
    if name not in _named:
        known = ", ".join(sorted(_named)) or "none"
        raise ModelRefused(f"No scripted model is named {name!r}; known here: {known}.")
    return _named[name]


def _reply(turn: Turn, request: Request) -> Reply:
    while callable(turn) and not isinstance(turn, type):
        turn = turn(request)
    if isinstance(turn, Exception):
        raise turn
    if isinstance(turn, Reply):
        return turn
    if isinstance(turn, str | Call):
        turn = [turn]
    if not isinstance(turn, list | tuple) or not all(isinstance(part, str | Call) for part in turn):
        raise TypeError(
            f"A turn is a text, a list of calls, an exception or a function, not {turn!r}."
        )
    return Reply(
        text="\n\n".join(part for part in turn if isinstance(part, str)),
        calls=tuple(part for part in turn if isinstance(part, Call)),
    )
