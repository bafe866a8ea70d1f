"""Running one tool: what it is given, and what becomes of whatever it returns or raises.

A tool gives exactly one result. What it raises is told to the model once and not tried again behind
a person's back (A11); only what ends the process or the lease passes through.
"""

import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any, TypeGuard

from celery.exceptions import WorkerShutdown, WorkerTerminate
from django.db import connection, transaction

from agents import conf, gating, results, runs
from agents.context import Approval, ToolContext
from agents.engine import Ending
from agents.events import EventType
from agents.lease import LeaseLost, StopLanded
from agents.parking import ParkRequested
from agents.snapshot import Work
from agents.states import Outcome
from agents.tree import CallState, Settlement
from hitl import faults, redaction, resuming, values
from hitl.errors import NotJson, TooLarge

logger = logging.getLogger(__name__)

RUN = "run"
ERROR_CHARS_MAX = 4000
EVENT_BYTES_MAX = 65_536
PARKED_AGAIN = "The tool parked again on resume; a resumed call has to return."
PARKED_AGAIN_LATE = (
    "The job was not finished before its deadline. The tool parked again instead of returning what "
    "it can (ctx.resumed tells it), so it gave no result."
)
PASSES_THROUGH = (
    LeaseLost,
    StopLanded,
    faults.Crash,
    KeyboardInterrupt,
    WorkerShutdown,
    WorkerTerminate,
)


@dataclass(frozen=True, slots=True)
class Asked:
    """A tool parked itself: what it waits for, as it is kept."""

    call: CallState
    what: dict[str, Any]


def invoke(work: Work, call: CallState, approval: Settlement | None) -> Ending | Asked:
    """Run a claimed call's tool and return the one result it ends with, or what it waits for."""
    tool = work.tool(call)
    assert tool is not None, "a claimed call has its tool"
    context = _context(work, call, approval)
    faults.point("tool:claimed")
    try:
        output = tool.invoke(call.arguments, context)
    except PASSES_THROUGH:
        raise
    except ParkRequested as request:
        output = request
    except BaseException as error:
        logger.warning(
            "run %s: tool %s (call %s) raised %s",
            work.run.id,
            call.tool_name,
            call.id,
            type(error).__name__,
            exc_info=True,
        )
        said = values.clean_text(f"{type(error).__name__}: {error}", chars_max=ERROR_CHARS_MAX)
        return Ending(call, Outcome.ERROR, _told(call, results.error(said)))
    faults.point("tool:returned")
    if isinstance(
        output, ParkRequested
    ):  # a tool that returns it means what one that raises it does
        return _asked(call, output)
    return Ending(call, Outcome.OK, _told(call, bounded(output)))


def _told(call: CallState, result: Any) -> Any:
    """Return what the model is told, with word of it when a person had changed the arguments."""
    if call.proposed is None:
        return result
    return results.edited(result, redaction.mask(call.arguments, call.redacted))


def invoke_together(work: Work, calls: Sequence[CallState]) -> Iterator[Ending | Asked]:
    """Run these claimed calls side by side; yield each outcome as its tool comes back."""
    most = min(len(calls), conf.count("PARALLEL_MAX"))
    with ThreadPoolExecutor(most, thread_name_prefix="tool") as pool:
        running = [pool.submit(_invoke_apart, work, call) for call in calls]
        for done in as_completed(running):
            yield done.result()


def _invoke_apart(work: Work, call: CallState) -> Ending | Asked:
    """Run one tool in a thread of its own, which keeps no database connection."""
    try:
        return invoke(work, call, None)
    finally:
        connection.close()


def _asked(call: CallState, request: ParkRequested) -> Ending | Asked:
    """Return what a tool waits for; a call that was resumed has to return (J4)."""
    if call.asked is not None:
        is_late = call.job is not None and call.job.status == "timed_out"
        said = PARKED_AGAIN_LATE if is_late else PARKED_AGAIN
        return Ending(call, Outcome.ERROR, results.error(said))
    ttl_s = None if request.ttl is None else request.ttl.total_seconds()
    return Asked(call, {"reason": request.reason, "payload": request.payload, "ttl_s": ttl_s})


def bounded(output: Any) -> Any:
    """Return a tool's output as JSON within `OUTPUT_BYTES_MAX`, cut with a mark when larger.

    The tool has run, so an output that cannot be shown is said so and is no error: an error would
    invite the model to do it again.
    """
    most = conf.count("OUTPUT_BYTES_MAX")
    try:
        return values.clean(output, size_max=most)
    except TooLarge:
        return _cut(output, most)
    except NotJson:
        return f"The tool ran. Its output of type {type(output).__name__} has no JSON form."


def _cut(output: Any, most: int) -> str:
    """Return the beginning of an output that is too large, as text with a mark at the cut."""
    if isinstance(output, str):
        return values.clean_text(output, chars_max=most // 4)
    try:
        return values.clean_text(values.dumps(values.clean(output)), chars_max=most // 4)
    except TooLarge:
        return f"The tool ran. Its output is over {values.BYTES} bytes, too large to be shown."


def _context(work: Work, call: CallState, approval: Settlement | None) -> ToolContext:
    return gating.context(
        work,
        call,
        approval=_approval(call, approval) if _is_yes(approval) else None,
        resumed=call.asked is not None,
        resume_url=lambda: resuming.url(RUN, work.run.id, str(call.id)),
        emitter=lambda kind, data: _emit(work, kind, data),
    )


def _is_yes(approval: Settlement | None) -> TypeGuard[Settlement]:
    """A job that outlived its deadline resumes its tool without an approval (J5)."""
    return approval is not None and approval.status == "approved"


def _approval(call: CallState, approval: Settlement) -> Approval:
    return Approval(
        payload=approval.payload,
        arguments=call.arguments,
        actor=approval.actor,
        reason=approval.reason,
        decided_at=approval.decided_at,
    )


def _emit(work: Work, kind: str, data: Any) -> None:
    """Write a tool's own event at once, in a transaction of its own, under the lease."""
    entry = {
        "type": values.clean_text(str(kind), chars_max=100),
        "data": values.clean(data, size_max=EVENT_BYTES_MAX),
    }
    with transaction.atomic(durable=True):
        runs.write(work.lease, [(EventType.CUSTOM, entry)], heed_stop=False, is_progress=False)
        faults.point("event:emitting")
    faults.point("event:emitted")
