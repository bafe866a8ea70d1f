"""What can go wrong in a workflow, each with what to do about it. Pure."""

from typing import Any

from hitl.errors import HitlError

FOREIGN = (
    "A body is replayed, so it may await only what Sayso can write down. In place of asyncio.sleep "
    "write `sleep`; of asyncio.gather and tasks `gather` or `race`; of asyncio.wait_for a `race` "
    "with a `sleep`; of a lock or queue a hook. What calls out belongs in a @step."
)


class WorkflowDefinitionError(HitlError):
    """The workflow or step cannot be defined this way."""

    code = "workflow_definition"


class WorkflowNotFound(HitlError):
    """There is no workflow of this name; define it in the workflows.py of an installed app."""

    code = "workflow_not_found"


class InvalidInput(HitlError):
    """The input does not fit the signature of the workflow."""

    code = "workflow_invalid_input"


class RunNotFound(HitlError):
    """There is no such run of a workflow."""

    code = "run_not_found"


class Diverged(BaseException):
    """The body no longer matches its journal. Not an `Exception`: a body must not swallow it."""

    REMEDY = (
        "No effect after this took place. Put the code back as it was for this run (or behind a "
        "new workflow name for new runs) and retry the run, or cancel it."
    )

    @classmethod
    def at(cls, position: int, held: Any, asked: Any) -> "Diverged":
        return cls(
            f"The code has diverged from the journal at position {position}: the journal holds "
            f"{_shown(held)}, the code now asks for {_shown(asked)}"
            f"{' with other input' if (held.kind, held.name) == (asked.kind, asked.name) else ''}. "
            f"{cls.REMEDY}"
        )

    @classmethod
    def short(cls, position: int, held: Any) -> "Diverged":
        return cls(
            f"The code has diverged from the journal at position {position}: the journal holds "
            f"{_shown(held)}, the code now asks for nothing there. {cls.REMEDY}"
        )

    @classmethod
    def early(cls, position: int, held: Any) -> "Diverged":
        return cls(
            f"The code has diverged from the journal at position {position}: the journal holds "
            f"{_shown(held)}, and the code had not asked for it when it was completed. {cls.REMEDY}"
        )

    @classmethod
    def unlike(cls, live: str, again: str) -> "Diverged":
        return cls(
            f"The body is not deterministic: live it {live}, replayed it {again}. It must go by "
            f"its input and by what it awaits alone: use `now`, `random` and `uuid4` of "
            f"agents.workflows, and put whatever else comes from outside into a @step."
        )


class JournalFull(BaseException):
    """The body has asked for more than a journal holds; start a new run for what follows."""

    def __init__(self) -> None:
        super().__init__(
            "The body has asked for more than a journal holds (100,000 entries); let it start a "
            "new run for what follows, in a @step."
        )


class Suspended(BaseException):
    """The run parks here; a body lets it pass. Not an `Exception`, as for `Diverged`."""


class ForeignAwait(HitlError):
    code = "foreign_await"

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or FOREIGN)

    @staticmethod
    def at(place: str) -> str:
        return f"{f'At {place}: ' if place else ''}{FOREIGN}"


ForeignAwait.__doc__ = FOREIGN


class OutsideBody(HitlError):
    """This belongs in the body of a workflow, outside of any step."""

    code = "outside_workflow_body"

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what} was called outside of a workflow's body. Move it out of the step (or other "
            f"code) into the body of the @workflow, which may await it."
        )


class NeverAwaited(HitlError):
    """Something was called in a body and never awaited."""

    code = "never_awaited"

    def __init__(self, message: str) -> None:
        super().__init__(f"{message} Await it, or give it to `gather` or `race`.")


class StepFailed(HitlError):
    """A step failed for good. `step` names it, `type` and `message` are of the error it raised."""

    code = "step_failed"

    def __init__(self, step: str, type: str, message: str) -> None:  # noqa: A002
        super().__init__(f"Step {step} failed: {type}: {message}" if type else message)
        self.step, self.type, self.message = step, type, message


class HookConflict(HitlError):
    """The token of this hook is held by another wait, which goes on undisturbed."""

    code = "hook_conflict"


class HookClosed(HitlError):
    """The hook was withdrawn by someone before anything came."""

    code = "hook_closed"


class AgentFailed(HitlError):
    """The agent's run ended without an answer."""

    code = "agent_failed"


class RetryableError(Exception):
    """Raise it in a step to be tried again; `retry_after` ("30s", a timedelta, ms) says when."""

    def __init__(self, message: str = "", *, retry_after: Any = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class FatalError(Exception):
    """Raise it in a step to fail for good, whatever retries are left."""


def _shown(entry: Any) -> str:
    return f"{entry.kind} {entry.name!r}" if entry.name else str(entry.kind)
