"""What a settled park means to the workflow that waits for it: a completion in its journal.

Called with the run's row locked, in the transaction that settles the park, so the answer, its place
in the order and the wake-up are one commit.
"""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from agents import runs
from agents.models import JournalEntry, Run
from agents.states import EntryState
from agents.workflows import attempts, issuing, journal
from hitl import openings
from hitl.models import Park
from hitl.states import ParkStatus, Reason

DENIED = {
    ParkStatus.REJECTED: "A person decided to give it up.",
    ParkStatus.TIMED_OUT: "Nobody could say whether it happened.",
    ParkStatus.CANCELLED: "The question about it was withdrawn.",
}


def settled(run: Run, parks: Iterable[Park]) -> None:
    """Complete what these parks stood for, in their order, and wake the run."""
    count, is_news = 0, False
    for park in parks:
        order = run.deliveries + count + 1
        if park.reason in (Reason.RETRY, Reason.IN_DOUBT):
            completed, wakes = _of_step(park, order)
            is_news = is_news or wakes
        else:
            completed = _of_wait(run, park, order)
        count += completed
    if count or is_news:
        runs.deliver(run, count)


def _of_step(park: Park, order: int) -> tuple[bool, bool]:
    """Return whether a step was completed, and whether its segment is to go on with it."""
    entry_id = park.metadata.get("entry")
    row = JournalEntry.objects.filter(id=entry_id).first() if entry_id else None
    if row is None:
        return False, True  # the pause of a segment that could not begin
    if park.reason == Reason.IN_DOUBT:
        answer = park.answer or {}
        if park.status != ParkStatus.APPROVED or "payload" in answer:
            error = _unknown(park) if park.status != ParkStatus.APPROVED else None
            result = answer.get("payload") if error is None else None
            return journal.complete(row.id, order, result=result, error=error), False
        owed_at = park.settled_at if row.is_apart else None
        journal.put_back(row.id, state=EntryState.OPEN, owed_at=owed_at)
    if row.is_apart:
        attempts.hurry(row.id, row.queue)
    return False, not row.is_apart or park.reason == Reason.IN_DOUBT


def _unknown(park: Park) -> dict[str, str]:
    said = f"{attempts.UNKNOWN} {DENIED[ParkStatus(park.status)]} {park.answer_reason}"
    return {"type": "InDoubt", "text": said.strip()}


def _of_wait(run: Run, park: Park, order: int) -> bool:
    """Complete the gate, hook or sleep that a park was; a hook's next delivery opens with it."""
    if park.reason == Reason.HOOK:
        return _of_hook(run, park, order)
    result = _decision(park) if park.reason == Reason.APPROVAL else None
    return journal.complete(park.id, order, result=result)


def _of_hook(run: Run, park: Park, order: int) -> bool:
    if park.status != ParkStatus.APPROVED:
        error = {"type": "HookClosed", "text": park.answer_reason}
        return journal.complete(park.id, order, error=error)
    completed = journal.complete(park.id, order, result=(park.answer or {}).get("payload"))
    if completed and (row := journal.follow(park.id)) is not None:
        opening = issuing.hook_opening(row, park.schema, asker=run.target)
        openings.open_all("run", run.id, run.id, [opening])
    return completed


def _decision(park: Park) -> dict[str, Any]:
    """Return a settled gate as the journal keeps it (W2, W5)."""
    assert park.settled_at is not None, "a settled park has its time"
    timed_out = park.expires_at is not None and park.settled_at >= park.expires_at
    approved = park.status == ParkStatus.APPROVED
    return {
        "status": "approved" if approved else "rejected",
        "payload": (park.answer or {}).get("payload"),
        "timed_out": timed_out and park.status in (ParkStatus.APPROVED, ParkStatus.TIMED_OUT),
        "conflict": False,
        "reason": park.answer_reason,
        "actor": park.settled_by,
        "decided_at": park.settled_at.isoformat(),
    }


def has_open_work(run_id: UUID) -> bool:
    """Tell whether a run still waits for anything that its journal knows of."""
    open_here = JournalEntry.objects.filter(run_id=run_id, state__in=journal.OPEN_STATES)
    return open_here.exists()
