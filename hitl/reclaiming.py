"""Healing what waits for a message that will not come; cheap enough for each connect (E8)."""

from django.db import transaction

from hitl import clock, parks, waiters
from hitl.models import Park


def reclaim_if_orphaned(thread_id: object) -> bool:
    """Settle what is overdue for a thread or run, and hint at what it owes; True if it healed.

    Takes a thread, a run, or the id of either. Four small reads when nothing is wrong.
    """
    scope = parks.as_uuid(thread_id)
    if scope is None:
        return False
    healed = False
    for waiter in reversed(waiters.every()):  # those of the apps above ours are the most
        waiter_id = waiter.resolve(scope)
        if waiter_id is None:
            continue
        due = Park.objects.due(clock.now()).filter(waiter_id=waiter_id).order_by("id")
        for park_id in due.values_list("id", flat=True):
            healed |= parks.expire(park_id, channel="reclaim")
        with transaction.atomic():
            healed |= waiter.reclaim(waiter_id)
        break
    return healed
