"""The requests page by page, for lists that a person or a program turns over. Reads only.

Pending requests come soonest deadline first, those without a deadline last; every other list comes
newest first. A cursor names the last row of a page, so rows that come or go meanwhile neither
repeat nor hide others.
"""

import base64
import binascii
import json
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Q

from hitl.errors import HitlError
from hitl.models import Park, ParkQuerySet
from hitl.states import ParkStatus

ALL = "all"
STATUSES = (*(str(status) for status in ParkStatus), ALL)
LIMIT = 50
LIMIT_MAX = 200
CURSOR_CHARS_MAX = 300


class BadCursor(HitlError):
    """The cursor does not belong to this list; start again without one."""

    code = "invalid_cursor"


@dataclass(frozen=True, slots=True)
class Page:
    """Some requests, and the cursor of the next page; None on the last one."""

    parks: list[Park]
    next_cursor: str | None


def page(
    *,
    status: str = ParkStatus.PENDING,
    topic: str | None = None,
    scope: UUID | None = None,
    kind: str | None = None,
    limit: int = LIMIT,
    cursor: str | None = None,
) -> Page:
    """Return one page of requests with this status ("all" for every one).

    `scope` is the id of a thread or run, `limit` at most 200. With `kind`, those of one kind of
    waiter alone, always newest first. Read from the rows each time (S4), so a request whose
    deadline has passed is listed as pending until somebody or the sweep closes it. Raises BadCursor
    for a cursor of another order, or of none.
    """
    assert status in STATUSES and 1 <= limit <= LIMIT_MAX, "the caller checks these"
    found = Park.objects.cards()
    if status != ALL:
        found = found.filter(status=status)
    if topic is not None:
        found = found.filter(topic=topic)
    if scope is not None:
        found = found.filter(Q(scope=scope) | Q(waiter_id=scope))
    if kind is not None:
        found = found.filter(waiter_kind=kind)
    by_deadline = status == ParkStatus.PENDING and kind is None
    found = _after(found, cursor, by_deadline=by_deadline)
    found = found.soonest_first() if by_deadline else found.order_by("-id")
    parks = list(found[: limit + 1])
    more = len(parks) > limit
    parks = parks[:limit]
    return Page(parks, _cursor(parks[-1], by_deadline=by_deadline) if more else None)


def _after(found: ParkQuerySet, cursor: str | None, *, by_deadline: bool) -> ParkQuerySet:
    """Keep what comes behind the row that the cursor names."""
    if cursor is None:
        return found
    park_id, deadline = _read(cursor, by_deadline=by_deadline)
    if not by_deadline:
        return found.filter(id__lt=park_id)
    if deadline is None:
        return found.filter(expires_at__isnull=True, id__gt=park_id)
    return found.filter(
        Q(expires_at__gt=deadline)
        | Q(expires_at=deadline, id__gt=park_id)
        | Q(expires_at__isnull=True)
    )


def _cursor(park: Park, *, by_deadline: bool) -> str:
    parts = [park.id.hex]
    if by_deadline:
        parts.append(park.expires_at.isoformat() if park.expires_at is not None else "")
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode().rstrip("=")


def _read(cursor: str, *, by_deadline: bool) -> tuple[UUID, datetime | None]:
    """Return the row's id and deadline; whatever is not one of our cursors is refused."""
    try:
        if len(cursor) > CURSOR_CHARS_MAX:
            raise ValueError
        padded = cursor + "=" * (-len(cursor) % 4)
        parts = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
        park_id, *rest = parts
        if len(rest) != by_deadline:
            raise ValueError
        deadline = datetime.fromisoformat(rest[0]) if rest and rest[0] else None
        if deadline is not None and deadline.tzinfo is None:
            raise ValueError
        return UUID(park_id), deadline
    except (ValueError, TypeError, AttributeError, binascii.Error, RecursionError):
        raise BadCursor from None
