"""How a segment lets go of its run: parked, handed back, postponed, failed or cancelled.

Each is one transaction that writes what is owed and ends the lease.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Protocol
from uuid import UUID

from agents import closing, conf, gating, runs, stopping
from agents.engine import Park
from agents.events import PREVIEW_CHARS_MAX, Entry, EventType
from agents.lease import Lease
from agents.models import Run
from agents.snapshot import Work
from agents.states import RunStatus
from hitl import audit, faults, models, openings, values
from hitl.states import Reason
from hitl.transactions import unit_of_work

PAUSE_FIRST = timedelta(seconds=30)
PAUSE_FACTOR = 4


class Segment(Protocol):
    """What a segment of any kind of run knows: its lease, its run, and whether it has let go."""

    lease: Lease
    run: Run
    released: bool


def park(work: Work, asked: Park) -> None:
    """Ask about these calls and let go of the run, in one transaction (P1)."""
    drafts = draft_parks(work, asked)
    entries = [input_required(draft) for draft in drafts]
    with unit_of_work(durable=True):
        runs.write_later(
            work.run,
            work.lease,
            entries,
            heed_stop=True,
            status=RunStatus.WAITING_FOR_INPUT,
            along=openings.rows_of(drafts),
        )
        openings.opened(drafts, may_be_answered=bool(asked.jobs))
        work.released = True
        faults.point("park:saving")
    faults.point("park:saved")


def draft_parks(work: Work, asked: Park) -> list[models.Park]:
    """Return one park per question, not yet stored: the run's row is written before its parks.

    A worker that has lost its lease then learns it from the run, not from a park that the next
    worker has opened already.
    """
    return openings.draft_all("run", work.run.id, work.run.scope, gating.questions(work, asked))


def input_required(park: models.Park) -> Entry:
    """Return the event that says what is asked; what a guardrail holds is not shown in it (G3)."""
    return EventType.INPUT_REQUIRED, {
        "request_id": str(park.id),
        "tool_call_id": park.key,
        "tool_name": park.topic,
        "arguments": {} if park.reason == Reason.GUARDRAIL else park.arguments,
        "reason": park.reason,
        "agent": park.asker,
        "depth": park.asker_depth,
        "path": park.asker_path,
        "expires_at": park.expires_at.isoformat() if park.expires_at else None,
    }


def release(work: Segment, status: RunStatus) -> None:
    """Let go of the run in this status; QUEUED hands it back for another segment."""
    with unit_of_work(durable=True):
        runs.write_later(work.run, work.lease, [], heed_stop=True, status=status)
        work.released = True
        if status == RunStatus.QUEUED:
            runs.hurry(work.run.id)
        faults.point("run:releasing")
    faults.point("run:released")


def postpone(run_id: UUID, error: Exception) -> None:
    """Count a segment that could not begin, and try again later; the last one ends the run (H7).

    The code of a bad deploy fails so for every run that is woken. Their pauses grow, half a minute
    at first and four times as long each time, so that with `ATTEMPTS_MAX` as it is there are 42
    minutes to take it back before the first of them is given up. A worker that is not deployed yet
    and is handed a run of newer code loses half a minute.
    """
    text = f"The run could not go on: {type(error).__name__}: {error}"
    with unit_of_work(durable=True):
        run = runs.take(run_id)
        if run is None:
            return
        lease = Lease(run.id, run.lease_token)
        if run.attempts >= conf.count("ATTEMPTS_MAX"):
            _close(run, lease, RunStatus.FAILED, text, audit.system("run"))
        else:
            pause = PAUSE_FIRST * PAUSE_FACTOR ** (run.attempts - 1)
            opening = openings.Opening(
                key=f"begin:{run.lease_token}", reason=Reason.RETRY, ttl=pause
            )
            runs.write(lease, [], heed_stop=False, is_progress=False, status=RunStatus.WAITING)
            openings.open_all("run", run.id, run.scope, [opening])
        faults.point("postpone:saving")
    faults.point("postpone:saved")


def fail(work: Segment, error: str, *, entries: Sequence[Entry] = (), **changes: Any) -> None:
    """End the run as FAILED, closing everything it has open.

    `entries` are events to log first, `changes` further columns of the run's row.
    """
    _end(work, RunStatus.FAILED, error, audit.system("run"), entries, **changes)


def cancel(work: Segment) -> None:
    """End the run as CANCELLED, in the name of whoever stopped it (H8)."""
    reason, who = stopping.stop_of(work.run.id)
    _end(work, RunStatus.CANCELLED, reason, who)


def _end(
    work: Segment,
    status: RunStatus,
    error: str,
    who: audit.Actor,
    entries: Sequence[Entry] = (),
    **changes: Any,
) -> None:
    with unit_of_work(durable=True):
        _close(work.run, work.lease, status, error, who, entries, **changes)
        work.released = True
        faults.point("run:ending")
    faults.point("run:ended")


def _close(
    run: Run,
    lease: Lease,
    status: RunStatus,
    error: str,
    who: audit.Actor,
    first: Sequence[Entry] = (),
    **changes: Any,
) -> None:
    error = values.clean_text(error, chars_max=PREVIEW_CHARS_MAX)
    event = {"reason": error}
    if status == RunStatus.CANCELLED:
        event["actor"] = who.name
    runs.write(lease, [], heed_stop=False)  # the run's row first, then its parks
    entries = [*first, *closing.close_open_work(run, reason=error, actor=who)]
    entries.append((closing.ENDED[status], event))
    runs.write(lease, entries, heed_stop=False, status=status, error=error, **changes)
