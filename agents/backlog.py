"""Which runs owe a segment: what the sweep hints at, and how far the workers are behind.

Reads only. Each query goes over an index of such runs alone, however many others there are.
"""

from datetime import timedelta
from uuid import UUID

from agents.models import Run
from agents.states import RunStatus
from hitl import clock


def owing(*, limit: int = 500) -> list[UUID]:
    """Return runs that owe a segment: lapsed leases, and what is queued; each longest first."""
    return lapsed(limit=limit) + queued_for(timedelta(), limit=limit)


def lapsed(*, limit: int) -> list[UUID]:
    """Return runs whose worker let their lease lapse, longest first."""
    found = Run.objects.filter(status=RunStatus.RUNNING, lease_until__lte=clock.now())
    return list(found.order_by("lease_until").values_list("id", flat=True)[:limit])


def queued_for(at_least: timedelta, *, limit: int) -> list[UUID]:
    """Return runs that were queued this long ago or longer, longest first."""
    found = Run.objects.filter(status=RunStatus.QUEUED, queued_at__lte=clock.now() - at_least)
    return list(found.order_by("queued_at").values_list("id", flat=True)[:limit])


def queued(most: int) -> int:
    """Return how many runs wait for a worker, counted up to `most` over their index."""
    return Run.objects.filter(status=RunStatus.QUEUED).order_by("queued_at")[:most].count()
