"""The Celery tasks of hitl. One-line bodies; ids only; may run late, twice or never."""

from uuid import UUID

from celery import shared_task

from hitl import deadlines, sweeping, warning
from hitl.callbacks import deliveries, posting


@shared_task(name=deadlines.EXPIRE, ignore_result=True)
def expire(park_id: str) -> None:
    """Close what is due by the deadline of this park; come back if the message was early."""
    sweeping.expire(UUID(park_id))


@shared_task(name=deadlines.SWEEP, ignore_result=True)
def sweep() -> dict[str, int]:
    """Settle what is due and hint at what is owed."""
    return sweeping.sweep()


@shared_task(name=warning.TASK, ignore_result=True)
def warn(park_id: str) -> bool:
    """Warn of one deadline, if that is owed."""
    return warning.warn(UUID(park_id))


@shared_task(name=deadlines.SETTLE, ignore_result=True)
def settle() -> int:
    """Go on with what a sweep left due."""
    return sweeping.settle_step()


@shared_task(name=deliveries.DELIVER, ignore_result=True)
def deliver(callback_id: str) -> None:
    """POST one callback that is owed."""
    posting.deliver(UUID(callback_id))
