"""The journal of a workflow's run: rows on the one side, what replay goes by on the other.

Only writer of `JournalEntry`. Every change of an entry that is open is a compare-and-set, in a
transaction that holds the run's row, so the order of completions has no gap and no double.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import itemgetter
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import F, Q

from agents import conf
from agents.lease import LeaseLost
from agents.models import JournalEntry
from agents.states import EntryState
from agents.workflows.awaiting import AGENT
from agents.workflows.gates import HOOK
from agents.workflows.replay import Delivery, Recorded
from hitl import clock, faults, rows, values
from hitl.ids import new_id
from hitl.rows import Also, Group

COLUMNS = (
    *("id", "position", "number", "kind", "name", "digest", "state", "delivered", "result"),
    *("error", "repeats", "claim", "attempts", "failures", "is_apart", "due_at"),
)
WHOLE = (
    "SELECT position, number, kind, name, digest, state, delivered, result, error "
    "FROM agents_journalentry WHERE run_id = %s ORDER BY position, number"
)
HOOK_DELIVERIES_MAX = 10_000
OPEN_STATES = (EntryState.OPEN, EntryState.CLAIMED, EntryState.ASKED)
IS_OPEN = Also("state IN ('open', 'claimed', 'asked')")
BATCH = 500


@dataclass(slots=True)
class Entry:
    """One row of the journal, as a segment sees it."""

    id: UUID
    position: int
    number: int
    kind: str
    name: str
    digest: str
    state: str
    delivered: int | None
    result: Any
    error: Any
    repeats: bool
    claim: int
    attempts: int
    failures: int
    is_apart: bool
    due_at: datetime | None

    @property
    def is_open(self) -> bool:
        return self.state in OPEN_STATES


@dataclass(slots=True)
class Journal:
    """All entries of a run: by position, and in the order of their completions."""

    recorded: list[Recorded] = field(default_factory=list)
    completed: list[Delivery] = field(default_factory=list)
    open: dict[int, Entry] = field(default_factory=dict)

    def add(self, entries: Iterable[Entry]) -> None:
        """Take in entries as they stand, in order of position and number."""
        for entry in entries:
            if entry.number == 0 and entry.position == len(self.recorded):
                self.recorded.append(Recorded(entry.kind, entry.name, entry.digest, entry.result))
            if entry.is_open:
                self.open[entry.position] = entry

    def complete(self, entries: Sequence[Entry]) -> list[Delivery]:
        """Take in the completions after those that are known; returns them in their order."""
        came = sorted(
            (entry for entry in entries if entry.delivered), key=lambda entry: entry.delivered or 0
        )
        for place, entry in enumerate(came, start=len(self.completed) + 1):
            assert entry.delivered == place, "completions are numbered without a gap"
            held = self.open.get(entry.position)
            if held is not None and held.number <= entry.number:
                del self.open[entry.position]
        deliveries = [Delivery(entry.position, entry.result, entry.error) for entry in came]
        self.completed += deliveries
        return deliveries


def load(run_id: UUID) -> Journal:
    """Read the whole journal of a run: what replay needs of each entry, and whatever is open.

    In plain SQL, since a journal may have thousands of entries and each is looked at once.
    """
    journal, came, is_open = Journal(), [], False
    with connection.cursor() as cursor:
        cursor.execute(WHOLE, [JournalEntry._meta.pk.get_db_prep_value(run_id, connection)])
        for position, number, kind, name, digest, state, delivered, result, error in cursor:
            value = None if result is None else values.loads(result)
            if number == 0:
                journal.recorded.append(Recorded(kind, name, digest, value))
            if delivered:
                failed: Any = None if error is None else values.loads(error)
                came.append((delivered, Delivery(position, value, failed)))
            is_open = is_open or state in OPEN_STATES
    came.sort(key=itemgetter(0))
    journal.completed = [delivery for _, delivery in came]
    if is_open:
        journal.add(_read(Q(run_id=run_id, state__in=OPEN_STATES)))
    return journal


def catch_up(run_id: UUID, journal: Journal) -> list[Delivery]:
    """Read what was completed since, and what stands open now; returns the new completions."""
    fresh = _read(
        Q(run_id=run_id, delivered__gt=len(journal.completed))
        | Q(run_id=run_id, state__in=OPEN_STATES)
    )
    journal.open.clear()
    came = journal.complete(fresh)
    journal.add(fresh)
    return came


def _read(which: Q) -> list[Entry]:
    found = JournalEntry.objects.filter(which).order_by("position", "number")
    return [Entry(*row) for row in found.values_list(*COLUMNS)]


# ── Writing, with the run's row locked ───────────────────────────────────────────────────────────


def insert(run_id: UUID, asked: Sequence[JournalEntry], along: Iterable[Group] = ()) -> None:
    """Write down what a body has asked for; `along` are rows of other tables that go with it."""
    for row in asked:
        row.run_id = run_id
    batches = [asked[begin : begin + BATCH] for begin in range(0, len(asked), BATCH)]
    rows.insert(*batches, *along)
    faults.point("journal:written")


def complete(entry_id: UUID, order: int, *, result: Any = None, error: Any = None) -> bool:
    """Keep the completion of an open entry under this number; False when nothing is open there.

    The caller holds the run's row and counts the number up in the same transaction.
    """
    [changed] = rows.compare_and_set_each([_completion(entry_id, order, result, error)])
    faults.point("entry:completed")
    return changed is not None


def complete_later(entry_id: UUID, order: int, *, result: Any, error: Any) -> None:
    """Do what `complete` does with what is sent next; raises `LeaseLost` if nothing is open."""
    rows.change_later(_completion(entry_id, order, result, error), otherwise=LeaseLost)
    faults.point("entry:completed")


def _completion(entry_id: UUID, order: int, result: Any, error: Any) -> rows.Change[JournalEntry]:
    return rows.Change(
        JournalEntry,
        {"id": entry_id},
        set={
            "state": EntryState.DONE,
            "delivered": order,
            "result": result,
            "error": error,
            "owed_at": None,
            "done_at": clock.now(),
        },
        also=IS_OPEN,
        returning=("id",),
    )


def follow(entry_id: UUID) -> JournalEntry | None:
    """Open the next delivery of a hook that may be iterated; None when it takes no more."""
    last = JournalEntry.objects.filter(id=entry_id, repeats=True).first()
    if last is None or last.number >= HOOK_DELIVERIES_MAX:
        return None
    now = clock.now()
    return JournalEntry.objects.create(
        id=new_id(),
        run_id=last.run_id,
        position=last.position,
        number=last.number + 1,
        kind=last.kind,
        name=last.name,
        digest=last.digest,
        input=last.input,
        state=EntryState.OPEN,
        repeats=True,
        created_at=now,
    )


def claim(entry_id: UUID, *, was: int, token: int, owed_at: datetime | None = None) -> bool:
    """Note that a worker goes into a step: what tells, after a crash, that it may have run."""
    return bool(
        JournalEntry.objects.filter(id=entry_id, claim=was, state__in=OPEN_STATES).update(
            state=EntryState.CLAIMED,
            claim=token,
            attempts=F("attempts") + 1,
            due_at=None,
            owed_at=owed_at,
        )
    )


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to keep what comes of a step that runs apart."""

    entry_id: UUID
    token: int


