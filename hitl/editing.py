"""Changing the payload of a standalone request before it is decided (I6).

A compare-and-set on what the editor was shown, so nobody overwrites another's edit unseen, and
nobody approves what they have not seen (`seen` in `hitl/parks.py`). Votes for the former payload do
not count any more. Lock order: the callback, then its park.
"""

from typing import Any
from uuid import UUID

from django.db import transaction

from hitl import (
    audit,
    clock,
    conf,
    edits,
    faults,
    inbox,
    parks,
    refusals,
    values,
    waiters,
)
from hitl.answers import Answer
from hitl.models import Park
from hitl.rows import Also, compare_and_set
from hitl.states import Code, ParkStatus
from hitl.subjects import Revision


def edit(request_id: UUID | str, payload: Any, *, seen: str, actor: object, channel: str) -> Answer:
    """Replace the payload of a pending request that still has the digest `seen`.

    The requester gets the new one; `proposed` keeps what was asked first, the trail both digests.
    `delivered` is false, with a code, when it was decided, expired or edited first, or when `actor`
    is a user who may not. Raises `TooLarge` or `NotJson`.
    """
    content: Any = values.clean(payload, size_max=conf.payload_bytes_max())
    who = audit.person(actor, channel)
    park = parks.by_id(request_id)
    if park is None or not park.is_standalone:
        return refusals.refused(Code.NOT_FOUND, None)
    if who.user is not None and not inbox.may(who.user, inbox.Act.EDIT):
        sentence = inbox.NotAllowed().args[0]
        return refusals.refuse(park, who, "edit", "", Code.NOT_ALLOWED, sentence)
    revision = Revision(exact=content, shown=content, digest=values.digest(content), detail={})
    if park.is_pending and revision.digest == park.digest == seen:
        return Answer(True, request_id=park.id)  # nothing to change
    with transaction.atomic():
        waiters.of(park.waiter_kind).lock(park.waiter_id)
        park, now = Park.objects.get(id=park.id), clock.now()
        row = edits.row(park, revision, who, at=now)
        won = compare_and_set(
            Park,
            {"id": park.id, "status": ParkStatus.PENDING, "digest": seen},
            set=edits.changes(park, revision),
            also=Also("expires_at > %s OR expires_at IS NULL", (("expires_at", now),)),
            returning=("id",),
        )
        if won is None:
            return refusals.too_late(park, who, "edit", "")
        faults.point("edit:updated")
        audit.append([row])
        faults.point("edit:noted")
    return Answer(True, request_id=park.id)
