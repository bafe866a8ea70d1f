"""A tool call's way through its phases: claimed before the tool runs, done once its output is kept.

Only writer of `ToolCall.phase` under a lease. The claim is what tells, after a crash, that the tool
may have run; the output is kept before anything else happens (A5).
"""

from collections.abc import Sequence
from typing import Any

from agents import gating, runs
from agents.engine import Action, Ending, Keep, RunTool, RunTools
from agents.events import PREVIEW_CHARS_MAX, Entry, EventType
from agents.lease import LeaseLost
from agents.models import ToolCall
from agents.outages import insist
from agents.snapshot import Work
from agents.states import Phase
from agents.tree import CallState
from hitl import clock, faults, values
from hitl.rows import Also, Change, change_later
from hitl.transactions import unit_of_work


def claim(work: Work, action: Action, *, fenced: bool) -> Action:
    """Claim what is to run, in the caller's transaction; other actions pass through.

    The claim is what tells, after a crash, that the tool may have run. A call that must not run as
    it was approved becomes the keeping of an error instead. `fenced` says that this transaction
    holds the run's row already.
    """
    match action:
        case RunTool(call):
            calls: Sequence[CallState] = [call]
        case RunTools(calls):
            pass
        case _:
            return action
    refusals = [refusal for call in calls if (refusal := gating.refuse(work, call)) is not None]
    if refusals:
        return Keep(refusals)
    if not fenced:
        runs.write_later(work.run, work.lease, [], heed_stop=True, is_progress=False)
    for call in calls:
        _claim(call, work.lease.token)
    faults.point("tool:claiming")
    return action


def _claim(call: CallState, token: int) -> None:
    claimed = Change(
        ToolCall,
        {"id": call.id, "phase": call.phase, "claimed_by": call.claimed_by},
        set={"phase": Phase.CLAIMED, "claimed_by": token},
        returning=("id",),
    )
    change_later(claimed, otherwise=LeaseLost)
    call.phase, call.claimed_by = Phase.CLAIMED, token


def keep(work: Work, endings: Sequence[Ending]) -> None:
    """Keep these results, each the one result of its call. A stop does not prevent it (A5)."""
    for ending in endings:
        ending.call.outcome, ending.call.result = ending.outcome, ending.result
    insist(lambda: _keep(work, endings))
    for ending in endings:
        ending.call.phase = Phase.DONE
    faults.point("result:kept")


def _keep(work: Work, endings: Sequence[Ending]) -> None:
    with unit_of_work(durable=True):
        entries = [result_event(ending.call) for ending in endings]
        done = [_done(ending) for ending in endings]
        runs.write_later(work.run, work.lease, entries, heed_stop=False, changing=done)
        faults.point("result:keeping")


def finish(ending: Ending) -> None:
    """Write one call's result, in the caller's transaction, which holds the run's row."""
    change_later(_done(ending), otherwise=LeaseLost)


def _done(ending: Ending) -> Change[ToolCall]:
    return Change(
        ToolCall,
        {"id": ending.call.id},
        set={
            "phase": Phase.DONE,
            "outcome": ending.outcome,
            "result": ending.result,
            "done_at": clock.now(),
        },
        also=Also("phase <> 'done'"),
        returning=("id",),
    )


def keep_asked(work: Work, call: CallState, asked: dict[str, Any]) -> None:
    """Keep that a tool parked itself: it has begun work elsewhere, and is not run again for that.

    Its park is opened together with what else its step asks, once nothing is left to run.
    """
    insist(lambda: _keep_asked(work, call, asked))
    call.phase, call.asked = Phase.ASKED, asked
    faults.point("asked:kept")


def _keep_asked(work: Work, call: CallState, asked: dict[str, Any]) -> None:
    with unit_of_work(durable=True):
        runs.write(work.lease, [], heed_stop=False)
        mine = ToolCall.objects.filter(id=call.id, phase=Phase.CLAIMED)
        if not mine.update(phase=Phase.ASKED, asked=asked):
            raise LeaseLost
        faults.point("asked:keeping")


def result_event(call: CallState) -> Entry:
    preview = values.dumps(call.result)
    return EventType.TOOL_RESULT, {
        "tool_call_id": str(call.id),
        "tool_name": call.tool_name,
        "outcome": str(call.outcome),
        "result": call.result if len(preview) <= PREVIEW_CHARS_MAX else preview[:PREVIEW_CHARS_MAX],
        "is_cut": len(preview) > PREVIEW_CHARS_MAX,
    }
