"""Threads: one run at a time, a history that always pairs, an event log without gaps."""

from typing import Any
from uuid import uuid4

import pytest

import hitl
from agents import Agent, conf, snapshot, threads, tool
from agents.agent import AgentNotFound
from agents.llm.messages import check_pairs
from agents.models import Event, Run, Step, Thread, ToolCall
from agents.states import RunStatus
from agents.testing import ScriptedModel, call, run_worker
from hitl import clock as project_clock
from hitl.models import Decision, Park
from tests.desk import Desk

SEND = call("send", to="ana")


@pytest.mark.promise("H1")
def test_a_thread_goes_through_several_runs(desk: Desk) -> None:
    thread = desk.open("Hello", "You said more", message="Hi")
    second = threads.send(thread, "More")
    assert thread.status == "QUEUED"
    run_worker()
    assert thread.status == "COMPLETED"
    assert [(line["role"], line["text"]) for line in threads.history(thread)] == [
        ("user", "Hi"),
        ("assistant", "Hello"),
        ("user", "More"),
        ("assistant", "You said more"),
    ]
    assert threads.history(thread)[2]["id"] == second.id
    [first, reply, last] = desk.model.requests[-1].messages
    assert (first.text, reply.text, last.text) == ("Hi", "Hello", "More")


@pytest.mark.promise("H1")
def test_a_message_to_a_parked_thread_is_refused_and_is_no_answer(desk: Desk) -> None:
    """Field reports RUN-08, MSG-04 and MSG-05."""
    thread = desk.open([SEND], "Done")
    [request] = desk.pending
    with pytest.raises(threads.ThreadBusy) as refused:
        threads.send(thread, "yes go ahead")
    assert refused.value.requests == (request,)
    assert "send" in str(refused.value)
    assert Run.objects.count() == 1
    assert desk.pending == [request]
    desk.answer(True)
    assert desk.effects == ["send ana 1"]


@pytest.mark.promise("H1", "N5", "A1")
def test_superseding_withdraws_what_was_asked(desk: Desk) -> None:
    """Field report MSG-13."""
    thread = desk.open([SEND], "As you like")
    [request] = desk.pending
    old = desk.run
    threads.send(thread, "Never mind", supersede=True)
    answer = hitl.respond(thread, request.tool_call_id, True)
    assert (answer.delivered, answer.code) == (False, "moved_on")
    run_worker()
    assert thread.status == "COMPLETED"
    assert Run.objects.get(id=old.id).status == "CANCELLED"
    assert desk.effects == []
    assert desk.pending == []
    check_pairs(desk.model.requests[-1].messages)


@pytest.mark.promise("H1", "N5")
def test_an_edit_cuts_the_later_turns_away(desk: Desk) -> None:
    thread = desk.open("One", [SEND], "Edited", message="first")
    threads.send(thread, "second")
    run_worker()
    [request] = desk.pending
    first_id = threads.history(thread)[0]["id"]
    threads.edit(thread, first_id, "first, better")
    assert hitl.respond(thread, request.tool_call_id, True).code == "moved_on"
    run_worker()
    assert [line["text"] for line in threads.history(thread)] == ["first, better", "Edited"]
    [only] = desk.model.requests[-1].messages
    assert only.text == "first, better"
    assert "MESSAGES_DROPPED" in desk.event_types()
    with pytest.raises(threads.MessageNotFound):
        threads.edit(thread, first_id, "cut away already")


@pytest.mark.promise("H8", "A1")
def test_a_stop_closes_everything_that_is_open(desk: Desk, clock: Any) -> None:
    """Field report EXP-10."""
    thread = desk.open([SEND, call("send", to="bo")], "Later")
    asked = desk.pending
    assert threads.stop(thread, reason="changed my mind", actor="ana", channel="admin") is True
    assert thread.status == "CANCELLED"
    assert desk.pending == []
    for request in asked:
        assert hitl.respond(thread, request.tool_call_id, True).code == "moved_on"
    assert {(park.status, park.answer_reason) for park in desk.parks()} == {
        ("cancelled", "changed my mind")
    }
    assert Decision.objects.filter(verb="cancelled", actor="ana", channel="admin").count() == 2
    clock.advance(hours=1)
    run_worker()
    assert desk.effects == []
    assert threads.stop(thread) is False
    threads.send(thread, "Go on then")
    run_worker()
    assert thread.status == "COMPLETED"
    check_pairs(desk.model.requests[-1].messages)


@pytest.mark.promise("H8", "P3")
def test_a_stop_of_a_running_run_lands_between_steps(desk: Desk) -> None:
    @tool
    def look(what: str) -> str:
        """Look."""
        threads.stop(Thread.objects.get(), reason="wrong person", actor="ana", channel="admin")
        threads.stop(Thread.objects.get(), reason="me too", actor="ben")
        return "seen"

    thread = desk.open([call("look", what="a"), call("look", what="b")], "Done", tools=[look])
    assert thread.status == "CANCELLED"
    [*_, last] = threads.events(thread)
    assert last["data"] == {"reason": "wrong person", "actor": "ana"}, "the first to ask"
    assert desk.run.error == "wrong person"
    outcomes = list(ToolCall.objects.order_by("index").values_list("outcome", flat=True))
    assert outcomes == ["ok", "stopped"], "what had run keeps its result"


