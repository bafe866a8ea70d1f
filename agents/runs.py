"""The life of a run. The only writer of `Run.status`.

Every transition is one guarded UPDATE that returns the row, so it says whether it won and leaves
the row locked for the rest of the transaction. What a segment writes names its lease; the verbs
that come from outside (wake, stop) name the statuses they may leave.

Lock order: the run, then its parks. Model, tool and broker are never called from here.
"""

import itertools
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from types import MappingProxyType
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, F, OuterRef

from agents import conf, events
from agents.lease import Lease, LeaseLost, Overtaken, StopLanded
from agents.models import Run, RunKind, Thread
from agents.states import ACTIVE, FINAL, PARKED, RunStatus
from hitl import clock, faults, hints
from hitl.models import Park
from hitl.reads import whole
from hitl.rows import (
    Also,
    Change,
    Group,
    change_later,
    compare_and_set,
    compare_and_set_each,
    insert,
    lock_row,
    locked_free,
    new,
    update_returning,
)

logger = logging.getLogger(__name__)

SEGMENT = "agents.segment"
SELDOM = {
    *("idempotency_key", "correlation_key", "output", "error", "stop_asked"),
    *("created_at", "queued_at", "finished_at", "reported_at", "dropped_at"),
}
MOSTLY = tuple(name for name in whole(Run) if name not in SELDOM)
"""What is read with a run that is locked or taken; the rest is fetched where it is asked for."""
REPORT = "agents.report"
BRIEF = ("id", "thread_id", "parent_id", "status", "event_seq", "deliveries")  # as in the model
OWES_A_SEGMENT = "status = 'QUEUED' OR (status = 'RUNNING' AND lease_until <= %s)"
RULES_STAMP = {"rules_stamp": "SELECT value FROM agents_guardrailstamp WHERE id = 1"}
Entries = list[events.Entry]


# ── From outside ─────────────────────────────────────────────────────────────────────────────────


def create(
    thread: Thread,
    *,
    run_id: UUID,
    number: int,
    message: str,
    before: int,
    entries: Entries,
    along: Iterable[Group] = (),
    **of_parent: Any,
) -> Run:
    """Insert a QUEUED run in the caller's transaction; its first segment is sent on commit.

    `before` is the number of the thread's last event, `entries` are logged after it, and `along`
    are rows of other tables that are inserted first, in the same round trip.
    """
    now = clock.now()
    run = new(
        Run,
        id=run_id,
        thread_id=thread.id,
        target=thread.agent,
        number=number,
        input={"message": message},
        event_seq=before + len(entries),
        created_at=now,
        queued_at=now,
        **of_parent,
    )
    events.append(run, entries, at=now, along=[*along, [run]])
    faults.point("run:created")
    hurry(run.id)
    return run


def create_workflow(target: str, *, arguments: dict[str, Any], **more: Any) -> Run:
    """Insert a QUEUED run of a workflow in the caller's transaction, as `create` does."""
    now = clock.now()
    run = new(
        Run,
        kind=RunKind.WORKFLOW,
        target=target,
        input=arguments,
        created_at=now,
        queued_at=now,
        **more,
    )
    insert([run])
    faults.point("run:created")
    hurry(run.id)
    return run


def lock(run_id: UUID) -> Run | None:
    """Lock a run's row until the transaction ends; None when it is gone."""
    return lock_row(Run, run_id, MOSTLY)


def lock_free(run_ids: Collection[UUID]) -> list[Run]:
    """Lock those of these runs that go on and that nobody else holds."""
    return locked_free(Run.objects.filter(id__in=run_ids, status__in=ACTIVE).order_by("id"))


def hurry(run_id: UUID, *, delay: timedelta | None = None) -> None:
    """Hint on commit that this run owes a segment."""
    hints.send(SEGMENT, str(run_id), delay=delay)


def wake(run: Run, entries: Entries, *, is_free: bool) -> bool:
    """Log these events and queue a locked, parked run, if it is free: nothing it waits for is open.

    Returns whether it goes on.
    """
    now = clock.now()
    goes_on = is_free and run.status in PARKED
    _pass_on(run, goes_on, now, {"event_seq": len(entries)})
    events.append_unseen(run, entries, at=now)
    return goes_on


