"""Segments: when they hand back, what a stop does to a model call, what a dead worker leaves."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import OperationalError, connection

import hitl
from agents import (
    Agent,
    ToolContext,
    keeper,
    outages,
    requires_confirmation,
    segments,
    threads,
    tool,
)
from agents.lease import Lease
from agents.llm.errors import RequestCancelled
from agents.llm.messages import Reply
from agents.models import Run, Step, ToolCall
from agents.testing import ScriptedModel, call, run_worker
from hitl import faults
from tests.desk import Desk

SEND = call("send", to="ana")


@pytest.fixture
def shutdown() -> Iterator[None]:
    yield
    segments.clear_shutdown()


@pytest.mark.promise("O4")
def test_a_worker_that_shuts_down_hands_back_at_the_next_boundary(
    desk: Desk, shutdown: None
) -> None:
    @tool
    def look(what: str) -> str:
        """Look."""
        segments.announce_shutdown()
        return "seen"

    Agent("desk", model=ScriptedModel([[call("look", what="a")], "Done"]), tools=[look])
    thread = threads.start("desk", "Go on")
    assert segments.run_segment(Run.objects.get().id, keep_alive=False)
    run = Run.objects.get()
    assert (run.status, run.lease_until) == ("QUEUED", None)
    assert ToolCall.objects.get().outcome == "ok", "what it was doing is done"
    segments.clear_shutdown()
    run_worker()
    assert thread.status == "COMPLETED"


@pytest.mark.promise("O4", "P5")
def test_a_run_survives_a_hand_back_at_every_boundary(desk: Desk, settings: Any) -> None:
    settings.AGENTS = {"SEGMENT_MAX": 0.001}
    desk.open([call("look", what="a"), SEND], [call("look", what="b")], "Done")
    desk.answer(True)
    assert desk.thread.status == "COMPLETED"
    assert desk.effects == ["look a", "send ana 1", "look b"]
    assert len(desk.model.requests) == 3


@pytest.mark.promise("P6")
def test_only_one_of_two_messages_for_a_run_does_its_work(desk: Desk) -> None:
    Agent("desk", model=ScriptedModel(["Done"]))
    threads.start("desk", "Go on")
    run_id = Run.objects.get().id
    assert segments.run_segment(run_id, keep_alive=False) is True
    assert segments.run_segment(run_id, keep_alive=False) is False
    assert Step.objects.count() == 1


class Blocking:
    """A model that answers nothing until its request is cancelled."""

    def __init__(self) -> None:
        self.asked = threading.Event()

    def request(self, request: Any, *, cancelled: Any) -> Reply:
        self.asked.set()
        pause = threading.Event()
        for _ in range(1000):
            if cancelled():
                raise RequestCancelled
            pause.wait(0.01)
        raise AssertionError("nobody cancelled the request")


@pytest.mark.promise("H8")
@pytest.mark.django_db(transaction=True)
def test_a_stop_reaches_a_model_call_through_the_heartbeat(settings: Any) -> None:
    settings.AGENTS = {"LEASE": "600ms"}
    model = Blocking()
    Agent("desk", model=model)
    thread = threads.start("desk", "Go on")
    run_id = Run.objects.get().id

    def work() -> None:
        segments.run_segment(run_id)
        connection.close()

    worker = threading.Thread(target=work)
    worker.start()
    assert model.asked.wait(30)
    assert threads.stop(thread) is True
    worker.join(10)
    assert not worker.is_alive()
    assert thread.status == "CANCELLED"


@pytest.mark.promise("P6")
@pytest.mark.django_db(transaction=True)
def test_the_heartbeat_renews_a_lease_and_notices_that_it_is_lost(settings: Any) -> None:
    settings.AGENTS = {"LEASE": "300ms"}
    model = Blocking()
    Agent("desk", model=model)
    threads.start("desk", "Go on")
    run_id = Run.objects.get().id

    def work() -> None:
        segments.run_segment(run_id)
        connection.close()

    worker = threading.Thread(target=work)
    worker.start()
    assert model.asked.wait(30)
    first = Run.objects.get().lease_until
    pause = threading.Event()
    for _ in range(500):
        renewed = Run.objects.get().lease_until
        if renewed > first:
            break
        pause.wait(0.01)
    assert renewed > first
    Run.objects.update(lease_token=99)
    worker.join(10)
    assert not worker.is_alive(), "the request was cancelled once the lease was lost"
    assert Run.objects.get().status == "RUNNING", "and nothing was written"


def test_the_heartbeat_outlives_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = keeper.Keeper()
    lease = Lease(run_id=threads.new_id(), token=1)

    def broken(_: Lease) -> None:
        raise ValueError("anything")

    monkeypatch.setattr("agents.runs.renew", broken)
    mine._renew(lease)
    assert not lease.is_over()


@pytest.mark.promise("A5", "P5")
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("point", ["result:keeping", "reply:saving"])
def test_a_database_that_is_away_for_a_moment_loses_neither_output_nor_reply(
    monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    monkeypatch.setattr(outages, "PAUSE_S", 0)
    failures = [1, 1]

    def fail(name: str) -> None:
        if name == point and failures:
            failures.pop()
            raise OperationalError("the connection is lost")

    desk = Desk()
    with faults.armed(fail):
        desk.open([call("look", what="a")], "Done")
    assert failures == []
    assert desk.thread.status == "COMPLETED"
    assert desk.effects == ["look a"]
    assert len(desk.model.requests) == 2
    events = [event["seq"] for event in threads.events(desk.thread)]
    assert events == list(range(1, len(events) + 1))


@pytest.mark.promise("A5", "P6")
@pytest.mark.django_db(transaction=True)
def test_a_claim_that_finds_its_call_changed_runs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It cannot happen under a lease; should it, the tool does not run without its claim."""

    def change(_: Any, call: Any) -> None:
        ToolCall.objects.filter(id=call.id).update(claimed_by=99)

    monkeypatch.setattr("agents.gating.refuse", change)
    desk = Desk()
    desk.open([call("look", what="a")], "Done")
    assert desk.effects == []
    assert ToolCall.objects.get().phase == "open"
    assert desk.run.status == "RUNNING", "until its lease lapses"


