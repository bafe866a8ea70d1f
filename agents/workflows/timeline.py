"""What happened in a run of a workflow, entry by entry, for the page that shows it. Reads rows.

A page costs three queries, however much the journal holds.
"""

from collections import defaultdict
from dataclasses import dataclass
from datetime import timedelta

from agents.models import JournalEntry, Run
from agents.states import EntryState
from hitl.models import Park
from hitl.states import Reason

SHOWN_MAX = 200
LABELS = {
    EntryState.CLAIMED: "RUNNING",
    EntryState.ASKED: "in_doubt",
    EntryState.CLOSED: "closed",
}


@dataclass(frozen=True, slots=True)
class Shown:
    """One entry, with the park that it waits or waited on, and the pause before its next try."""

    entry: JournalEntry
    park: Park | None
    pause: Park | None

    @property
    def label(self) -> str:
        """How it stands, in the words of the screens."""
        if self.entry.state == EntryState.DONE:
            return "error" if self.entry.error else "ok"
        if self.entry.state == EntryState.OPEN:
            return "QUEUED" if self.entry.kind == "step" and not self.pause else "pending"
        return LABELS[EntryState(self.entry.state)]

    @property
    def lasted(self) -> timedelta | None:
        """From when it was asked for until it was over; None for any other."""
        if self.entry.done_at is None or not self.entry.delivered:
            return None  # open, closed unfinished, or known at once
        return self.entry.done_at - self.entry.created_at

    @property
    def is_value(self) -> bool:
        """Tell whether it is a value that was known at once: a time, a random number, an id."""
        return self.entry.delivered == 0

    @property
    def tries(self) -> int:
        return self.entry.attempts if self.entry.kind == "step" else 0


@dataclass(frozen=True, slots=True)
class Timeline:
    """A page of entries, oldest first. `before` is the position to go on from, for earlier ones."""

    items: list[Shown]
    before: int | None

    @property
    def is_cut(self) -> bool:
        return self.before is not None


def read(run: Run, *, before: int | None = None) -> Timeline:
    """Return the newest entries of a run, or those before a position."""
    rows = JournalEntry.objects.filter(run=run)
    if before is not None:
        rows = rows.filter(position__lt=before)
    newest = list(rows.order_by("-position", "-number")[: SHOWN_MAX + 1])
    entries = newest[:SHOWN_MAX][::-1]
    waits, pauses = _parks(run)
    items = [
        Shown(entry, waits.get(str(entry.id)), _open(pauses[str(entry.id)])) for entry in entries
    ]
    is_cut = len(newest) > SHOWN_MAX
    return Timeline(items, entries[0].position if is_cut else None)


def _parks(run: Run) -> tuple[dict[str, Park], dict[str, list[Park]]]:
    """Return the parks by the entry that waits on them, and the pauses between tries of a step."""
    waits: dict[str, Park] = {}
    pauses: dict[str, list[Park]] = defaultdict(list)
    newest = Park.objects.filter(waiter_id=run.id).defer("arguments", "answer").order_by("-id")
    for park in newest[: SHOWN_MAX * 2]:
        entry_id = park.metadata.get("entry")
        if park.reason == Reason.RETRY and entry_id:
            pauses[str(entry_id)].append(park)
        else:
            waits.setdefault(str(entry_id or park.id), park)
    return waits, pauses


def _open(parks: list[Park]) -> Park | None:
    return next((park for park in parks if park.is_pending), None)