def wake_each(told: Sequence[tuple[Run, Entries]]) -> None:
    """Do what `wake` does, for many locked, parked runs in a few statements."""
    now = clock.now()
    for count, alike in itertools.groupby(sorted(told, key=_count), key=_count):
        entries = {run.id: mine for run, mine in alike}
        logged = Run.objects.filter(id__in=entries)
        free = logged.filter(status__in=PARKED).exclude(
            Exists(Park.objects.pending().filter(waiter_id=OuterRef("id")))
        )
        seq = F("event_seq") + count
        woken = update_returning(free, status=RunStatus.QUEUED, queued_at=now, event_seq=seq)
        rest = logged.exclude(id__in=[run.id for run in woken])
        others = update_returning(rest, event_seq=seq) if len(woken) < len(entries) else []
        events.append_each([(run, entries[run.id]) for run in [*woken, *others]], at=now)
        if woken:
            faults.point("wake:queued")
        for run in woken:
            hurry(run.id)


def _count(told: tuple[Run, Entries]) -> int:
    return len(told[1])


def deliver(run: Run, count: int) -> None:
    """Count completions in the journal of a locked workflow run, and queue it if it waits.

    Whatever came may be what a race waits for, so it is woken by each and not only by the last.
    """
    _pass_on(run, run.status in PARKED, clock.now(), {"deliveries": count})


def _pass_on(run: Run, goes_on: bool, now: datetime, add: Mapping[str, int]) -> None:
    """Count up under a locked run, and queue it if it goes on, with what is sent next."""
    queued = {"status": RunStatus.QUEUED, "queued_at": now} if goes_on else {}
    where = {"id": run.id, "status": run.status}
    own = Change(Run, where, set=queued, add=add, returning=("id",))
    change_later(own, otherwise=lambda: AssertionError("The run is not locked."))
    if goes_on:
        faults.point("wake:queued")
        hurry(run.id)


def reopen(run: Run, *, deliveries: int) -> bool:
    """Queue a locked run of a workflow that FAILED, so that it goes on from its journal.

    `deliveries` is how many completions that holds by now. Should another run be the active one for
    its correlation key by now, events stay that one's.
    """
    others = Run.objects.filter(
        target=run.target, correlation_key=run.correlation_key, status__in=ACTIVE
    )
    is_taken = run.correlation_key is not None and others.exists()
    failed = Run.objects.filter(id=run.id, status=RunStatus.FAILED, kind=RunKind.WORKFLOW)
    if not failed.update(
        status=RunStatus.QUEUED,
        queued_at=clock.now(),
        finished_at=None,
        reported_at=None,
        error="",
        attempts=0,
        deliveries=deliveries,
        stop_requested=False,
        stop_asked=None,
        correlation_key=None if is_taken else run.correlation_key,
    ):
        return False
    faults.point("run:reopened")
    hurry(run.id)
    return True


def close(run: Run, status: RunStatus, entries: Entries, *, error: str = "") -> Run | None:
    """End a locked run from outside its segments. Any lease is void from here on.

    Returns None when it had already ended.
    """
    now = clock.now()
    rows = update_returning(
        Run.objects.filter(id=run.id, status__in=ACTIVE),
        status=status,
        error=error,
        finished_at=now,
        lease_until=None,
        lease_token=F("lease_token") + 1,
        event_seq=F("event_seq") + len(entries),
    )
    if not rows:
        return None
    events.append(rows[0], entries, at=now)
    _tell_of(rows[0], status)
    faults.point("run:closed")
    return rows[0]


def log(run: Run, entries: Entries) -> Run:
    """Log events under a locked run that does not change status."""
    [row] = update_returning(Run.objects.filter(id=run.id), event_seq=F("event_seq") + len(entries))
    events.append(row, entries, at=clock.now())
    return row


# ── Under a lease ────────────────────────────────────────────────────────────────────────────────


def take(run_id: UUID) -> Run | None:
    """Take the lease of a run that owes a segment: QUEUED, or RUNNING with a lapsed lease.

    One query, one winner. None when somebody else has it, or nothing is owed. The winner's token is
    higher than any before. It also reads the stamp of the guardrails, so that a change of a rule is
    seen by the next segment of any worker.
    """
    now = clock.now()
    run = compare_and_set(
        Run,
        {"id": run_id},
        set={"status": RunStatus.RUNNING, "lease_until": now + conf.duration("LEASE")},
        add={"lease_token": 1, "attempts": 1},
        also=Also(OWES_A_SEGMENT, (("lease_until", now),)),
        returning=MOSTLY,
        reading=RULES_STAMP,
    )
    faults.point("lease:taken")
    return run