@pytest.mark.promise("H1")
def test_a_running_run_is_not_superseded_or_edited_under_its_worker(desk: Desk) -> None:
    refused = []

    @tool
    def look(what: str) -> str:
        """Look."""
        thread = Thread.objects.get()
        for act in (
            lambda: threads.send(thread, "x", supersede=True),
            lambda: threads.edit(thread, threads.history(thread)[0]["id"], "y"),
            lambda: threads.send(thread, "z"),
        ):
            with pytest.raises(threads.ThreadBusy):
                act()
            refused.append(1)
        return "seen"

    desk.open([call("look", what="a")], "Done", tools=[look])
    assert len(refused) == 3
    assert desk.thread.status == "COMPLETED"


@pytest.mark.promise("H1", "I2")
def test_deleting_a_thread_keeps_the_trail(desk: Desk) -> None:
    thread = desk.open([SEND])
    [request] = desk.pending
    threads.delete(thread)
    assert not Thread.objects.exists()
    assert not Run.objects.exists()
    assert not Event.objects.exists()
    assert Park.objects.get().status == "cancelled"
    assert [row.verb for row in Decision.objects.order_by("id")] == ["opened", "cancelled"]
    assert not hitl.decide(request.request_id, True).delivered
    assert run_worker() == 0


@pytest.mark.promise("H1")
@pytest.mark.parametrize("message", ["", "   ", None, 7, "x" * 100_001])
def test_a_message_that_is_no_text_is_refused_before_any_row(desk: Desk, message: Any) -> None:
    Agent("desk", model=ScriptedModel([]))
    with pytest.raises(threads.InvalidMessage):
        threads.start("desk", message)
    assert not Thread.objects.exists()


def test_an_unknown_agent_or_thread_is_a_clear_error(db: None) -> None:
    with pytest.raises(AgentNotFound, match="nobody"):
        threads.start("nobody", "Hi")
    for verb in (threads.stop, threads.delete, lambda thread: threads.send(thread, "x")):
        with pytest.raises(threads.ThreadNotFound):
            verb(uuid4())
        with pytest.raises(threads.ThreadNotFound):
            verb("garbage")


@pytest.mark.promise("H3")
def test_provider_ids_may_repeat_or_be_missing(desk: Desk) -> None:
    """Field report PAR-04."""
    desk.open(
        [call("look", id="same", what="a"), call("look", id="same", what="b")],
        [call("look", id="", what="c"), call("look", id="same", what="d")],
        "Done",
    )
    assert desk.effects == ["look a", "look b", "look c", "look d"]
    check_pairs(desk.model.requests[-1].messages)


@pytest.mark.promise("H4")
def test_hostile_text_from_everywhere_is_kept_and_crashes_nothing(desk: Desk) -> None:
    """Field report ADM-02."""
    bad = "a\0b\ud800c"
    desk.open([call("send", to=bad)], bad, message=bad)
    desk.answer(False, reason=bad, actor=bad)
    assert desk.thread.status == "COMPLETED"
    for line in threads.history(desk.thread):
        assert "\0" not in line["text"]
        assert line["text"].encode()
    [park] = desk.parks()
    assert park.arguments["to"] == "a␀b�c"
    assert park.settled_by == "a␀b�c"


@pytest.mark.promise("H5")
def test_events_are_numbered_without_gaps_and_read_from_where_one_left(desk: Desk) -> None:
    thread = desk.open([call("look", what="a"), SEND], "Done", "Again")
    desk.answer(True)
    threads.send(thread, "More")
    run_worker()
    events = threads.events(thread)
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert threads.events(thread, after=5) == events[5:]
    assert threads.events(thread, after=10_000) == []


@pytest.mark.promise("H6")
def test_a_failure_for_good_ends_the_run_and_the_thread_stays_usable(desk: Desk) -> None:
    thread = desk.open(RuntimeError("no such model"), "Better", message="Hi")
    assert thread.status == "FAILED"
    assert "no such model" in desk.run.error
    assert desk.event_types()[-1] == "RUN_FAILED"
    threads.send(thread, "Try again")
    run_worker()
    assert thread.status == "COMPLETED"
    check_pairs(desk.model.requests[-1].messages)


def test_an_agent_without_any_model_fails_with_what_to_do(desk: Desk) -> None:
    Agent("desk")
    thread = threads.start("desk", "Hi")
    run_worker()
    assert thread.status == "FAILED"
    assert "DEFAULT_MODEL" in Run.objects.get().error


