"""Answers that come before their park is committed: kept, never acknowledged and dropped (J3).

A job may finish before the run that began it has parked. Only writer of `EarlyAnswer`. The waiter's
lock is held, so an answer is either found by the park that opens or finds that park.
"""

import logging
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction

from hitl import clock, faults, waiters
from hitl.audit import Actor
from hitl.models import EarlyAnswer, Park
from hitl.states import ParkStatus

logger = logging.getLogger(__name__)


def keep(
    kind: str,
    waiter_id: UUID,
    key: str,
    status: ParkStatus,
    who: Actor,
    *,
    reason: str,
    answer: dict[str, Any],
) -> bool:
    """Keep an answer for a park that is still to open; False when one was kept before."""
    try:
        with transaction.atomic():
            EarlyAnswer.objects.create(
                waiter_kind=kind,
                waiter_id=waiter_id,
                key=key,
                status=status,
                reason=reason,
                answer=answer,
                actor=who.name,
                channel=who.channel,
                at=clock.now(),
            )
    except IntegrityError:
        return False
    return True


def take(opened: Iterable[Park]) -> list[tuple[Park, EarlyAnswer]]:
    """Return the parks that were answered before they opened, and forget those answers."""
    by_key = {park.key: park for park in opened}
    asking = {park.waiter_id for park in by_key.values()}
    found = EarlyAnswer.objects.filter(waiter_id__in=asking, key__in=by_key)
    taken = [(by_key[early.key], early) for early in found.order_by("id")]
    found.delete()
    return taken


def drop_unwanted(limit: int) -> int:
    """Forget answers to what will not park any more; returns how many, of the `limit` oldest.

    Their work has ended otherwise: it returned without waiting, or was stopped.
    """
    oldest = EarlyAnswer.objects.order_by("id").only("id", "waiter_kind", "waiter_id", "key")
    return sum(_drop_if_unwanted(kept) for kept in oldest[:limit])


def _drop_if_unwanted(kept: EarlyAnswer) -> bool:
    if not waiters.known(kept.waiter_kind):
        return False
    with transaction.atomic(durable=True):
        waiter = waiters.of(kept.waiter_kind).lock(kept.waiter_id)
        if waiter is not None and waiters.of(kept.waiter_kind).expects(
            waiter, kept.key, had_gate=False
        ):
            return False
        dropped, _ = EarlyAnswer.objects.filter(id=kept.id).delete()
        faults.point("early:dropped")
    if dropped:
        logger.warning(
            "%s %s ended without waiting for the answer to %s, which is dropped",
            kept.waiter_kind,
            kept.waiter_id,
            kept.key,
        )
    return bool(dropped)
