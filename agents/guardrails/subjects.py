"""What is judged, and what a check says about it. Pure.

A finding names a kind and a place, never the value that was found: whatever is logged or kept of a
verdict is built from kinds alone (G4).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from hitl.errors import HitlError


class Where(StrEnum):
    """At which point of a turn a rule looks."""

    INPUT = "input"
    """The user's message, before the model is given it."""
    OUTPUT = "output"
    """The text of a model's reply, before anybody sees it."""
    TOOL_CALL = "tool_call"
    """The arguments of a call, after they were validated and before anybody is asked."""


class Action(StrEnum):
    """What a violation leads to."""

    BLOCK = "block"
    """It goes no further; whoever made it is told which rule it broke."""
    REDACT = "redact"
    """It goes on with what was found taken out."""
    REQUIRE_APPROVAL = "require_approval"
    """It waits for a person."""


class BadRule(HitlError):
    """The rule cannot be used as it is written."""

    code = "bad_rule"


class CheckFailed(Exception):
    """A check could not say whether the rule is broken; the rule then counts as broken (G2)."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What a check is given to judge.

    `text` is a message or a reply. For a tool call it is empty, `arguments` are the validated ones
    as JSON and `typed` the same as the values that the function would get, by name and with
    defaults.
    """

    where: Where
    agent: str = ""
    text: str = ""
    tool: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    typed: Mapping[str, Any] = field(default_factory=dict)

    def texts(self) -> Iterator[str]:
        """Yield every text in it: the message, or the names and values of the arguments."""
        if self.where == Where.TOOL_CALL:
            yield from leaves(dict(self.arguments))
        elif self.text:
            yield self.text


@dataclass(frozen=True, slots=True)
class Finding:
    """Where in a text something was found, and of which kind it is."""

    kind: str
    start: int
    end: int


def leaves(value: Any) -> Iterator[str]:
    """Yield the texts of a JSON value: names, texts, and numbers as they are written."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield str(name)
            yield from leaves(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from leaves(item)
    elif value is not None and not isinstance(value, bool):
        yield str(value)