@pytest.mark.promise("H7")
def test_a_run_whose_agent_left_the_code_fails_in_the_end_and_closes_its_requests(
    desk: Desk, clock: Any
) -> None:
    """Not at once: the worker may be older than the agent, or its deploy be taken back."""
    from agents import agent

    thread = desk.open([SEND])
    [request] = desk.pending
    hitl.respond(thread, request.tool_call_id, True)
    removed = agent._agents.pop("desk")
    try:
        for minutes in (0, 0.5, 2, 8):
            clock.advance(minutes=minutes)
            run_worker()
            assert thread.status == "WAITING"
        clock.advance(minutes=32)
        run_worker()
    finally:
        agent._agents["desk"] = removed
    assert thread.status == "FAILED"
    assert "desk" in desk.run.error
    assert desk.effects == []
    assert ToolCall.objects.get().outcome == "stopped"


@pytest.mark.promise("H7")
def test_a_run_that_never_makes_progress_is_given_up(desk: Desk, clock: Any) -> None:
    """A worker that dies each time leaves a lapsed lease and nothing else."""
    from agents import runs

    Agent("desk", model=ScriptedModel(["never asked"]))
    thread = threads.start("desk", "Hi")
    run_id = Run.objects.get().id
    for _ in range(conf.count("ATTEMPTS_MAX")):
        assert runs.take(run_id) is not None
        clock.advance(seconds=7)
    run_worker()
    assert thread.status == "FAILED"
    assert "without progress" in desk_run(thread).error


@pytest.mark.promise("H7")
def test_a_run_whose_rows_cannot_be_read_is_given_up_in_the_end(
    desk: Desk, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attempt is rolled back with what was read, so it is counted in a transaction of its own.

    Neither another message nor a look at the thread makes it come again before its pause is over.
    """
    thread = desk.open([SEND], "Done")
    [request] = desk.pending
    monkeypatch.setattr(snapshot, "load", broken := Broken())
    hitl.respond(thread, request.tool_call_id, True)
    tries = []
    for _ in range(5):
        run_worker()
        hitl.reclaim_if_orphaned(thread)
        run_worker()
        tries.append(broken.times)
        clock.advance(minutes=33)
    assert tries == [1, 2, 3, 4, 5]
    assert thread.status == "FAILED"
    assert desk.run.error == "The run could not go on: KeyError: 'message'"
    assert desk.effects == []
    monkeypatch.undo()
    threads.send(thread, "Again")
    run_worker()
    assert thread.status == "COMPLETED"


@pytest.mark.promise("H7")
def test_a_deploy_that_is_taken_back_has_cost_time_and_no_run(
    desk: Desk, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread = desk.open([SEND], "Done")
    [request] = desk.pending
    monkeypatch.setattr(snapshot, "load", Broken())
    hitl.respond(thread, request.tool_call_id, True)
    for _ in range(3):
        run_worker()
        clock.advance(minutes=9)
    monkeypatch.undo()
    run_worker()
    assert thread.status == "COMPLETED"
    assert desk.effects == ["send ana 1"]
    assert desk.run.attempts == 0


class Broken:
    """Fails as a row does that the code cannot read."""

    times = 0

    def __call__(self, run: Run) -> Any:
        self.times += 1
        raise KeyError("message")


def desk_run(thread: Thread) -> Run:
    return Run.objects.get(thread=thread)


@pytest.mark.promise("P6")
def test_a_worker_that_lost_its_lease_writes_nothing(desk: Desk, clock: Any) -> None:
    """Field report CEL-13: the first holder sleeps past its lease inside a tool."""
    entered = []

    @tool(on_doubt="retry")
    def nap() -> str:
        """Sleep past the lease, once, while another worker takes over."""
        entered.append(1)
        if len(entered) == 1:
            clock.advance(seconds=7)
            run_worker()
            return "stale"
        return "fresh"

    thread = desk.open([call("nap")], "Done", tools=[nap])
    assert entered == [1, 1]
    assert thread.status == "COMPLETED"
    assert ToolCall.objects.get().result == "fresh"
    assert len(desk.model.requests) == 2
    assert Step.objects.count() == 2


@pytest.mark.promise("N6")
def test_the_limit_of_steps_spans_a_park(desk: Desk) -> None:
    thread = desk.open([SEND], [SEND], [SEND], max_steps=2)
    desk.answer(True)
    desk.answer(True)
    assert thread.status == "FAILED"
    assert "2 steps" in desk.run.error


def test_status_of_a_thread_without_runs_is_idle(db: None) -> None:
    thread = Thread.objects.create(agent="desk", created_at=project_clock.now())
    assert thread.status == "IDLE"
    assert RunStatus.QUEUED == "QUEUED"


@pytest.mark.promise("H2")
def test_a_history_with_a_lost_result_is_completed_before_it_is_sent(desk: Desk) -> None:
    """A row damaged by hand must not make the thread unusable for good."""
    thread = desk.open([call("look", what="a")], "Done", "Fine")
    ToolCall.objects.update(phase="open", result=None, outcome="")
    threads.send(thread, "Still there?")
    run_worker()
    assert thread.status == "COMPLETED"
    check_pairs(desk.model.requests[-1].messages)
