"""Blanking what finished requests held, by age; the trail stays whole and verifiable (O5).

The chain covers digests and never the payloads, so nothing in it changes: each blanking adds a row.
A request is finished once whoever waited for it will not read it again.
"""

from collections import defaultdict
from datetime import timedelta
from uuid import UUID

from django.db import transaction

from hitl import audit, clock, faults, subjects
from hitl.audit import Actor
from hitl.models import Park, ParkQuerySet, Verb
from hitl.rows import update_returning
from hitl.states import ParkStatus

BATCH = 500
BLANK = "[blanked]"


def count(older_than: timedelta) -> int:
    """Return how many requests were settled so long ago and are not blanked yet."""
    return _old(older_than).count()


def blank(older_than: timedelta, *, actor: Actor) -> int:
    """Blank arguments, answers, titles and descriptions of requests settled so long ago.

    Returns how many; works in batches, each a transaction of its own, and goes on where it was cut
    off. Requests whose work still goes on are left alone.
    """
    blanked, after = 0, UUID(int=0)
    while True:
        rows = _old(older_than).filter(id__gt=after).order_by("id")
        batch = list(rows.only("id", "waiter_kind", "waiter_id")[:BATCH])
        if not batch:
            return blanked
        after = batch[-1].id
        blanked += _blank(_finished(batch), actor)


def _old(older_than: timedelta) -> ParkQuerySet:
    settled = Park.objects.cards().exclude(status=ParkStatus.PENDING)
    return settled.filter(blanked_at__isnull=True, settled_at__lte=clock.now() - older_than)


def _finished(batch: list[Park]) -> list[UUID]:
    """Return those whose waiter will never read them again."""
    by_kind: dict[str, set[UUID]] = defaultdict(set)
    for park in batch:
        by_kind[park.waiter_kind].add(park.waiter_id)
    over: set[UUID] = set()
    for kind, waiter_ids in by_kind.items():
        subject = subjects.of_kind(kind)
        waiting = Park.objects.pending().filter(waiter_id__in=waiter_ids)
        open_ones = set(waiting.values_list("waiter_id", flat=True))
        over |= (waiter_ids if subject is None else subject.over(waiter_ids)) - open_ones
    return [park.id for park in batch if park.waiter_id in over]


def _blank(ids: list[UUID], actor: Actor) -> int:
    if not ids:
        return 0
    now = clock.now()
    gone = {"arguments": {}, "title": "", "description": "", "blanked_at": now}
    here = Park.objects.filter(id__in=ids, blanked_at__isnull=True)
    with transaction.atomic(durable=True):
        plain = update_returning(here.filter(proposed__isnull=True), **gone)
        edited = update_returning(here.filter(proposed__isnull=False), proposed={}, **gone)
        rows = [*plain, *edited]
        answered = [park.id for park in rows if park.answer and "payload" in park.answer]
        Park.objects.filter(id__in=answered).update(answer={"payload": BLANK})
        audit.append([audit.row(park, Verb.BLANKED, actor, at=now) for park in rows])
        faults.point("blank:written")
    return len(rows)
