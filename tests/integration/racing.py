"""An agent for races: a stateless model, effects counted in a list, hints recorded, not sent."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import connection

from agents import Agent, ToolContext, backlog, requires_confirmation, runs, segments, threads, tool
from agents.llm.messages import AssistantMessage, Request, UserMessage
from agents.models import Event, Run, Step, Thread, ToolCall
from agents.testing import ScriptedModel, call
from hitl import clock, parks
from hitl.models import Decision, Park
from hitl.parks import Answer

AGENT = "racing"
TABLES = (Thread, Run, Step, ToolCall, Event, Park, Decision)

effects: list[str] = []
requests: list[Request] = []


@requires_confirmation
@tool
def send(ctx: ToolContext, number: int = 1) -> str:
    """Send a letter."""
    effects.append(str(ctx.tool_call_id))
    return f"sent {effects.count(str(ctx.tool_call_id))}"


@tool
def look(ctx: ToolContext, number: int = 1) -> str:
    """Look something up."""
    effects.append(str(ctx.tool_call_id))
    return f"seen {effects.count(str(ctx.tool_call_id))}"


def _reply(request: Request) -> Any:
    """Make the calls that the message lists, once, and then be done."""
    requests.append(request)
    [*_, last] = [m for m in request.messages if isinstance(m, UserMessage | AssistantMessage)]
    if isinstance(last, AssistantMessage) or last.text == "nothing":
        return "Done."
    return [call(name, number=number) for number, name in enumerate(last.text.split())]


def enrol() -> None:
    effects.clear()
    requests.clear()
    Agent(AGENT, model=ScriptedModel(_reply), tools=(send, look))


def segment(run_id: UUID) -> bool:
    return segments.run_segment(run_id, keep_alive=False)


def started(message: str = "send") -> Run:
    """Return the queued run of a new thread."""
    thread = threads.start(AGENT, message)
    return Run.objects.get(thread=thread)


def parked(message: str = "send") -> Run:
    """Return the run of a new thread that waits for an answer to each `send` of the message."""
    run = started(message)
    assert segment(run.id)
    run.refresh_from_db()
    assert run.status == "WAITING_FOR_INPUT"
    return run


def park_of(run: Run, index: int = 0) -> Park:
    return Park.objects.filter(waiter_id=run.id).order_by("id")[index]


def answer(park: Park, approved: bool) -> Answer:
    return parks.respond(park.scope, park.key, approved, actor="ana")


def finish() -> None:
    """Do all that is owed, whatever the hints were."""
    for _ in range(50):
        owed = backlog.owing()
        if not owed:
            return
        for run_id in owed:
            segment(run_id)
    raise AssertionError("the work never ends")


def rows() -> dict[str, list[dict[str, Any]]]:
    """Return all rows there are, to see whether anything was written."""
    return {
        model.__name__: list(model._default_manager.order_by("pk").values()) for model in TABLES
    }


def verbs(park: Park) -> Counter[str]:
    return Counter(Decision.objects.filter(park=park).values_list("verb", flat=True))


class Hints:
    """What would have been sent to the broker, by task."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, tuple[str, ...]]] = []

    def send_task(self, name: str, args: tuple[str, ...] = (), **_: Any) -> None:
        self.sent.append((name, tuple(args)))

    def for_run(self, run: Run) -> int:
        return self.sent.count((runs.SEGMENT, (str(run.id),)))


class Skew:
    """Clocks that differ by thread, as those of two machines do."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._mine = threading.local()
        true_now = clock.now
        monkeypatch.setattr(
            clock, "now", lambda: true_now() + getattr(self._mine, "offset", timedelta())
        )

    @contextmanager
    def by(self, **offset: float) -> Iterator[None]:
        """Let this thread's clock go wrong by so much."""
        self._mine.offset = timedelta(**offset)
        try:
            yield
        finally:
            self._mine.offset = timedelta()


def needs_postgresql() -> None:
    if connection.vendor != "postgresql":
        pytest.skip("a race needs the locks of PostgreSQL; make test-services sets DATABASE_URL")
