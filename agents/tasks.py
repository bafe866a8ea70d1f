"""The Celery tasks of agents. One line; the id only; may run late, twice or never."""

from uuid import UUID

from celery import shared_task

from agents import runs, segments
from agents.triggers import deliveries, handling
from agents.workflows import attempts, children


@shared_task(name=runs.SEGMENT, ignore_result=True)
def segment(run_id: str) -> None:
    """Go on with one run, if it owes a segment."""
    segments.run_segment(UUID(run_id))


@shared_task(name=attempts.STEP, ignore_result=True)
def step(entry_id: str) -> None:
    """Run one step of a workflow that runs apart, if it is owed."""
    attempts.perform(UUID(entry_id))


@shared_task(name=runs.REPORT, ignore_result=True)
def report(run_id: str) -> None:
    """Tell the run that waits for this one how it ended, or stop it when that has ended."""
    children.attend(UUID(run_id))


@shared_task(name=deliveries.TASK, ignore_result=True)
def trigger(delivery_id: str) -> None:
    """Handle one event that came to a trigger, if it owes that."""
    handling.handle(UUID(delivery_id))
