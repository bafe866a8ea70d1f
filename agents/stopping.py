"""Asking a run to stop while a worker holds it; the run's next write under its lease heeds that.

And what an ending run has begun itself, which is to stop with it.
"""

from dataclasses import asdict
from typing import Any
from uuid import UUID

from agents import runs
from agents.models import Run
from agents.states import ACTIVE, RunStatus
from hitl import faults, hints
from hitl.audit import Actor


def request_stop(run: Run, *, reason: str, actor: Actor) -> bool:
    """Ask a locked run whose worker lives to stop; False when no worker holds it.

    The first to ask is the one that the run's end names.
    """
    if run.status != RunStatus.RUNNING or runs.is_owed(run):
        return False
    asked = {"reason": reason, **asdict(actor)}
    unasked = Run.objects.filter(id=run.id, stop_requested=False)
    unasked.update(stop_requested=True, stop_asked=asked)
    faults.point("stop:requested")
    return True


def stop_of(run_id: UUID) -> tuple[str, Actor]:
    """Return why a run that a worker holds was asked to stop, and by whom."""
    asked: Any = Run.objects.values_list("stop_asked", flat=True).get(id=run_id)
    return asked.pop("reason"), Actor(**asked)


def hurry_children(run_id: UUID) -> None:
    """Hint on commit that what an ending run has begun and waits for is to be stopped."""
    begun = Run.objects.filter(parent_id=run_id, status__in=ACTIVE)
    for child_id in begun.values_list("id", flat=True):
        hints.send(runs.REPORT, str(child_id))
