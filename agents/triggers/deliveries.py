"""The events that came to triggers, and what became of each. The only writer of their status.

A received one owes a look, a buffered one another look until its window is over; `owed_at` says
when, the task is only a hint, and the sweep repeats it. Every step is a compare-and-set.

Lock order: the run, its parks, then the delivery.
"""

import logging
from datetime import timedelta
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import F, Q

from agents import conf
from agents.models import Run, Trigger, TriggerDelivery
from agents.states import REPEATABLE, UNSETTLED, DeliveryStatus
from hitl import clock, faults, hints, values
from hitl.ids import new_id
from hitl.rows import update_returning
from hitl.values import JSON

logger = logging.getLogger(__name__)

TASK = "agents.trigger"
RETRY = timedelta(seconds=10)  # doubled with each attempt
RETRY_MAX = timedelta(minutes=10)
LOOK_AGAIN = timedelta(seconds=30)
ERROR_CHARS_MAX = 2000
FORGOTTEN_MAX = 1000  # old rows that one sweep deletes


class Overtaken(Exception):
    """Somebody else settled this delivery first: what was done here is rolled back."""


# ── Coming in ────────────────────────────────────────────────────────────────────────────────────


def receive(
    trigger: Trigger, *, delivery_id: str | None, digest: str, body: JSON, error: str = ""
) -> tuple[TriggerDelivery, bool]:
    """Write down an event, and hint at the work; also tell whether it is new.

    One that came before, by its `delivery_id`, is returned as it stands and nothing is done (K3).
    Without an id each counts as new. With an `error` the row is there to be seen, and has failed.
    """
    now, row_id = clock.now(), new_id()
    name = values.clean_text(delivery_id or str(row_id))
    failed = {"status": DeliveryStatus.FAILED, "settled_at": now, "error": _shortened(error)}
    try:
        with transaction.atomic(durable=True):
            delivery = TriggerDelivery.objects.create(
                id=row_id,
                trigger=trigger,
                delivery_id=name,
                digest=digest,
                body=body,
                received_at=now,
                **(failed if error else {"owed_at": now}),
            )
            faults.point("delivery:received")
            if not error:
                hurry(delivery.id)
    except IntegrityError:
        known = TriggerDelivery.objects.filter(trigger=trigger, delivery_id=name).first()
        if known is None:
            raise
        return known, False
    return delivery, True


def refused(trigger: Trigger, why: str) -> None:
    """Count a request that was turned away: nothing of it is kept, whoever sent it."""
    Trigger.objects.filter(id=trigger.id).update(
        refused_count=F("refused_count") + 1, refused_at=clock.now(), refused_why=why[:200]
    )
    logger.warning("trigger %s: a request was refused: %s", trigger.slug, why)


# ── Being handled ────────────────────────────────────────────────────────────────────────────────


def begin(row_id: UUID) -> TriggerDelivery | None:
    """Take up a delivery that owes a look; None when it is settled, or another worker has it.

    Should this worker die, it is owed again after a while. Attempts are counted, but not those that
    only look whether the run waits by now; past `AGENTS["TRIGGER_ATTEMPTS_MAX"]` it has failed.
    """
    now = clock.now()
    seen = TriggerDelivery.objects.filter(id=row_id, status__in=UNSETTLED).first()
    if seen is None:
        return None
    counts = seen.keep_until is None or seen.keep_until <= now
    if counts and seen.attempts >= conf.count("TRIGGER_ATTEMPTS_MAX"):
        fail(seen, f"Given up after {seen.attempts} attempts. {seen.error}")
        return None
    pause = min(RETRY * 2**seen.attempts, RETRY_MAX) if counts else LOOK_AGAIN
    mine = TriggerDelivery.objects.filter(id=row_id, status=seen.status, owed_at=seen.owed_at)
    rows = update_returning(mine, attempts=F("attempts") + int(counts), owed_at=now + pause)
    faults.point("delivery:begun")
    return rows[0] if rows else None


def keep(delivery: TriggerDelivery, key: str, window: timedelta) -> None:
    """Keep an event for a run that does not wait yet; in the caller's transaction (K4).

    Once its window is over, it expires: the log shows it, and nobody was given it.
    """
    now = clock.now()
    until = delivery.keep_until or now + window
    if until <= now:
        text = "The run for this key did not wait for it within the window."
        settle(delivery, DeliveryStatus.EXPIRED, key=key, error=text)
        return
    _change(
        delivery,
        status=DeliveryStatus.BUFFERED,
        key=key,
        keep_until=until,
        owed_at=min(until, now + LOOK_AGAIN),
    )
    faults.point("delivery:kept")


