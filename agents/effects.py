"""From the engine's action to the one effect that performs it.

Each effect is small and repeatable and keeps what came of it in one transaction of its own. Models
and tools are called outside of any transaction. Every write names the lease; every effect has a
fault point before and after what it keeps.
"""

from agents import frames, holds, releases, replies, tool_calls
from agents.engine import (
    Action,
    CallModel,
    Cancel,
    Ending,
    Fail,
    FailFrame,
    Finish,
    Keep,
    Park,
    Release,
    Return,
    RunTool,
    RunTools,
    Wait,
)
from agents.invoking import Asked, invoke, invoke_together
from agents.snapshot import Work
from agents.states import RunStatus


def perform(work: Work, action: Action) -> None:
    """Perform one action. Afterwards `work` is as the rows are; it may be released."""
    match action:
        case CallModel(frame):
            if holds.admit(work, frame):
                replies.ask_model(work, frame)
        case RunTool(call, approval):
            _keep(work, invoke(work, call, approval))
        case RunTools(calls):
            for outcome in invoke_together(work, calls):
                _keep(work, outcome)
        case Keep(endings):
            tool_calls.keep(work, endings)
        case FailFrame(frame, error):
            frames.fail(work, frame, error)
        case Park():
            releases.park(work, action)
        case Release(frame):
            holds.release(work, frame)
        case Wait():
            releases.release(work, RunStatus.WAITING_FOR_INPUT)
        case Fail(error):
            releases.fail(work, error)
        case Cancel():
            releases.cancel(work)
        case Finish() | Return():
            raise AssertionError("a reply without calls is kept together with what it ends")


def _keep(work: Work, outcome: Ending | Asked) -> None:
    """Keep what came of a tool, at once."""
    if isinstance(outcome, Asked):
        tool_calls.keep_asked(work, outcome.call, outcome.what)
    else:
        tool_calls.keep(work, [outcome])
