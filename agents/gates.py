"""The mark on a tool: which of its calls a person is asked about, and how. Pure.

A gate that cannot tell closes: what is unknown is asked.
"""

import inspect
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from agents.context import ToolContext
from agents.signatures import ToolDefinitionError
from hitl import values

logger = logging.getLogger(__name__)

PAYLOADS = ("result", "context")
SUMMARY_CHARS_MAX = 300

Predicate = Callable[[dict[str, Any], Any], bool]
Summary = Callable[[dict[str, Any]], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """What `requires_confirmation` was told.

    `when` picks the calls (None: all of them), `ttl` is how long the question stays open (None:
    the agent's or the project's default), `payload` what becomes of a value given with the yes:
    the "result" in the tool's place, or "context" for the tool to read. `summary` puts a call
    into one line. `policy` says who may approve; with `editable` a reviewer may change the
    arguments first.
    """

    when: Predicate | None = None
    ttl: timedelta | None = None
    payload: str = "result"
    summary: Summary | None = None
    policy: dict[str, Any] = field(default_factory=dict)
    editable: bool = False

    def __post_init__(self) -> None:
        _check_callback("when", self.when, takes=("args", "ctx"))
        _check_callback("summary", self.summary, takes=("args",))
        if self.payload not in PAYLOADS:
            raise ToolDefinitionError(
                f'requires_confirmation: payload={self.payload!r}; write "result" or "context".'
            )

    def closes(self, tool_id: str, arguments: dict[str, Any], ctx: ToolContext) -> bool:
        """Tell whether a call with these typed arguments waits for a person (M2)."""
        if self.when is None:
            return True
        try:
            verdict: object = self.when(arguments, ctx)
        except Exception:
            logger.exception("Tool %s: its predicate failed, so the call is gated", tool_id)
            return True
        if isinstance(verdict, bool):
            return verdict
        kind = type(verdict).__name__
        logger.error("Tool %s: its predicate returned a %s, so the call is gated", tool_id, kind)
        return True

    def summarise(self, tool_id: str, arguments: dict[str, Any]) -> str:
        """Return one line on a call with these typed arguments; empty when there is none."""
        if self.summary is None:
            return ""
        try:
            said = str(self.summary(arguments))
        except Exception:
            logger.exception("Tool %s: its summary failed", tool_id)
            return ""
        return values.clean_text(" ".join(said.split()), chars_max=SUMMARY_CHARS_MAX)


def _check_callback(name: str, callback: object, *, takes: tuple[str, ...]) -> None:
    if callback is None:
        return
    refusal = ToolDefinitionError(
        f"requires_confirmation: {name} must be a plain function of ({', '.join(takes)})."
    )
    if not callable(callback) or inspect.iscoroutinefunction(callback):
        raise refusal
    try:
        inspect.signature(callback).bind(*takes)
    except TypeError as error:
        raise refusal from error
    except ValueError:
        return  # something built in that does not tell its signature
