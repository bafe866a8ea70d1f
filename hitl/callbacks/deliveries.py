"""What each callback has come to. The only writer of `CallbackDelivery.status`.

A callback that is owed shows in its row; a POST is made by whoever holds the row's lease, and what
became of it is written under that lease. A worker that dies in between leaves a lapsed lease, and
the next one POSTs again with the same id: at least once, never lost (C1).

Lock order: the delivery, which is the waiter, before its park.
"""

import random
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import F, Q

from hitl import audit, clock, conf, faults, hints, values
from hitl.audit import Actor
from hitl.callbacks import addresses
from hitl.ids import new_id
from hitl.models import CallbackDelivery, Park, Verb
from hitl.rows import update_returning
from hitl.states import CallbackStatus

DELIVER = "hitl.deliver"
CHANNEL = "callback"
ERROR_CHARS_MAX = 500

AGAIN = (CallbackStatus.OWED, CallbackStatus.DELIVERED, CallbackStatus.DEAD)
"""The statuses from which a callback can be sent again."""

BACKOFF_FIRST = timedelta(seconds=5)
BACKOFF_FACTOR = 3
BACKOFF_MAX = timedelta(hours=6)
JITTER = 0.25
# Resolving a name has no bound of its own, so a lease outlasts the POST by far.
LEASE_MARGIN = timedelta(minutes=2)


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to make one POST, and what it is about."""

    delivery: CallbackDelivery
    token: UUID

    @property
    def park(self) -> Park:
        return self.delivery.park


def owe(delivery: CallbackDelivery) -> None:
    """Note that the request is settled, with the delivery's lock held: a POST is owed, or none."""
    is_wanted = bool(delivery.url)
    CallbackDelivery.objects.filter(id=delivery.id, status=CallbackStatus.WAITING).update(
        status=CallbackStatus.OWED if is_wanted else CallbackStatus.NONE,
        next_attempt_at=clock.now() if is_wanted else None,
    )
    faults.point("callback:owed")
    if is_wanted:
        hints.send(DELIVER, str(delivery.id))


def claim(delivery_id: UUID) -> Claim | None:
    """Take the lease of a callback that is due; None when it is not, or somebody else is at it.

    The attempt counts from here, so that one which kills its worker is bounded too.
    """
    token, now = new_id(), clock.now()
    due = CallbackDelivery.objects.filter(_is_due(now), id=delivery_id)
    with transaction.atomic(durable=True):
        won = update_returning(
            due,
            attempts=F("attempts") + 1,
            lease_token=token,
            lease_until=now + conf.callback_timeout() + LEASE_MARGIN,
        )
        faults.point("callback:claiming")
    return Claim(won[0], token) if won else None


def note(held: Claim, error: str | None, *, not_before: timedelta | None = None) -> bool:
    """Write what became of a POST: accepted when `error` is None. False when the lease is lost.

    `not_before` is how long the receiver asked to be left alone.
    """
    now = clock.now()
    with transaction.atomic(durable=True):
        if error is None:
            changes = _accepted(now)
        else:
            changes = _failed(held, error, now, not_before or timedelta())
        won = update_returning(
            CallbackDelivery.objects.filter(id=held.delivery.id, lease_token=held.token),
            lease_token=None,
            lease_until=None,
            **changes,
        )
        if won:
            _append(won[0], held.park, error, now)
            faults.point("callback:noting")
            _come_back(won[0], now)
    return bool(won)


def resend(delivery_id: UUID, *, actor: object, channel: str) -> bool:
    """Order the POST of a settled request again, with fresh attempts; False when there is none.

    Also for one that was delivered, and for one that waits for its next attempt; not while a POST
    is being made, nor once retention has blanked what there was to tell.
    """
    now = clock.now()
    free = Q(lease_until__isnull=True) | Q(lease_until__lte=now)
    with transaction.atomic():
        if Park.objects.filter(callback=delivery_id, blanked_at__isnull=False).exists():
            return False
        won = update_returning(
            CallbackDelivery.objects.filter(free, id=delivery_id, status__in=AGAIN),
            status=CallbackStatus.OWED,
            attempts=0,
            next_attempt_at=now,
            lease_token=None,
            lease_until=None,
            delivered_at=None,
            last_error="",
        )
        if won:
            who = audit.person(actor, channel)
            audit.append([audit.row(won[0].park, Verb.CALLBACK_RESENT, who, at=now)])
            faults.point("callback:resending")
            hints.send(DELIVER, str(delivery_id))
    return bool(won)


def owing(*, limit: int | None = None, only: UUID | None = None) -> list[UUID]:
    """Return the callbacks for which a POST is due now, the longest due first."""
    found = CallbackDelivery.objects.filter(_is_due(clock.now()))
    if only is not None:
        found = found.filter(id=only)
    ids = found.order_by("next_attempt_at", "id").values_list("id", flat=True)
    return list(ids[:limit])


def backoff(attempts: int) -> timedelta:
    """Return how long to wait after so many failed attempts, before the jitter."""
    return min(BACKOFF_FIRST * BACKOFF_FACTOR ** min(attempts - 1, 20), BACKOFF_MAX)


def _is_due(now: datetime) -> Q:
    free = Q(lease_until__isnull=True) | Q(lease_until__lte=now)
    return free & Q(status=CallbackStatus.OWED, next_attempt_at__lte=now)


def _accepted(now: datetime) -> dict[str, object]:
    return {
        "status": CallbackStatus.DELIVERED,
        "next_attempt_at": None,
        "delivered_at": now,
        "last_error": "",
    }


def _failed(held: Claim, error: str, now: datetime, not_before: timedelta) -> dict[str, object]:
    """Try again later, with jitter so that many do not come back at once; or give it up.

    Never sooner than the receiver asked for, as far as the longest wait goes.
    """
    text = values.clean_text(error, chars_max=ERROR_CHARS_MAX)
    if held.delivery.attempts >= conf.callback_attempts_max():
        return {"status": CallbackStatus.DEAD, "next_attempt_at": None, "last_error": text}
    jitter = 1 + random.uniform(-JITTER, JITTER)  # noqa: S311  (no secret)
    wait = max(backoff(held.delivery.attempts) * jitter, min(not_before, BACKOFF_MAX))
    return {
        "next_attempt_at": now + wait,
        "last_error": text,
    }


def _append(delivery: CallbackDelivery, park: Park, error: str | None, now: datetime) -> None:
    """Write the audit row of one attempt."""
    verb = Verb.CALLBACK_SENT if error is None else Verb.CALLBACK_FAILED
    detail = {
        "callback_id": str(delivery.id),
        "attempt": delivery.attempts,
        "to": addresses.shown(delivery.url),
    }
    if delivery.status == CallbackStatus.DEAD:
        detail["given_up"] = True
    who: Actor = audit.system(CHANNEL)
    audit.append([audit.row(park, verb, who, at=now, reason=error or "", detail=detail)])


def _come_back(delivery: CallbackDelivery, now: datetime) -> None:
    """Send a countdown for a next attempt that is near; the sweep finds the others."""
    at = delivery.next_attempt_at
    if at is not None and at - now <= conf.horizon():
        hints.send(DELIVER, str(delivery.id), delay=at - now)
