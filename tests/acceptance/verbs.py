"""What a caller can be asked for: the public verbs, and what the rows say. All values are JSON."""

import time
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django_celery_beat.models import PeriodicTask

import hitl
from agents import threads
from agents.models import Run, Thread
from agents.workflows import authoring
from hitl import approval, clock
from hitl.models import CallbackDelivery, Decision, Park
from project.celery import app
from tests.acceptance.app.workflows import reply


def start(agent: str, message: str) -> str:
    return str(threads.start(agent, message).id)


def start_workflow(name: str, **given: Any) -> str:
    return str(authoring.get(name).start(**given).id)


def workflow_run(run_id: str) -> dict[str, Any]:
    """Return how a workflow's run stands."""
    found = Run.objects.get(id=UUID(run_id))
    return {"status": found.status, "output": found.output, "error": found.error}


def resume(token: str, payload: Any) -> bool:
    return bool(reply.resume(token, payload).delivered)


def request_approval(on_decide: str) -> str:
    """Ask for something that is nobody's agent."""
    entry = approval.request(topic="refund", payload={"amount": 249.0}, on_decide=on_decide)
    return entry.approval_id


def decide(request_id: str, approved: bool) -> bool:
    return hitl.decide(request_id, approved, actor="ana", channel="test").delivered


def callback(request_id: str) -> dict[str, Any]:
    """Return how far a callback has got, and what the trail says of the request."""
    found = CallbackDelivery.objects.get(park_id=UUID(request_id))
    rows = Decision.objects.filter(park_id=found.park_id).order_by("id")
    return {
        "status": found.status,
        "attempts": found.attempts,
        "trail": list(rows.values_list("verb", flat=True)),
    }


def status(thread: str) -> str:
    return Thread.objects.get(id=thread).status


def statuses(threads: list[str]) -> list[str]:
    runs = Run.objects.filter(thread__in=[UUID(one) for one in threads])
    return sorted(set(runs.values_list("status", flat=True)))


def pending(thread: str) -> list[dict[str, Any]]:
    return [
        {"tool_call_id": one.tool_call_id, "tool_name": one.tool_name, "reason": one.reason}
        for one in hitl.pending(thread)
    ]


def respond(thread: str, tool_call_id: str, approved: bool, **more: Any) -> dict[str, Any]:
    """Answer, and tell how long that took."""
    begun = time.monotonic()
    answer = hitl.respond(thread, tool_call_id, approved, actor="ana", channel="test", **more)
    seconds = time.monotonic() - begun
    return {"delivered": answer.delivered, "code": answer.code, "seconds": seconds}


def parks(thread: str) -> list[dict[str, Any]]:
    """Return how each question of a thread stands, oldest first; times in seconds."""
    return [
        {
            "status": park.status,
            "reason": park.reason,
            "channel": park.channel,
            "is_overdue": park.is_overdue(clock.now()),
            "late": _seconds(park),
        }
        for park in Park.objects.filter(scope=thread).order_by("id")
    ]


def _seconds(park: Park) -> float | None:
    if park.settled_at is None or park.expires_at is None:
        return None
    return (park.settled_at - park.expires_at).total_seconds()


def audit(thread: str) -> list[list[Any]]:
    rows = Decision.objects.filter(park__scope=thread).order_by("id")
    return [[row.verb, row.actor, row.system] for row in rows]


def run(thread: str) -> dict[str, Any]:
    """Return what the newest run's row says about its lease and its end."""
    newest = Run.objects.filter(thread=UUID(thread)).order_by("-number")[0]
    return {
        "status": newest.status,
        "is_leased": newest.lease_until is not None,
        "leases": newest.lease_token,
        "error": newest.error,
    }


def results(thread: str) -> list[dict[str, Any]]:
    """Return how each tool call ended, as the thread's events tell it."""
    return [
        {"tool_name": data["tool_name"], "outcome": data["outcome"], "result": data["result"]}
        for event in threads.events(thread)
        if event["type"] == "TOOL_RESULT" and (data := event["data"])
    ]


def events(thread: str) -> list[str]:
    return [event["type"] for event in threads.events(thread)]


def schedule() -> list[list[Any]]:
    """Return the sweep's rows in the schedule that people see in the admin."""
    rows = PeriodicTask.objects.filter(name="hitl-sweep").select_related("interval")
    return [[row.task, row.enabled, row.interval.every, row.interval.period] for row in rows]


def addresses(thread: str) -> dict[str, Any]:
    """Return where the admin shows a thread, and where it takes an answer to its one request."""
    [request] = hitl.pending(thread)
    acts = ("approve", "deny", "cancel")
    return {
        "thread": reverse("admin:agents_thread_change", args=[thread]),
        "acts": {act: reverse(f"admin:hitl_park_{act}", args=[request.request_id]) for act in acts},
    }


def visit(method: str, path: str) -> dict[str, Any]:
    """Visit a page of the admin as someone who may do everything."""
    user, _ = User.objects.get_or_create(username="root", is_staff=True, is_superuser=True)
    client = Client(headers={"host": "localhost"})
    client.force_login(user)
    response = client.generic(method, path)
    return {"status": response.status_code, "text": response.content.decode()}


def forget_schedule() -> None:
    PeriodicTask.objects.filter(name="hitl-sweep").delete()


def send_task(name: str, args: list[Any]) -> None:
    app.send_task(name, args=args, queue="agents")


def held() -> dict[str, int]:
    """Return how many messages the one worker keeps: for later, and for a free process."""
    inspect = app.control.inspect(limit=1, timeout=10)
    return {
        "scheduled": sum(len(found) for found in (inspect.scheduled() or {}).values()),
        "reserved": sum(len(found) for found in (inspect.reserved() or {}).values()),
    }


VERBS = {
    verb.__name__: verb
    for verb in (
        start,
        start_workflow,
        workflow_run,
        resume,
        request_approval,
        decide,
        callback,
        status,
        statuses,
        pending,
        respond,
        parks,
        audit,
        run,
        results,
        events,
        schedule,
        forget_schedule,
        addresses,
        visit,
        send_task,
        held,
    )
}
