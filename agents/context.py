"""What a tool learns about the call it serves. Pure data; whoever runs the tool fills it in."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from hitl.values import JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """The answer with which this call was let through.

    `arguments` are those that were approved, `payload` is what came with the answer, `actor` names
    who gave it.
    """

    payload: JSON = None
    arguments: dict[str, JSON] = field(default_factory=dict)
    actor: str = ""
    reason: str = ""
    decided_at: datetime | None = None


class _OnceAskedFor:
    """A field that may be given as a function, which is called when the field is first read."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return ""  # the field's default
        value = vars(instance)[self.name]
        if callable(value):
            value = vars(instance)[self.name] = value()
        return value

    def __set__(self, instance: Any, value: Any) -> None:
        vars(instance)[self.name] = value


@dataclass(frozen=True, kw_only=True)
class ToolContext:
    """The call that a tool serves. A tool asks for it with a parameter annotated `ToolContext`.

    `idempotency_key` stays the same when the call is run again: pass it on to whatever must not
    act twice. `depth` is 0 for the agent of the run itself. `approval` is None unless the call was
    approved. `resumed` says that the call parked itself before and runs again: with `approval` when
    somebody answered, without when its deadline passed. `resume_url` is the signed address to which
    whoever finishes the job posts its result as JSON. Every field has a default, so that a unit
    test can build one by hand.
    """

    thread_id: UUID | None = None
    run_id: UUID | None = None
    tool_call_id: UUID | None = None
    idempotency_key: str = ""
    agent: str = ""
    depth: int = 0
    user: Any = None
    approval: Approval | None = None
    resumed: bool = False
    resume_url: str = _OnceAskedFor()  # type: ignore[assignment]
    emitter: Callable[[str, JSON], None] | None = field(default=None, repr=False, compare=False)

    def emit(self, type: str, data: JSON = None) -> None:  # noqa: A002
        """Write a CUSTOM event into the thread's log; does nothing outside a run."""
        if self.emitter is not None:
            self.emitter(type, data)
