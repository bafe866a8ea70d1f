"""What a model is given and what it gives back, in no provider's own form. Pure.

Call ids are ours everywhere but in a fresh `Reply`, where they are whatever the provider wrote: a
provider may repeat an id or leave it out, so no identity may rest on it. Whoever stores a reply
gives each call an id of its own.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from agents.llm.errors import UnpairedCalls


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call as the model made it.

    `arguments` is the JSON text as the model wrote it, which may be no JSON at all.
    """

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class UserMessage:
    """Something a person, or the agent above, said."""

    text: str


@dataclass(frozen=True, slots=True)
class AssistantMessage:
    """A saved reply of the model.

    `raw` is the model library's own JSON of that reply: it is replayed to the provider so that
    nothing it needs (signatures, reasoning items) is lost. Without it the reply is rebuilt from
    text and calls.
    """

    text: str
    calls: tuple[Call, ...] = ()
    raw: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The one result of one call.

    `content` is JSON and says in words what happened, a denial or an error included; `outcome`
    only labels it for screens and tests and is not what the model reads.
    """

    call_id: str
    name: str
    content: Any
    outcome: str = "success"


@dataclass(frozen=True, slots=True)
class ToolResults:
    """The results of all calls of one reply, in call order."""

    results: tuple[ToolResult, ...]


Message = UserMessage | AssistantMessage | ToolResults


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as offered to the model; `parameters` is a JSON schema of type object."""

    name: str
    description: str
    parameters: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Request:
    """All that a model is given for one reply; `model` is empty where the agent has an object."""

    agent: str
    model: str
    instructions: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()


@dataclass(frozen=True, slots=True)
class Usage:
    """What a reply used. `cost_micros`: millionths of a US dollar, 0 where no price is known."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_micros: int = 0


@dataclass(frozen=True, slots=True)
class Reply:
    """One reply. `calls` carry the provider's ids, which may repeat or be empty."""

    text: str
    calls: tuple[Call, ...] = ()
    usage: Usage = Usage()
    raw: dict[str, Any] | None = None


def check_pairs(messages: Iterable[Message]) -> None:
    """Prove that a provider will find exactly one result for each call, and where it looks for it.

    Each reply with calls must be followed at once by one `ToolResults` that answers all of them
    in call order, and no id may serve two calls. Raises `UnpairedCalls`, which names the first
    fault.
    """
    seen: set[str] = set()
    awaited: tuple[str, ...] = ()
    for position, message in enumerate(messages):
        if isinstance(message, ToolResults):
            _check_block(position, awaited, tuple(result.call_id for result in message.results))
            awaited = ()
            continue
        if awaited:
            raise UnpairedCalls(
                f"Message {position}: no results for the calls {_list(awaited)} before it."
            )
        if isinstance(message, AssistantMessage):
            awaited = tuple(call.id for call in message.calls)
            _check_new(position, awaited, seen)
    if awaited:
        raise UnpairedCalls(f"The history ends before the results of the calls {_list(awaited)}.")


def _check_block(position: int, awaited: tuple[str, ...], answered: tuple[str, ...]) -> None:
    if not awaited:
        raise UnpairedCalls(f"Message {position}: results that follow no call: {_list(answered)}.")
    if answered != awaited:
        raise UnpairedCalls(
            f"Message {position}: results of {_list(answered)}, where {_list(awaited)} wait."
        )


def _check_new(position: int, ids: tuple[str, ...], seen: set[str]) -> None:
    for call_id in ids:
        if not call_id:
            raise UnpairedCalls(f"Message {position}: a call without an id.")
        if call_id in seen:
            raise UnpairedCalls(f"Message {position}: the id {call_id} is used by two calls.")
        seen.add(call_id)


def _list(ids: tuple[str, ...]) -> str:
    return ", ".join(ids) or "nothing"