def write(
    lease: Lease,
    entries: Entries,
    *,
    heed_stop: bool,
    status: RunStatus | None = None,
    is_progress: bool = True,
    add: Mapping[str, int] = MappingProxyType({}),
    **changes: Any,
) -> Run:
    """Write under a lease: renew it, log the events, apply the changes; the row stays locked.

    `add` is what is added to counters. A write is progress and clears the count of attempts, unless
    `is_progress` is false. Raises `LeaseLost` when another worker took over, and `StopLanded` when
    a stop was asked for and this write heeds it.
    """
    now = clock.now()
    own = _change(lease, len(entries), now, heed_stop, status, is_progress, {}, add, changes)
    [run] = compare_and_set_each([own])
    if run is None:
        raise _why_not(lease, heed_stop) or LeaseLost()
    events.append(run, entries, at=now)
    _tell_of(run, status)
    return run


def write_later(
    run: Run,
    lease: Lease,
    entries: Entries,
    *,
    heed_stop: bool,
    status: RunStatus | None = None,
    is_progress: bool = True,
    expected: Mapping[str, Any] = MappingProxyType({}),
    add: Mapping[str, int] = MappingProxyType({}),
    along: Iterable[Group] = (),
    changing: Sequence[Change[Any]] = (),
    **changes: Any,
) -> None:
    """Do what `write` does, in one message with what comes until the unit of work asks for more.

    `along` are new rows of other tables, which are inserted together with the events, and
    `changing` what else changes. Raises what `write` does, and `Overtaken` when the row does not
    hold what is `expected` any more, when the message is sent: at the end of the unit of work, if
    not before. Nothing is kept then.
    """
    now = clock.now()
    own = _change(lease, len(entries), now, heed_stop, status, is_progress, expected, add, changes)
    change_later(own, otherwise=partial(_why_not, lease, heed_stop, expected))
    for other in changing:
        change_later(other, otherwise=LeaseLost)
    events.append_unseen(run, entries, at=now, along=along)
    _tell_of(run, status)


def _change(
    lease: Lease,
    count: int,
    now: datetime,
    heed_stop: bool,
    status: RunStatus | None,
    is_progress: bool,
    expected: Mapping[str, Any],
    add: Mapping[str, int],
    changes: dict[str, Any],
) -> Change[Run]:
    """Return the write of a run's row under its lease, which gives out `count` event numbers."""
    changes["lease_until"] = now + conf.duration("LEASE")
    if is_progress:
        changes["attempts"] = 0
    if status is not None:
        changes |= {"status": status, "lease_until": None}
        if status in FINAL:
            changes["finished_at"] = now
        if status == RunStatus.QUEUED:
            changes["queued_at"] = now
    return Change(
        Run,
        {**_held(lease), **expected, **({"stop_requested": False} if heed_stop else {})},
        set=changes,
        add={"event_seq": count, **add},
        returning=BRIEF,
    )


def _held(lease: Lease) -> dict[str, Any]:
    """Return what a run's row says while this lease is held."""
    return {"id": lease.run_id, "lease_token": lease.token, "status": RunStatus.RUNNING}


def _why_not(
    lease: Lease, heed_stop: bool, expected: Mapping[str, Any] = MappingProxyType({})
) -> BaseException | None:
    """Return why a write under a lease matched nothing; None when it would match now."""
    held = Run.objects.filter(**_held(lease)).values("stop_requested", *expected).first()
    if held is None:
        return LeaseLost()
    if heed_stop and held["stop_requested"]:
        return StopLanded()
    return Overtaken() if any(held[name] != value for name, value in expected.items()) else None


def _tell_of(run: Run, status: RunStatus | None) -> None:
    """Log, on commit, the status of a run, and hint that one that ended owes a report."""
    if status is not None:
        transaction.on_commit(partial(logger.info, "run %s: %s", run.id, status))
    if status in FINAL and run.parent_id is not None:
        hints.send(REPORT, str(run.id))


def seen(run_id: UUID) -> Run:
    """Return the run's row as it is now, not locked."""
    return Run.objects.get(id=run_id)


def renew(lease: Lease) -> None:
    """Renew a lease from the heartbeat, and note on it that it is lost or that a stop landed."""
    held = compare_and_set(
        Run,
        _held(lease),
        set={"lease_until": clock.now() + conf.duration("LEASE")},
        returning=("stop_requested",),
    )
    lease.lost = held is None
    lease.stop_seen = held is not None and held.stop_requested


def is_owed(run: Run) -> bool:
    """Tell whether this run owes a segment now."""
    if run.status == RunStatus.RUNNING:
        return run.lease_until is not None and run.lease_until <= clock.now()
    return run.status == RunStatus.QUEUED