def settle(
    delivery: TriggerDelivery,
    status: DeliveryStatus,
    *,
    key: str = "",
    run: Run | None = None,
    error: str = "",
) -> None:
    """Write what became of an event, in the caller's transaction, and hint at the next in line.

    Raises Overtaken, which rolls everything back, when somebody else was first.
    """
    _change(
        delivery,
        status=status,
        key=key or delivery.key,
        run=run,
        error=_shortened(error),
        settled_at=clock.now(),
        owed_at=None,
        keep_until=None,
    )
    faults.point("delivery:settled")
    if delivery.key:
        hurry_line(delivery.trigger.workflow, [delivery.key], after=delivery.id)


def fail(delivery: TriggerDelivery, error: str) -> bool:
    """Write that an event could not be used, in a transaction of its own; False when too late."""
    try:
        with transaction.atomic(durable=True):
            settle(delivery, DeliveryStatus.FAILED, error=error)
    except Overtaken:
        return False
    logger.warning("trigger %s: delivery %s failed", delivery.trigger.slug, delivery.id)
    return True


def stumble(delivery: TriggerDelivery, error: BaseException) -> None:
    """Note what went wrong in this attempt; the row stays owed and is tried again."""
    text = _shortened(f"{type(error).__name__}: {error}")
    TriggerDelivery.objects.filter(id=delivery.id, status__in=UNSETTLED).update(error=text)


def rerun(row_id: UUID) -> bool:
    """Have an event that came to nothing handled again; False when it is not such a one."""
    now = clock.now()
    with transaction.atomic(durable=True):
        again = TriggerDelivery.objects.filter(id=row_id, status__in=REPEATABLE).update(
            status=DeliveryStatus.RECEIVED,
            error="",
            attempts=0,
            owed_at=now,
            settled_at=None,
            keep_until=None,
        )
        if again:
            faults.point("delivery:owed")
            hurry(row_id)
    return bool(again)


# ── What is owed ─────────────────────────────────────────────────────────────────────────────────


def hurry(row_id: UUID) -> None:
    """Hint on commit that this delivery owes a look."""
    hints.send(TASK, str(row_id))


def hurry_line(workflow: str, keys: list[str], *, after: UUID | None = None) -> None:
    """Say in its row, and hint, that the oldest event kept for each of these keys owes a look now.

    Whoever opens a hook calls it, in the transaction that opens it and holds the run.
    """
    now = clock.now()
    for key in keys:
        first = _kept(workflow, key).first()
        if first is None or (after is not None and first < after):
            continue  # rows are locked in the order of their ids alone
        due = TriggerDelivery.objects.filter(id=first, status=DeliveryStatus.BUFFERED)
        if due.update(owed_at=now):
            hurry(first)


def is_behind(delivery: TriggerDelivery, key: str) -> bool:
    """Tell whether an older event with this key is kept still: it goes first."""
    return _kept(delivery.trigger.workflow, key).filter(id__lt=delivery.id).exists()


def owing(*, for_at_least: timedelta = timedelta(), limit: int = 500) -> list[UUID]:
    """Return deliveries that owe a look for this long or longer, longest first."""
    owed = TriggerDelivery.objects.filter(owed_at__lte=clock.now() - for_at_least)
    return list(owed.order_by("owed_at").values_list("id", flat=True)[:limit])


def forget_old() -> int:
    """Delete settled events past `AGENTS["TRIGGER_RETENTION"]`, oldest first, a bounded number."""
    before = clock.now() - conf.duration("TRIGGER_RETENTION")
    old = TriggerDelivery.objects.filter(settled_at__lt=before).order_by("settled_at")
    ids = list(old.values_list("id", flat=True)[:FORGOTTEN_MAX])
    if not ids:
        return 0
    count, _ = TriggerDelivery.objects.filter(Q(id__in=ids, settled_at__lt=before)).delete()
    faults.point("delivery:forgotten")
    return count


def _kept(workflow: str, key: str):  # type: ignore[no-untyped-def]
    kept = TriggerDelivery.objects.filter(
        status=DeliveryStatus.BUFFERED, key=key, trigger__workflow=workflow
    )
    return kept.order_by("id").values_list("id", flat=True)


def _change(delivery: TriggerDelivery, **changes: object) -> None:
    mine = TriggerDelivery.objects.filter(id=delivery.id, status__in=UNSETTLED)
    if not mine.update(**changes):
        raise Overtaken
    for name, value in changes.items():
        setattr(delivery, name, value)


def _shortened(text: str) -> str:
    return values.clean_text(text.strip(), chars_max=ERROR_CHARS_MAX)