# A worker that dies inside a tool.


def die_inside(desk: Desk, clock: Any, name: str = "tool:returned") -> None:
    """Answer yes, and let the worker die at this point; its lease lapses."""
    [request] = desk.pending
    hitl.respond(desk.thread, request.tool_call_id, True)

    def crash(point: str) -> None:
        if point == name:
            raise faults.Crash

    with faults.armed(crash), pytest.raises(faults.Crash):
        run_worker()
    clock.advance(seconds=7)
    run_worker()


@pytest.mark.promise("A6", "A5")
@pytest.mark.django_db(transaction=True)
def test_a_gated_call_in_doubt_is_asked_about(clock: Any) -> None:
    """Field report RUN-03."""
    desk = Desk()
    desk.open([SEND], "Done")
    die_inside(desk, clock)
    assert desk.effects == ["send ana 1"]
    [request] = desk.pending
    assert (request.reason, request.tool_name) == ("in_doubt", "send")
    assert request.arguments == {"to": "ana", "copies": 1}
    assert desk.thread.status == "WAITING_FOR_INPUT"
    desk.answer(True, payload="it was sent")
    assert desk.effects == ["send ana 1"]
    assert desk.results["send"].content == "it was sent"
    assert desk.thread.status == "COMPLETED"


@pytest.mark.promise("A1", "A2", "A6")
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("approved", [True, False])
def test_an_answer_sent_again_after_a_death_is_no_word_on_the_doubt(
    clock: Any, approved: bool
) -> None:
    """A client that retries its yes to the gate must not be taken to say "run it again"."""
    desk = Desk()
    desk.open([SEND], "Done")
    [gate] = desk.pending
    die_inside(desk, clock)
    again = hitl.respond(desk.thread, gate.tool_call_id, approved)
    assert (again.delivered, again.code) == (False, "already_answered")
    run_worker()
    assert desk.effects == ["send ana 1"]
    [doubt] = desk.pending
    assert doubt.reason == "in_doubt"
    assert doubt.tool_call_id != gate.tool_call_id


