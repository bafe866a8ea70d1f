"""Closing what a run has open when it ends early: its parks and its unfinished calls.

The caller holds the run's lock and ends the run in the same transaction; what is returned are the
events to log with that. Every call is left with exactly one result (H2), every park with an audit
row (N5), and every subagent is told to have ended.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from agents import agent, events, frames, results, stopping
from agents.events import EventType
from agents.history import as_state
from agents.models import Frame, Run, RunKind, Step, ToolCall
from agents.states import Outcome, Phase, RunStatus
from agents.tool_calls import result_event
from agents.workflows import journal
from hitl import clock, faults, parks
from hitl.audit import Actor
from hitl.models import Park
from hitl.rows import update_returning

OF_WORKFLOWS = "workflow:"
"""What the tool id of a workflow begins with."""
DIED_INSIDE = "The run ended while the tool was running."
LEFT_WAITING = "The run ended while the tool waited for work that it had begun elsewhere."


def close_open_work(run: Run, *, reason: str, actor: Actor) -> list[events.Entry]:
    """Cancel the run's open parks and end its unfinished calls or steps; returns the events."""
    cancelled = parks.cancel_all(run.id, reason=reason, actor=actor)
    if run.kind == RunKind.WORKFLOW:
        if journal.close(run.id):
            stopping.hurry_children(run.id)
        return []
    ended = list(_end_calls(ToolCall.objects.filter(run_id=run.id), reason))
    if any(call.tool_id.startswith(OF_WORKFLOWS) for call in ended):
        stopping.hurry_children(run.id)
    faults.point("calls:closed")
    return [
        *((EventType.INPUT_CANCELLED, describe(park)) for park in cancelled if not park.is_timer),
        *_told(ended),
    ]


def _end_calls(calls: QuerySet[ToolCall], reason: str) -> Iterator[ToolCall]:
    """Give the unfinished ones of these calls their result, whichever frames made them."""
    endings: dict[str, tuple[Outcome, Any]] = {
        "asked for": (Outcome.STOPPED, results.not_done(Outcome.STOPPED, reason)),
        "delegated": (Outcome.STOPPED, results.broken_off(reason)),
        "begun": (Outcome.UNKNOWN, results.unknown(DIED_INSIDE)),
        "waiting": (Outcome.UNKNOWN, results.unknown(LEFT_WAITING)),
    }
    unfinished: dict[str, list[UUID]] = defaultdict(list)
    rows = calls.exclude(phase=Phase.DONE).values_list("id", "phase", "tool_id")
    for call_id, phase, tool_id in rows:
        unfinished[_standing(phase, tool_id)].append(call_id)
    for standing, ids in unfinished.items():
        outcome, result = endings[standing]
        yield from update_returning(
            calls.filter(id__in=ids),
            phase=Phase.DONE,
            outcome=outcome,
            result=result,
            done_at=clock.now(),
        )


def _standing(phase: str, tool_id: str) -> str:
    if phase == Phase.ASKED:
        return "waiting"
    if phase == Phase.CLAIMED:
        return "begun"
    return "delegated" if tool_id.startswith(agent.DELEGATION) else "asked for"


def _told(ended: Iterable[ToolCall]) -> Iterator[events.Entry]:
    """Yield the events of these endings as an unwind tells them: a subagent's before its end."""
    calls = sorted(ended, key=lambda call: (call.step_id, call.index))
    if not any(call.tool_id.startswith(agent.DELEGATION) for call in calls):
        return map(_result, calls)
    opened = {frame.call_id: frame for frame in Frame.objects.filter(call__in=calls)}
    made_in = dict(Step.objects.filter(calls__in=calls).values_list("id", "frame_id"))
    made_by: dict[UUID | None, list[ToolCall]] = defaultdict(list)
    for call in calls:
        made_by[made_in[call.step_id]].append(call)

    def tell(frame_id: UUID | None) -> Iterator[events.Entry]:
        for call in made_by[frame_id]:
            if frame := opened.get(call.id):
                yield from tell(frame.id)
                yield frames.ended(frame, call)
            yield _result(call)

    return tell(None)


def _result(call: ToolCall) -> events.Entry:
    return result_event(as_state(call))


def describe(park: Park) -> dict[str, str]:
    """Return what an event about a settled park says."""
    return {
        "request_id": str(park.id),
        "tool_call_id": park.key,
        "status": str(park.status),
        "actor": park.settled_by,
        "reason": park.answer_reason,
    }


ENDED = {
    RunStatus.CANCELLED: EventType.RUN_CANCELLED,
    RunStatus.FAILED: EventType.RUN_FAILED,
}
