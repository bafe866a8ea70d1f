"""Reading the inbox: what is open, and who may see or do what with it. Reads only.

Every channel with a login asks `access_park`; there is no second policy (U6). Python callers are
trusted code and call the verbs of `hitl/parks.py` directly.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from django.db.models import Q

from hitl.errors import HitlError
from hitl.finding import as_uuid, by_id
from hitl.models import Park


class Act(StrEnum):
    """What someone may be allowed to do with a request; each has a permission of its own."""

    VIEW = "hitl.view_park"
    DECIDE = "hitl.decide_park"
    ANSWER = "hitl.answer_park"
    CANCEL = "hitl.cancel_park"
    EDIT = "hitl.edit_park"
    EXTEND = "hitl.extend_park"
    REVEAL = "hitl.reveal_park"
    AUDIT = "hitl.view_decision"
    VIEW_CALLBACK = "hitl.view_callbackdelivery"
    RESEND = "hitl.resend_callbackdelivery"


class ParkNotFound(HitlError):
    """There is no such request."""

    code = "park_not_found"


class NotAllowed(HitlError):
    """You do not have the permission for this act; ask an administrator for it."""

    code = "not_allowed"


@dataclass(frozen=True, slots=True)
class PendingInput:
    """One open request, as a program or a screen lists it. Times are aware, in UTC."""

    request_id: UUID
    tool_call_id: str
    tool_name: str
    arguments: Any
    reason: str
    agent: str
    depth: int
    path: tuple[str, ...]
    opened_at: datetime
    expires_at: datetime | None


def pending(thread_id: object) -> list[PendingInput]:
    """Return what a thread or run (or the id of either) has open, in the order it was asked.

    Read from the rows each time, so that every screen agrees at every moment (S4). An unknown id
    has nothing open.
    """
    scope = as_uuid(thread_id)
    if scope is None:
        return []
    open_here = Park.objects.pending().cards().filter(Q(scope=scope) | Q(waiter_id=scope))
    return [as_pending(park) for park in open_here.order_by("id")]


def as_pending(park: Park) -> PendingInput:
    """Show a park as the open request that it is."""
    return PendingInput(
        request_id=park.id,
        tool_call_id=park.key,
        tool_name=park.topic,
        arguments=park.arguments,
        reason=park.reason,
        agent=park.asker,
        depth=park.asker_depth,
        path=tuple(park.asker_path),
        opened_at=park.opened_at,
        expires_at=park.expires_at,
    )


def may(user: Any, act: Act) -> bool:
    """Tell whether this user may do this act. Inactive and anonymous users may do nothing."""
    return bool(user.is_active and user.has_perm(act))


def access_park(user: Any, request_id: object, act: Act) -> Park:
    """Fetch a request that this user may do this with.

    Raises `ParkNotFound`, also when the user may not even see requests, so that ids cannot be
    probed; `NotAllowed` when the user may see it and no more.
    """
    park = by_id(request_id)
    if park is None or park.is_timer or not may(user, Act.VIEW):
        raise ParkNotFound
    if not may(user, act):
        raise NotAllowed
    return park