@pytest.mark.promise("A6")
@pytest.mark.django_db(transaction=True)
def test_a_call_in_doubt_may_be_run_again_with_the_same_key(clock: Any) -> None:
    desk = Desk()
    desk.open([SEND], "Done")
    die_inside(desk, clock)
    desk.answer(True)
    assert desk.effects == ["send ana 1"] * 2
    first, second = desk.contexts
    assert first.idempotency_key == second.idempotency_key
    assert desk.results["send"].outcome == "ok"


@pytest.mark.promise("A6")
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("how", ["denied", "expired"])
def test_a_call_in_doubt_that_is_given_up_is_said_to_be_unknown(clock: Any, how: str) -> None:
    desk = Desk()
    desk.open([SEND], "Done")
    die_inside(desk, clock)
    if how == "denied":
        desk.answer(False, reason="leave it")
    else:
        clock.advance(minutes=16)
        run_worker()
    assert desk.effects == ["send ana 1"]
    assert desk.results["send"].outcome == "unknown"
    assert "unknown" in desk.results["send"].content["message"]
    assert desk.thread.status == "COMPLETED"


@pytest.mark.promise("A6")
@pytest.mark.django_db(transaction=True)
def test_a_second_death_asks_a_second_time(clock: Any) -> None:
    desk = Desk()
    desk.open([SEND], "Done")
    die_inside(desk, clock)
    die_inside(desk, clock)
    assert desk.effects == ["send ana 1"] * 2
    [request] = desk.pending
    assert request.reason == "in_doubt"
    desk.answer(True, payload="enough")
    assert desk.thread.status == "COMPLETED"


@pytest.mark.promise("A6")
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("on_doubt", "times", "outcome"), [("fail", 1, "unknown"), ("retry", 2, "ok")]
)
def test_a_tool_can_say_that_a_doubt_fails_or_is_retried(
    clock: Any, on_doubt: str, times: int, outcome: str
) -> None:
    desk = Desk()
    desk.open([SEND], "Done", tools=desk.tools(on_doubt=on_doubt))
    die_inside(desk, clock)
    assert desk.effects == ["send ana 1"] * times
    assert desk.results["send"].outcome == outcome
    assert desk.thread.status == "COMPLETED"


@pytest.mark.promise("A5")
@pytest.mark.django_db(transaction=True)
def test_an_output_that_was_kept_is_never_made_again(clock: Any) -> None:
    desk = Desk()
    desk.open([SEND], "Done")
    die_inside(desk, clock, "result:kept")
    assert desk.effects == ["send ana 1"]
    assert desk.results["send"].content == "sent to ana"
    assert desk.thread.status == "COMPLETED"


@pytest.mark.promise("A5")
@pytest.mark.django_db(transaction=True)
def test_an_approval_survives_a_death_before_the_tool_began(clock: Any) -> None:
    desk = Desk()
    desk.open([SEND], "Done")
    die_inside(desk, clock, "segment:begin")
    assert desk.effects == ["send ana 1"]
    assert desk.thread.status == "COMPLETED"


@pytest.mark.promise("H7")
@pytest.mark.django_db(transaction=True)
def test_a_tool_that_kills_its_worker_each_time_ends_its_run(clock: Any, settings: Any) -> None:
    """Field report CEL-03, with a free tool, which is retried."""
    settings.AGENTS = {"ATTEMPTS_MAX": 3}
    entered = []

    @tool
    def poison(ctx: ToolContext) -> str:
        """Kill."""
        entered.append(1)
        raise faults.Crash

    Agent("desk", model=ScriptedModel([[call("poison")], "Done"]), tools=[poison])
    thread = threads.start("desk", "Go on")
    for _ in range(10):
        try:
            run_worker()
        except faults.Crash:
            clock.advance(seconds=7)
    assert thread.status == "FAILED"
    assert len(entered) <= 4
    assert ToolCall.objects.get().outcome == "unknown"


def test_a_gated_tool_is_not_marked_by_marking_another(desk: Desk) -> None:
    plain, _, _ = desk.tools()
    marked = requires_confirmation(plain)
    assert plain.gate is None
    assert marked.gate is not None
