"""Going on with a run that FAILED, once its code is mended: what its failure closed opens again.

In the caller's transaction, with the run's row locked. What is done stays done, but for the step
whose failure ended the body: it is tried anew. A gate is asked again with a full window, a sleep
keeps its deadline, a hook takes its token again, if nobody else holds it by now.
"""

from datetime import timedelta
from uuid import UUID

from agents import threads
from agents.models import JournalEntry, Run
from agents.states import ACTIVE, EntryState
from agents.workflows import attempts, bodies, journal
from agents.workflows.awaiting import AGENT, STEP
from agents.workflows.replay import Raised
from hitl import clock, faults, openings
from hitl.errors import HitlError
from hitl.ids import new_id
from hitl.models import Park
from hitl.openings import Opening
from hitl.states import OnTimeout, Reason

LEAST = timedelta(milliseconds=1)


def reopen(run: Run) -> int:
    """Open again what the failure of this run closed; returns how many completions are left."""
    left = _take_back_failure(run)
    closed = JournalEntry.objects.filter(run_id=run.id, state=EntryState.CLOSED)
    for entry in closed.order_by("position", "number"):
        if entry.kind == STEP:
            _step(entry)
        elif entry.kind == AGENT:
            left += _child(run, entry, left + 1)
        else:
            left += _wait(run, entry, left + 1)
    faults.point("journal:reopened")
    return left


def _take_back_failure(run: Run) -> int:
    """Take back the failure of a step that ended the body; returns how many are left."""
    order = _last_word(run)
    if order is None:
        return run.deliveries
    ended = JournalEntry.objects.filter(run_id=run.id, delivered=order, kind=STEP)
    failed = ended.filter(error__isnull=False).first()
    if failed is None:
        return run.deliveries
    is_apart = failed.is_apart
    JournalEntry.objects.filter(id=failed.id).update(
        state=EntryState.OPEN,
        delivered=None,
        error=None,
        failures=0,
        attempts=0,
        done_at=None,
        owed_at=clock.now() if is_apart else None,
    )
    if is_apart:
        attempts.hurry(failed.id, failed.queue)
    later = JournalEntry.objects.filter(run_id=run.id, delivered__gt=order)
    for entry_id, place in list(later.order_by("delivered").values_list("id", "delivered")):
        JournalEntry.objects.filter(id=entry_id).update(delivered=(place or 0) - 1)
    return run.deliveries - 1


def _last_word(run: Run) -> int | None:
    """Return the completion at which the body ended, as its code is now."""
    body = bodies.body_of(run)
    if isinstance(body, HitlError):
        return None
    held = journal.load(run.id)
    session = bodies.session_of(held)
    try:
        session.start(body)
        outcome = session.advance()
        for order, delivery in enumerate(held.completed, start=1):
            if isinstance(outcome, Raised):
                return None
            outcome = session.advance([delivery])
            if isinstance(outcome, Raised):
                return order
    finally:
        session.close()
    return None


def _step(entry: JournalEntry) -> None:
    """Put a step back; one that a worker was in is in doubt."""
    was_inside = entry.attempts > entry.failures
    JournalEntry.objects.filter(id=entry.id).update(
        state=EntryState.CLAIMED if was_inside else EntryState.OPEN,
        owed_at=clock.now() if entry.is_apart else None,
        due_at=None,
        done_at=None,
    )
    if entry.is_apart:
        attempts.hurry(entry.id, entry.queue)


def _wait(run: Run, entry: JournalEntry, order: int) -> bool:
    """Open the park of a wait again; True when that is over at once, its token being held."""
    old = Park.objects.filter(id=entry.id).first()
    if old is None:
        return False
    if old.token is not None and Park.objects.pending().filter(token=old.token).exists():
        return _conflict(entry, order)
    fresh = _renamed(entry)
    openings.open_all("run", run.id, run.id, [_again(old, fresh)])
    return False


def _conflict(entry: JournalEntry, order: int) -> bool:
    JournalEntry.objects.filter(id=entry.id).update(state=EntryState.OPEN, done_at=None)
    result, error = journal.conflict(entry.kind, clock.now())
    return journal.complete(entry.id, order, result=result, error=error)


def _renamed(entry: JournalEntry) -> UUID:
    """Open an entry under a new id: a park has the id of its entry, and the old one is over."""
    fresh = new_id()
    JournalEntry.objects.filter(id=entry.id).update(
        id=fresh, state=EntryState.OPEN, owed_at=None, done_at=None
    )
    return fresh


def _again(old: Park, fresh: UUID) -> Opening:
    """Return the opening that asks what a withdrawn park asked."""
    ttl = old.expires_at - old.opened_at if old.expires_at is not None else None
    if old.reason == Reason.SLEEP and old.expires_at is not None:
        ttl = max(old.expires_at - clock.now(), LEAST)
    return Opening(
        id=fresh,
        key=old.key,
        reason=old.reason,
        ttl=ttl,
        title=old.title,
        topic=old.topic,
        description=old.description,
        asker=old.asker,
        asker_path=old.asker_path,
        arguments=old.arguments,
        digest=old.digest,
        takes_payload=old.takes_payload,
        on_timeout=OnTimeout(old.on_timeout),
        policy=old.policy,
        metadata=old.metadata,
        token=old.token,
        schema=old.schema,
    )


def _child(run: Run, entry: JournalEntry, order: int) -> bool:
    """Wait again for a child that goes on, or begin another; True when there can be none."""
    children = Run.objects.filter(parent_id=run.id, parent_key=str(entry.id))
    child = children.select_related("thread__owner").first()
    if child is not None and child.status in ACTIVE and not child.stop_requested:
        JournalEntry.objects.filter(id=entry.id).update(state=EntryState.OPEN, done_at=None)
        return False
    fresh = _renamed(entry)
    owner = child.thread.owner if child is not None and child.thread is not None else None
    try:
        threads.start_for(run, str(fresh), entry.name, entry.input["message"], user=owner)
    except HitlError as error:
        said = {"type": type(error).__name__, "text": str(error)}
        return journal.complete(fresh, order, error=said)
    return False
