"""What holds of the rows of workflows at every moment: a part of `tests/invariants.py`."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from uuid import UUID

from agents import backlog
from agents.models import JournalEntry, Run, RunKind
from agents.states import FINAL, PARKED, EntryState, RunStatus
from agents.workflows.journal import OPEN_STATES
from hitl.models import Park
from hitl.states import Reason

OF_BODIES = {Reason.APPROVAL, Reason.HOOK, Reason.SLEEP}


@dataclass
class Journals:
    """All runs of workflows with their journals and open parks, read once."""

    @cached_property
    def runs(self) -> list[Run]:
        return list(Run.objects.filter(kind=RunKind.WORKFLOW).order_by("id"))

    @cached_property
    def entries(self) -> dict[UUID, list[JournalEntry]]:
        found: dict[UUID, list[JournalEntry]] = defaultdict(list)
        for entry in JournalEntry.objects.order_by("position", "number"):
            found[entry.run_id].append(entry)
        return found

    @cached_property
    def open(self) -> dict[UUID, list[Park]]:
        found: dict[UUID, list[Park]] = defaultdict(list)
        for park in Park.objects.pending().order_by("id"):
            found[park.waiter_id].append(park)
        return found


Check = Callable[[Journals], Iterator[str]]


def a_journal_has_no_gap(rows: Journals) -> Iterator[str]:
    """W7: neither in the positions nor in the order of completions, which the run counts."""
    for run in rows.runs:
        entries = rows.entries[run.id]
        positions = [entry.position for entry in entries if entry.number == 0]
        if positions != list(range(len(positions))):
            yield f"run {run.id}: positions {positions}"
        delivered = sorted(entry.delivered for entry in entries if entry.delivered)
        if delivered != list(range(1, run.deliveries + 1)):
            yield f"run {run.id} counts {run.deliveries} completions: {delivered}"


def an_entry_is_open_as_long_as_its_park(rows: Journals) -> Iterator[str]:
    """W10: a gate, hook or sleep has a park of its own id, and what has ended waits for nothing."""
    for run in rows.runs:
        left = [entry for entry in rows.entries[run.id] if entry.state in OPEN_STATES]
        pending = {park.id for park in rows.open[run.id] if park.reason in OF_BODIES}
        if pending != {entry.id for entry in left if entry.kind in ("approval", "hook", "sleep")}:
            yield f"run {run.id} waits in its journal for {left}, and open are {pending}"
        if run.status in FINAL and (left or rows.open[run.id]):
            yield f"run {run.id} is {run.status}, and open are {left}"


def a_workflow_says_what_it_waits_for(rows: Journals) -> Iterator[str]:
    """WAITING_FOR_INPUT while someone can answer; WAITING while only timers or work are open."""
    for run in rows.runs:
        asks = any(not park.is_timer for park in rows.open[run.id])
        if run.status in PARKED and asks != (run.status == RunStatus.WAITING_FOR_INPUT):
            yield f"run {run.id} is {run.status}, open parks: {len(rows.open[run.id])}"
        if (run.lease_until is not None) != (run.status == RunStatus.RUNNING):
            yield f"run {run.id} is {run.status}, its lease runs until {run.lease_until}"


def no_workflow_is_stuck(rows: Journals) -> Iterator[str]:
    """Rule 6: it has ended, is owed a segment, is held, or something open will move it."""
    owing = set(backlog.owing(limit=Run.objects.count() + 1))
    for run in rows.runs:
        goes_on = (
            run.status in FINAL
            or run.id in owing
            or run.status == RunStatus.RUNNING
            or any(park.expires_at or not park.is_timer for park in rows.open[run.id])
            or any(
                entry.owed_at is not None or entry.kind == "agent"
                for entry in rows.entries[run.id]
                if entry.state in OPEN_STATES
            )
        )
        if not goes_on:
            yield f"run {run.id} is {run.status}, and nothing will ever move it"


def a_step_is_kept_once_or_put_back(rows: Journals) -> Iterator[str]:
    """A5, W9: what is complete says when, and what is claimed says by whom."""
    for entry in (entry for entries in rows.entries.values() for entry in entries):
        is_done = entry.state == EntryState.DONE
        if is_done != (entry.delivered is not None) or (is_done and entry.done_at is None):
            yield f"entry {entry.id} is {entry.state}, delivered as {entry.delivered}"
        if entry.state == EntryState.CLAIMED and not entry.claim:
            yield f"entry {entry.id} is claimed by nobody"


CHECKS: tuple[Check, ...] = (
    a_journal_has_no_gap,
    an_entry_is_open_as_long_as_its_park,
    a_workflow_says_what_it_waits_for,
    no_workflow_is_stuck,
    a_step_is_kept_once_or_put_back,
)


def violations() -> list[str]:
    """Return one sentence per broken invariant."""
    rows = Journals()
    if not rows.runs:
        return []
    return [f"{check.__name__}: {found}" for check in CHECKS for found in check(rows)]
