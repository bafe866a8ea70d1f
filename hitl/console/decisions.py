"""One decision from a terminal: what it would do, in words, and doing it.

Calls the verbs of `hitl/parks.py` and `hitl/extending.py`, each in a durable transaction of its
own.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NoReturn

from django.db import transaction

from hitl import clock, conf, durations, extending, parks, states, values
from hitl.console import login
from hitl.console.exits import Exit, Refusal
from hitl.console.screen import line
from hitl.errors import BadDuration, NotJson, TooLarge
from hitl.models import Park
from hitl.parks import UNSET, Answer
from hitl.states import Code, Reason

CHANNEL = "cli"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What someone wants to do with one request."""

    verb: str
    park: Park
    reason: str = ""
    payload: Any = UNSET
    arguments: dict[str, Any] | None = None
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def has_payload(self) -> bool:
        return self.payload is not UNSET

    @property
    def effect(self) -> str:
        """What follows from it, in a sentence: nobody replaces a tool's run unaware (A8)."""
        what = line(self.park.topic) or "The work that asked"
        if self.verb == "extend":
            return "It stays open longer; nothing else changes."
        if self.park.is_standalone:
            return self._effect_on_the_requester()
        if self.park.is_job:
            return self._effect_on_a_job(what)
        if self.verb == "reject":
            return f"{what} does not run; whoever asked is told no."
        if self.verb == "cancel":
            return f"{what} does not run; the request is withdrawn."
        if self.has_payload and self.park.takes_payload == "result":
            return f"{what} will NOT run: the payload becomes its result."
        again = " again" if self.park.reason == Reason.IN_DOUBT else ""
        context = " The payload is its context." if self.has_payload else ""
        if self.arguments is not None:
            return f"{what} runs{again} with the arguments you give, not with these.{context}"
        return f"{what} runs{again} with these arguments.{context}"

    def _effect_on_the_requester(self) -> str:
        """What whoever asked for a standalone request is told."""
        if self.verb == "reject":
            return "Whoever asked is told no."
        if self.verb == "cancel":
            return "Whoever asked is told that it is withdrawn."
        changed = self.has_payload or self.arguments is not None
        which = "the payload you give" if changed else "exactly this payload"
        return f"Whoever asked is told yes, and gets {which}."

    def _effect_on_a_job(self, what: str) -> str:
        """What follows for a tool that waits, having begun: it goes on, or it does not."""
        if self.verb == "reject":
            return f"{what} does not go on; whoever asked is told no."
        if self.verb == "cancel":
            return f"{what} does not go on; it is withdrawn."
        if self.has_payload:
            return f"{what} goes on, with the payload as what it waited for."
        return f"{what} goes on, with an empty answer to what it waited for."

    def too_late(self) -> Code | None:
        """Tell why nothing can come of it any more, as far as can be seen now; None if it can."""
        if not self.park.is_pending:
            return states.too_late(self.park.status)
        if self.verb != "cancel" and self.park.is_overdue(clock.now()):
            return Code.EXPIRED
        return None

    def carry_out(self) -> Answer:
        """Decide. The row judges: whoever came first has won, and a late answer is only noted."""
        with transaction.atomic(durable=True):
            if self.verb == "cancel":
                return parks.cancel(
                    self.park.id, reason=self.reason, actor=login.actor(), channel=CHANNEL
                )
            if self.verb == "extend":
                return extending.extend(
                    self.park.id,
                    **self.more,
                    reason=self.reason,
                    actor=login.actor(),
                    channel=CHANNEL,
                )
            return parks.decide(
                self.park.id,
                self.verb == "approve",
                payload=self.payload,
                arguments=self.arguments,
                reason=self.reason,
                actor=login.decider(self.park, CHANNEL),
                channel=CHANNEL,
            )


def read_payload(text: str | None) -> Any:
    """Return the JSON that `--payload` holds, as it would be stored; UNSET without the option.

    Raises Refusal (usage) for what is no JSON, or over `HITL["PAYLOAD_BYTES_MAX"]`.
    """
    return UNSET if text is None else _read("--payload", text)


def read_arguments(text: str | None) -> dict[str, Any] | None:
    """Return the JSON object that `--arguments` holds; None without it. Raises Refusal (usage)."""
    if text is None:
        return None
    value = _read("--arguments", text)
    if not isinstance(value, dict):
        raise Refusal(Exit.USAGE, "bad_json", "--arguments is no JSON object.")
    return value


def read_extension(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return by how much, or until when, to extend. Raises Refusal (usage) for what is neither."""
    by, until = options.get("by"), options.get("until")
    try:
        if by is not None:
            return {"by": durations.parse(by)}
        if until is not None:
            at = datetime.fromisoformat(until)
            return {"until": at if at.tzinfo is not None else at.replace(tzinfo=UTC)}
    except BadDuration as error:
        raise Refusal(Exit.USAGE, error.code, f"--by: {error}") from None
    except ValueError:
        sentence = "--until takes an ISO time, such as 2026-05-01T12:00."
        raise Refusal(Exit.USAGE, "usage", sentence) from None
    return {}


def _read(option: str, text: str) -> Any:
    try:
        value = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
        return values.clean(value, size_max=conf.payload_bytes_max())
    except TooLarge as error:
        raise Refusal(Exit.USAGE, error.code, f"{option}: {error}") from None
    except (ValueError, RecursionError, NotJson) as error:
        raise Refusal(Exit.USAGE, "bad_json", f"{option} is not JSON: {error}.") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text} is too large for a number")
    return number
