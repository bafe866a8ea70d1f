"""Moving the deadline of a pending request (E10). Writes `Park.expires_at`, never the status.

A compare-and-set on the deadline that was read: it counts only while the request is pending and in
time, and a second extension at the same moment adds to the first. The park alone is locked.
"""

from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction

from hitl import audit, clock, conf, deadlines, durations, faults, inbox, refusals
from hitl.answers import Answer
from hitl.audit import Actor
from hitl.errors import HitlError
from hitl.finding import by_id
from hitl.models import Park, Verb
from hitl.rows import Also, compare_and_set
from hitl.states import Code

TRIES_MAX = 5


class InvalidExtension(HitlError):
    """Say by how much to extend, or until when: one of the two, and a time with its zone."""

    code = "invalid_extension"


def extend(
    request_id: UUID | str,
    *,
    by: str | timedelta | float | None = None,
    until: datetime | None = None,
    reason: str = "",
    actor: object = None,
    channel: str = "python",
) -> Answer:
    """Give a pending request more time: `by` so much ("2h"), or `until` an aware time.

    Returns `delivered=False` with a code when it is too late, has no deadline, would not end later,
    or would stay open longer than `HITL["EXTEND_MAX"]` after its opening; a user needs the
    permission. Raises InvalidExtension or BadDuration before anything is written.
    """
    more = None if by is None else durations.parse(by)
    if (more is None) == (until is None) or (until is not None and until.tzinfo is None):
        raise InvalidExtension
    park, who = by_id(request_id), audit.person(actor, channel)
    if park is None or park.is_timer:
        return refusals.refused(Code.NOT_FOUND, None)
    if who.user is not None and not inbox.may(who.user, inbox.Act.EXTEND):
        sentence = str(inbox.NotAllowed())
        return refusals.refuse(park, who, "extend", reason, Code.NOT_ALLOWED, sentence)
    for _ in range(TRIES_MAX):
        if not park.is_pending or park.expires_at is None or park.is_overdue(clock.now()):
            break
        deadline = until if more is None else park.expires_at + more
        if fault := _fault(park, deadline):
            return refusals.refuse(park, who, "extend", reason, Code.NOT_EXTENDED, fault)
        if _move(park, deadline, reason, who):
            return Answer(True, request_id=park.id)
        park.refresh_from_db()
    return _too_late(park, who, reason)


def _fault(park: Park, deadline: datetime | None) -> str:
    """Say what is wrong with a new deadline; nothing when it will do."""
    assert deadline is not None and park.expires_at is not None, "the caller has looked"
    if deadline <= park.expires_at:
        return "The request stays open longer than that already; an extension only adds time."
    if deadline > park.opened_at + conf.extend_max():
        most = durations.spell(conf.extend_max())
        return f"A request stays open no longer than {most} after it was opened."
    return ""


def _move(park: Park, deadline: datetime | None, reason: str, who: Actor) -> bool:
    """Set the deadline if it is as it was read and not past; tell whether this call did."""
    now = clock.now()
    assert deadline is not None and park.expires_at is not None, "the caller has looked"
    warn_at = deadlines.warn_at(now, deadline) if park.is_for_people else None
    with transaction.atomic():
        moved = compare_and_set(
            Park,
            {"id": park.id, "status": "pending", "expires_at": park.expires_at},
            set={"expires_at": deadline, "warn_at": warn_at},
            also=Also("expires_at > %s", (("expires_at", now),)),
            returning=("id", "expires_at"),
        )
        if moved is None:
            return False
        detail = {"from": park.expires_at.isoformat(), "to": deadline.isoformat()}
        audit.append([audit.row(park, Verb.EXTENDED, who, at=now, reason=reason, detail=detail)])
        deadlines.announce([moved])
        faults.point("extend:moved")
    return True


def _too_late(park: Park, who: Actor, reason: str) -> Answer:
    if not park.is_pending:
        with transaction.atomic():
            return refusals.too_late(park, who, "extend", reason)
    if park.expires_at is None:
        sentence = "The request has no deadline, so there is nothing to extend."
        return refusals.refuse(park, who, "extend", reason, Code.NOT_EXTENDED, sentence)
    return refusals.refuse(park, who, "extend", reason, Code.EXPIRED)
