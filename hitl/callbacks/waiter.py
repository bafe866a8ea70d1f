"""What a standalone request wakes: its callback. The `callback` side of `hitl/waiters.py`."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any
from uuid import UUID

from hitl import faults, hints
from hitl.callbacks import deliveries
from hitl.models import STANDALONE, CallbackDelivery, Park
from hitl.rows import lock_row, locked_free
from hitl.states import ParkStatus

KIND = STANDALONE
SWEEP_HINTS_MAX = 500


class CallbackWaiter:
    """Owes a POST once its request is settled."""

    kind = KIND
    permission = "hitl.view_callbackdelivery"

    def lock(self, waiter_id: UUID) -> CallbackDelivery | None:
        return lock_row(CallbackDelivery, waiter_id)

    def lock_free(self, waiter_ids: Collection[UUID]) -> dict[UUID, CallbackDelivery]:
        found = CallbackDelivery.objects.filter(id__in=waiter_ids).order_by("id")
        return {row.id: row for row in locked_free(found)}

    def settled(self, waiter: Any, parks: Iterable[Park]) -> None:
        """Owe the callback; a reason for withdrawing goes into the metadata, where I4 says."""
        for park in parks:
            if park.status == ParkStatus.CANCELLED and park.answer_reason:
                park.metadata = {**park.metadata, "cancel_reason": park.answer_reason}
                Park.objects.filter(id=park.id).update(metadata=park.metadata)
        deliveries.owe(waiter)

    def settled_each(self, pairs: Sequence[tuple[Any, Park]]) -> None:
        for waiter, park in pairs:
            self.settled(waiter, [park])

    def expects(self, waiter: Any, key: str, *, had_gate: bool) -> bool:
        """Tell no: the request opens with its waiter, so no answer can come before it."""
        return False

    def sweep(self) -> dict[str, int]:
        """Hint at callbacks that are due and whose message may be lost."""
        owed = deliveries.owing(limit=SWEEP_HINTS_MAX)
        for delivery_id in owed:
            hints.send(deliveries.DELIVER, str(delivery_id))
        faults.point("sweep:callbacks_hinted")
        return {"callbacks_hinted": len(owed)}

    def backlog(self, most: int) -> int:
        """Return none: a POST that is owed holds up no deadline, and goes on by itself."""
        return 0

    def reclaim(self, waiter_id: UUID) -> bool:
        """Hint again at a callback that is due."""
        if waiter_id not in deliveries.owing(only=waiter_id):
            return False
        hints.send(deliveries.DELIVER, str(waiter_id))
        return True

    def resolve(self, scope: UUID) -> UUID | None:
        """Return the callback of a standalone request: its scope is its own id."""
        found = CallbackDelivery.objects.filter(park_id=scope)
        return found.values_list("id", flat=True).first()

    def url(self, park: Park) -> str | None:
        """Return None: the request's own page tells all there is."""
        return None
