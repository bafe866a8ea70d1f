"""Frames: where a delegation is opened, and how a subagent's end becomes its result.

Only writer of `Frame` rows. A frame ends in the transaction that keeps its parent call's result, so
an unwind that is cut short goes on from the first level that still waits, and no level runs twice.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from django.db import transaction

from agents import conf, results, runs, tool_calls, tree
from agents.engine import Ending
from agents.events import Entry, EventType
from agents.models import Frame, ToolCall
from agents.snapshot import Work
from agents.states import Outcome, Phase
from agents.tree import CallState
from hitl import clock, faults, values


def draft_all(work: Work, calls: Iterable[CallState]) -> list[Frame]:
    """Build the rows of the frames that these delegations open, and store nothing yet."""
    now = clock.now()
    return [
        Frame(
            id=call.child.id,
            run_id=work.run.id,
            call_id=call.id,
            agent=call.child.agent,
            depth=call.child.depth,
            path=list(call.child.path),
            message=call.child.message,
            created_at=now,
        )
        for call in calls
        if call.child is not None
    ]


def started(call: CallState) -> Entry:
    """Return the event of a delegation that begins."""
    assert call.child is not None
    return EventType.SUBAGENT_STARTED, _described(call.child, call)


def finished(frame: tree.Frame) -> list[Entry]:
    """Return the events of a frame whose parent call has its result."""
    assert frame.parent is not None
    return [ended(frame, frame.parent), tool_calls.result_event(frame.parent)]


def ended(frame: tree.Frame | Frame, call: CallState | ToolCall) -> Entry:
    """Return the event of a frame that is over, with the outcome of the call that opened it."""
    return EventType.SUBAGENT_FINISHED, {**_described(frame, call), "outcome": str(call.outcome)}


def answer(text: str) -> str:
    """Return a subagent's last word as the result of its delegation, cut with a mark if long."""
    return values.clean_text(text, chars_max=conf.count("RESULT_CHARS_MAX"))


def fail(work: Work, frame: tree.Frame, error: str) -> None:
    """End a subagent that cannot go on: the level above is told, and the run goes on (N3).

    What it and the frames below it had not done is closed in the same transaction.
    """
    assert frame.parent is not None, "the root fails with its run"
    told = results.error(f"The agent {frame.agent} failed: {error}")
    below = map(_stopped, _undone_below(frame))
    endings = [*below, Ending(frame.parent, Outcome.ERROR, told)]
    for ending in endings:
        ending.call.outcome, ending.call.result = ending.outcome, ending.result
    entries = [entry for ending in endings for entry in _told(ending.call)]
    with transaction.atomic(durable=True):
        runs.write(work.lease, entries, heed_stop=True, model_failures=0)
        for ending in endings:
            tool_calls.finish(ending)
        faults.point("frame:failing")
    work.run.model_failures = 0
    for ending in endings:
        ending.call.phase = Phase.DONE
    faults.point("frame:failed")


def _undone_below(frame: tree.Frame) -> Iterator[CallState]:
    """Yield the calls that this frame and those below it leave unfinished, the deeper ones first.

    That is the order in which an unwind would have ended them.
    """
    for call in frame.undone:
        if call.child is not None:
            yield from _undone_below(call.child)
        yield call


def _told(call: CallState) -> list[Entry]:
    return finished(call.child) if call.child is not None else [tool_calls.result_event(call)]


def _stopped(call: CallState) -> Ending:
    if call.child is not None:
        return Ending(call, Outcome.STOPPED, results.broken_off())
    if call.phase == Phase.OPEN:
        return Ending(call, Outcome.STOPPED, results.not_done(Outcome.STOPPED))
    return Ending(call, Outcome.UNKNOWN, results.unknown("Its agent failed."))


def _described(frame: tree.Frame | Frame, call: CallState | ToolCall) -> dict[str, Any]:
    return {
        "tool_call_id": str(call.id),
        "agent": frame.agent,
        "depth": frame.depth,
        "path": list(frame.path),
    }
