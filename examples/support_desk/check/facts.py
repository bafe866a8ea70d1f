"""What the rows say about the desk's threads and their effects. Reads only."""

from collections.abc import Callable
from datetime import datetime
from uuid import UUID

import hitl
from agents import threads
from agents.models import Run, Thread
from agents.states import RunStatus
from examples.purchasing.models import Purchase
from examples.support_desk.models import Mail, Refund
from hitl import approval
from hitl.inbox import PendingInput
from hitl.models import Decision, Park, Verb
from hitl.states import ParkStatus


def thread(wish: str) -> Thread:
    """Return the one thread that began with this wish."""
    return Thread.objects.get(title=wish)


def completes(wish: str) -> Callable[[], bool]:
    """Return a look at whether the thread of this wish has come to its end."""
    return lambda: thread(wish).status == RunStatus.COMPLETED


def finished_job(wish: str) -> Callable[[], Park | None]:
    """Return a look at the job of this wish, once it is finished."""
    jobs = Park.objects.filter(reason="job", status=ParkStatus.APPROVED)
    return lambda: jobs.filter(scope=thread(wish).id).first()


def run(workflow: str) -> Run:
    """Return the newest run of a workflow."""
    return Run.objects.filter(target=workflow).order_by("-id")[0]


def is_completed(workflow: str) -> Callable[[], bool]:
    """Return a look at whether the newest run of a workflow has come to its end."""
    return lambda: run(workflow).status == RunStatus.COMPLETED


def waits_for_mail() -> str | None:
    """Return the mail thread that a workflow waits for, once it does."""
    hooks = Park.objects.pending().filter(reason="hook")
    return hooks.values_list("token", flat=True).first()


def pending(wish: str) -> list[PendingInput]:
    return hitl.pending(thread(wish))


def last_words(wish: str) -> str:
    return str(threads.history(thread(wish))[-1]["text"])


def refunds(order_id: int) -> int:
    return Refund.objects.filter(order_id=order_id).count()


def mails(address: str) -> int:
    return Mail.objects.filter(to=address).count()


def queued() -> int:
    return Run.objects.filter(status=RunStatus.QUEUED).count()


def standalone(topic: str) -> PendingInput:
    """Return the one open request that plain code has asked for under this topic."""
    [entry] = approval.list(topic=topic)
    [request] = hitl.pending(entry.approval_id)
    return request


def purchase() -> Purchase:
    return Purchase.objects.get()


def is_told_once() -> bool:
    return Decision.objects.filter(verb=Verb.CALLBACK_SENT).count() == 1


def open_deadlines() -> dict[UUID, datetime | None]:
    """Return the open requests with their deadlines."""
    return dict(Park.objects.pending().cards().values_list("id", "expires_at"))


def ending(wish: str) -> Decision:
    """Return the audit row that closed the one request of this wish."""
    closing = [verb for verb in Verb if verb not in (Verb.OPENED, Verb.REFUSED)]
    return Decision.objects.select_related("park").get(
        park__scope=thread(wish).id, verb__in=closing
    )
