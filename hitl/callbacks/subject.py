"""What a standalone request is about, for `hitl/subjects.py`. Reads only."""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from hitl import conf, values
from hitl.callbacks import addresses
from hitl.models import CallbackDelivery, Park
from hitl.states import CallbackStatus
from hitl.subjects import Revision


class CallbackSubject:
    """What a standalone request is about: its payload, which lives in the park's row alone."""

    def schema(self, park: Park) -> dict[str, Any]:
        return {}

    def exact(self, park: Park) -> Any:
        return park.arguments

    def revise(self, park: Park, arguments: Any) -> Revision:
        """Take any JSON: the requester judges what it is given."""
        content: Any = values.clean(arguments, size_max=conf.payload_bytes_max())
        return Revision(exact=content, shown=content, digest=values.digest(content), detail={})

    def adopt(self, park: Park, revision: Revision) -> None:
        """Do nothing more: the park itself holds what is told."""

    def evidence(self, park: Park) -> dict[str, Any] | None:
        """Return how far its callback has got."""
        callback = CallbackDelivery.objects.filter(park=park).first()
        if callback is None or not callback.url:
            return None
        return {
            "callback_id": str(callback.id),
            "to": addresses.shown(callback.url),
            "status": callback.status,
            "delivered_at": callback.delivered_at and callback.delivered_at.isoformat(),
        }

    def owner(self, park: Park) -> Any | None:
        return None

    def over(self, waiter_ids: Iterable[UUID]) -> set[UUID]:
        """Return those that nobody will be told of any more."""
        told = (CallbackStatus.DELIVERED, CallbackStatus.NONE)
        found = CallbackDelivery.objects.filter(id__in=list(waiter_ids), status__in=told)
        return set(found.values_list("id", flat=True))
