"""Runs that a run begins and waits for: an agent's for a workflow, and the other way round.

A child is begun in the transaction that asks for it. What follows is owed, and shows in rows: an
ended child with a parent owes a report, one that goes on while its parent has ended is to be
stopped. No transaction locks two runs.
"""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.contrib.auth import get_user_model
from django.db import transaction
from django.db.models import QuerySet

from agents import runs, threads
from agents.models import JournalEntry, Run, RunKind
from agents.states import FINAL, RunStatus
from agents.workflows import journal, verbs
from hitl import answers, clock, faults, hints, parks
from hitl.audit import Actor
from hitl.errors import TooLarge

PARENT_ENDED = "The run that waited for this one has ended."


def start(run: Run, row: JournalEntry, request: Any) -> None:
    """Start the thread that a workflow waits for, in the caller's transaction.

    Raises HitlError, before any row is written, when there is no such agent or no such message.
    """
    user_id = request.options["user"]
    user = None if user_id is None else get_user_model().objects.filter(pk=user_id).first()
    threads.start_for(
        run,
        str(row.id),
        request.name,
        request.input["message"],
        user=user,
        title=request.options["title"],
    )


def report(child_id: UUID) -> bool:
    """Tell the run that waits how its child ended; False when nothing was owed."""
    child = Run.objects.filter(id=child_id, parent__isnull=False, reported_at=None).first()
    if child is None or child.status not in FINAL or child.parent_id is None:
        return False
    parent = Run.objects.only("id", "kind").filter(id=child.parent_id).first()
    if parent is not None and parent.kind == RunKind.WORKFLOW:
        _complete(parent.id, child)
    elif parent is not None:
        _answer(parent.id, child)
    faults.point("report:delivered")
    Run.objects.filter(id=child.id, reported_at=None).update(reported_at=clock.now())
    faults.point("report:noted")
    return True


def _complete(parent_id: UUID, child: Run) -> None:
    """Complete the entry of the journal under which a workflow waits for an agent."""
    with transaction.atomic(durable=True):
        parent = runs.lock(parent_id)
        if parent is None or parent.status in FINAL:
            return
        done = child.status == RunStatus.COMPLETED
        error = {"type": "AgentFailed", "text": f"{child.target}: {child.status}. {child.error}"}
        if journal.complete(
            UUID(child.parent_key),
            parent.deliveries + 1,
            result={**child.output, "thread_id": str(child.thread_id)} if done else None,
            error=None if done else error,
        ):
            runs.deliver(parent, 1)


def _answer(parent_id: UUID, child: Run) -> None:
    """Answer the call under which an agent's tool waits for a workflow."""
    outcome = {"status": child.status, "output": child.output, "error": child.error}
    who = Actor(f"workflow {child.target}", "report")
    try:
        given = answers.read(True, who, payload=outcome)
    except TooLarge as error:
        outcome = {"status": RunStatus.FAILED, "output": None, "error": str(error)}
        given = answers.read(True, who, payload=outcome)
    parks.resume("run", parent_id, child.parent_key, given)


def stop(child_id: UUID) -> bool:
    """Stop a child whose parent has ended; False when nothing was owed."""
    child = _orphans().filter(id=child_id).first()
    if child is None:
        return False
    if child.thread_id is None:
        with transaction.atomic(durable=True):
            verbs.cancel(child, reason=PARENT_ENDED, actor="workflow")
    else:
        threads.stop(child.thread_id, reason=PARENT_ENDED, actor="workflow", channel="report")
    faults.point("child:stopped")
    return True


def attend(child_id: UUID) -> bool:
    """Do what is owed about a child: its report, or its stop; False when nothing is."""
    return report(child_id) or stop(child_id)


def owing(*, limit: int = 500) -> list[UUID]:
    """Return children about which something is owed: ended and not reported, or to be stopped.

    Two queries over the index of children that have not reported.
    """
    ended = Run.objects.filter(
        parent__isnull=False, reported_at__isnull=True, finished_at__isnull=False
    )
    found = list(ended.order_by("finished_at").values_list("id", flat=True)[:limit])
    return found + list(_orphans().values_list("id", flat=True)[:limit])


def _orphans() -> QuerySet[Run]:
    """Return children that go on while their parent has ended, and that nobody has stopped yet."""
    waiting = Run.objects.filter(
        parent__isnull=False, reported_at__isnull=True, finished_at__isnull=True
    )
    return waiting.filter(parent__status__in=FINAL, stop_requested=False)


def hurry(child_ids: Iterable[UUID]) -> None:
    """Hint on commit at what is owed about these."""
    for child_id in child_ids:
        hints.send(runs.REPORT, str(child_id))