def renew(claim: Claim) -> None:
    """Renew a claim from the heartbeat."""
    mine = JournalEntry.objects.filter(
        id=claim.entry_id, claim=claim.token, state=EntryState.CLAIMED
    )
    mine.update(owed_at=clock.now() + conf.duration("LEASE"))


def put_back(entry_id: UUID, **changes: Any) -> bool:
    """Note that nobody is in a step any more, and that it is to be tried again or asked about."""
    open_here = JournalEntry.objects.filter(id=entry_id, state__in=OPEN_STATES)
    return bool(open_here.update(**changes))


def take_once(run_id: UUID, positions: Iterable[int]) -> None:
    """Note that the next delivery of these hooks is the last that they take."""
    at = list(positions)
    if not at:
        return
    mine = JournalEntry.objects.filter(run_id=run_id, position__in=at, repeats=True)
    mine.filter(state=EntryState.OPEN).update(repeats=False)


def close(run_id: UUID, entry_ids: Iterable[UUID] | None = None) -> bool:
    """Close these entries, or all that is open: nothing comes of them any more.

    Returns whether any of them waits for a run of its own, which is to be stopped then.
    """
    mine = JournalEntry.objects.filter(run_id=run_id, state__in=OPEN_STATES)
    if entry_ids is not None:
        mine = mine.filter(id__in=entry_ids)
    has_children = mine.filter(kind=AGENT).exists()
    mine.update(state=EntryState.CLOSED, owed_at=None, done_at=clock.now())
    faults.point("journal:closed")
    return has_children


def conflict(kind: str, at: datetime) -> tuple[Any, Any]:
    """Return result and error of a gate or hook whose token is held elsewhere (W4)."""
    if kind == HOOK:
        return None, {"type": "HookConflict", "text": ""}
    return {
        "status": "rejected",
        "payload": None,
        "timed_out": True,
        "conflict": True,
        "reason": "The token is held by another wait.",
        "actor": "",
        "decided_at": at.isoformat(),
    }, None
