"""Standalone requests as the code that asked reads them. Reads only."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from hitl import pages
from hitl.callbacks import decisions
from hitl.callbacks.decisions import Decision
from hitl.callbacks.waiter import KIND
from hitl.errors import ApprovalInvalidRequest, ApprovalNotFound
from hitl.models import Park
from hitl.parks import by_id
from hitl.values import clean_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One standalone request as it stands now. Times are aware, in UTC.

    `payload` is what would be approved: as it was asked, or as a reviewer edited it. `decision` is
    None while it is pending; `expires_at` is None when it waits for ever.
    """

    approval_id: str
    topic: str
    title: str
    description: str
    status: str
    payload: Any
    metadata: dict[str, Any]
    created_at: datetime
    expires_at: datetime | None
    decision: Decision | None


@dataclass(frozen=True, slots=True)
class Entries:
    """One page of requests, newest first; iterate over it. `next_cursor` is None on the last."""

    items: tuple[Entry, ...]
    next_cursor: str | None

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Entry:
        return self.items[index]


def get(approval_id: str | UUID) -> Entry:
    """Return one standalone request. Raises ApprovalNotFound."""
    return entry(find(approval_id))


def list(  # noqa: A001
    status: str | None = "pending",
    topic: str | None = None,
    limit: int = 20,
    cursor: str | None = None,
) -> Entries:
    """Return standalone requests, newest first: those of this status, and topic, if given.

    `status` is `pending`, `approved`, `rejected`, `timed_out`, `cancelled`, or `all` (or None) for
    every one. `limit` is 1 to 200. `cursor` is the `next_cursor` of the page before. Raises
    ApprovalInvalidRequest for any other value.
    """
    status = pages.ALL if status is None else status
    if status not in pages.STATUSES:
        raise ApprovalInvalidRequest(f"status is one of {', '.join(pages.STATUSES)}.")
    if not isinstance(limit, int) or not 1 <= limit <= pages.LIMIT_MAX:
        raise ApprovalInvalidRequest(f"limit is a whole number from 1 to {pages.LIMIT_MAX}.")
    try:
        page = pages.page(
            status=status,
            topic=None if topic is None else clean_text(topic),
            kind=KIND,
            limit=limit,
            cursor=cursor,
        )
    except pages.BadCursor as error:
        raise ApprovalInvalidRequest(str(error)) from None
    return Entries(tuple(map(entry, page.parks)), page.next_cursor)


def entry(park: Park) -> Entry:
    """Show a park as the standalone request that it is."""
    return Entry(
        approval_id=str(park.id),
        topic=park.topic,
        title=park.title,
        description=park.description,
        status=str(park.status),
        payload=park.arguments,
        metadata=park.metadata,
        created_at=park.opened_at,
        expires_at=park.expires_at,
        decision=None if park.is_pending else decisions.of(park),
    )


def find(approval_id: object) -> Park:
    """Return the park of a standalone request. Raises ApprovalNotFound, also for other parks."""
    park = by_id(approval_id)
    if park is None or park.waiter_kind != KIND:
        raise ApprovalNotFound
    return park
