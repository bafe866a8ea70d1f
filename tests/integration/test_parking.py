"""Marking a tool, and what a park is: rows, written together, after their step."""

import logging
from datetime import timedelta
from typing import Any

import pytest

import hitl
from agents import Agent, requires_confirmation, threads, tool
from agents.models import Run, Step, ToolCall
from agents.testing import ScriptedModel, call, run_worker
from hitl import faults
from hitl.models import Park
from tests.desk import Desk

SEND = call("send", to="ana")


@pytest.mark.promise("P1", "P7")
def test_a_gated_call_parks_the_run_before_anything_happened(desk: Desk) -> None:
    thread = desk.open([SEND])
    assert thread.status == "WAITING_FOR_INPUT"
    assert desk.effects == []
    [request] = desk.pending
    assert request.tool_name == "send"
    assert request.arguments == {"to": "ana", "copies": 1}
    assert (request.reason, request.agent, request.depth) == ("approval", "desk", 0)
    assert request.expires_at == request.opened_at + timedelta(minutes=15)
    assert desk.event_types() == ["RUN_STARTED", "STEP_SAVED", "TOOL_CALL", "INPUT_REQUIRED"]
    data = threads.events(thread)[-1]["data"]
    assert data == {
        "request_id": str(request.request_id),
        "tool_call_id": request.tool_call_id,
        "tool_name": "send",
        "arguments": {"to": "ana", "copies": 1},
        "reason": "approval",
        "agent": "desk",
        "depth": 0,
        "path": ["desk"],
        "expires_at": request.expires_at.isoformat(),
    }


@pytest.mark.promise("P1", "P4")
def test_a_parked_run_holds_no_lease(desk: Desk) -> None:
    desk.open([SEND])
    run = desk.run
    assert run.lease_until is None
    assert run_worker() == 0, "a parked run owes nothing"


@pytest.mark.promise("P1", "P2")
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("point", ["reply:judged", "park:opened", "reply:saving"])
def test_a_step_that_dies_before_its_commit_parks_nothing_and_is_retried(
    point: str, clock: Any
) -> None:
    model = ScriptedModel([[SEND], [SEND]])
    Agent("desk", model=model, tools=Desk().tools())
    thread = threads.start("desk", "Go on")

    def crash(name: str) -> None:
        if name == point:
            raise faults.Crash

    with faults.armed(crash), pytest.raises(faults.Crash):
        run_worker()
    assert hitl.pending(thread) == []
    assert not Park.objects.exists()
    assert not Step.objects.exists()
    clock.advance(seconds=7)
    run_worker()
    assert [request.tool_name for request in hitl.pending(thread)] == ["send"]
    assert Step.objects.count() == 1


@pytest.mark.promise("P3")
def test_a_stop_that_lands_during_the_model_call_skips_the_park(desk: Desk) -> None:
    def reply(_: Any) -> list[Any]:
        threads.stop(Run.objects.get().thread)
        return [SEND]

    thread = desk.open(reply)
    assert thread.status == "CANCELLED"
    assert not Park.objects.exists()
    assert desk.event_types() == ["RUN_STARTED", "RUN_CANCELLED"]


@pytest.mark.promise("M2")
def test_a_predicate_gates_only_the_calls_it_names(desk: Desk) -> None:
    tools = desk.tools(when=lambda args, ctx: args["copies"] > 1)
    desk.open([call("send", to="ana"), call("send", to="bo", copies=2)], tools=tools)
    assert desk.effects == ["send ana 1"]
    assert [request.arguments["to"] for request in desk.pending] == ["bo"]


@pytest.mark.promise("M2")
@pytest.mark.parametrize("verdict", [None, 0, "", "no", []])
def test_a_predicate_that_says_neither_yes_nor_no_gates_the_call_and_is_logged(
    desk: Desk, verdict: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        desk.open([SEND], tools=desk.tools(when=lambda args, ctx: verdict))
    assert len(desk.pending) == 1
    assert "predicate" in caplog.text


@pytest.mark.promise("M2")
def test_a_predicate_is_asked_once_and_not_again_when_the_run_goes_on(desk: Desk) -> None:
    """Field report GRD-02."""
    asked: list[Any] = []

    def when(args: dict[str, Any], ctx: Any) -> bool:
        asked.append(args)
        if len(asked) > 1:
            raise RuntimeError
        return True

    desk.open([SEND], "Done", tools=desk.tools(when=when))
    desk.answer(False)
    assert asked == [{"to": "ana", "copies": 1}]
    assert desk.effects == []


@pytest.mark.promise("M2")
def test_a_predicate_may_look_at_the_user(desk: Desk, django_user_model: Any) -> None:
    ana = django_user_model.objects.create_user("ana")
    tools = desk.tools(when=lambda args, ctx: ctx.user.get_username() != "ana")
    Agent("desk", model=ScriptedModel([[SEND], "Done"]), tools=tools)
    threads.start("desk", "Go on", user=ana)
    run_worker()
    assert desk.effects == ["send ana 1"]


@pytest.mark.promise("M3")
@pytest.mark.parametrize(
    "arguments",
    [{}, {"to": 3}, {"to": "ana", "copies": "many"}, {"to": "ana", "extra": True}],
)
def test_arguments_that_do_not_fit_go_back_to_the_model_and_nobody_is_asked(
    desk: Desk, arguments: dict[str, Any]
) -> None:
    thread = desk.open([call("send", **arguments)], "Sorry")
    assert thread.status == "COMPLETED"
    assert desk.results["send"].outcome == "error"
    assert not Park.objects.exists()
    assert desk.effects == []


@pytest.mark.promise("M4")
def test_card_audit_and_call_carry_one_digest(desk: Desk) -> None:
    desk.open([SEND], "Done")
    [park] = desk.parks()
    made = ToolCall.objects.get()
    assert park.digest == made.digest
    assert park.digest.startswith("sha256:")
    assert park.decisions.get(verb="opened").detail["digest"] == made.digest


@pytest.mark.promise("M4")
def test_a_tool_that_changed_after_the_yes_does_not_run(desk: Desk) -> None:
    desk.open([SEND], "Done")
    ran = []

    @requires_confirmation
    @tool(id=ToolCall.objects.get().tool_id)
    def send(to: str, copies: int = 1, urgent: bool = False) -> str:
        """Send a letter."""
        ran.append(to)
        return "sent"

    Agent("desk", model=desk.model, tools=[send])
    desk.answer(True)
    assert ran == []
    assert desk.results["send"].outcome == "error"
    assert "changed" in desk.results["send"].content["error"]


@pytest.mark.promise("M4")
def test_stored_arguments_that_were_tampered_with_do_not_run(desk: Desk) -> None:
    desk.open([SEND], "Done")
    ToolCall.objects.update(arguments={"to": "eve", "copies": 1})
    desk.answer(True)
    assert desk.effects == []
    assert desk.results["send"].outcome == "error"


def test_a_tool_or_agent_that_left_the_code_is_an_error_and_no_loop(desk: Desk) -> None:
    desk.open([SEND], "Done")
    Agent("desk", model=desk.model, tools=[])
    desk.answer(True)
    assert desk.results["send"].outcome == "error"
    assert desk.thread.status == "COMPLETED"


@pytest.mark.promise("P5")
def test_free_calls_of_a_mixed_step_run_first_and_only_once(desk: Desk) -> None:
    """Field reports PAR-06 and PAR-07, with the free call first, last and on both sides."""
    desk.open(
        [call("look", what="a"), SEND, call("look", what="b")],
        "Done",
    )
    assert desk.effects == ["look a", "look b"]
    desk.answer(True)
    assert desk.effects == ["look a", "look b", "send ana 1"]
    [*_, block] = desk.model.requests[-1].messages
    assert [result.content for result in block.results] == ["seen a", "sent to ana", "seen b"]


@pytest.mark.promise("S1", "S2", "S4")
def test_several_gates_in_one_step_each_wait_for_their_own_answer(desk: Desk) -> None:
    """Field reports PAR-01, PAR-03, PAR-04, PAR-05 and PAR-08."""
    desk.open([call("send", to=name) for name in "abcde"], "Done")
    assert len(desk.pending) == 5
    asked = {request.arguments["to"]: request.tool_call_id for request in desk.pending}
    for name, approved in [("e", True), ("a", False), ("c", True), ("b", True)]:
        assert hitl.respond(desk.thread, asked[name], approved).delivered
        assert run_worker() == 0, "nothing goes on while one is open"
        assert desk.thread.status == "WAITING_FOR_INPUT"
    assert [request.arguments["to"] for request in desk.pending] == ["d"]
    assert desk.effects == []
    assert hitl.respond(desk.thread, asked["d"], True).delivered
    run_worker()
    assert desk.effects == ["send b 1", "send c 1", "send d 1", "send e 1"]
    assert desk.thread.status == "COMPLETED"


@pytest.mark.promise("S3")
def test_one_expiry_leaves_its_siblings_open(desk: Desk, clock: Any) -> None:
    @requires_confirmation(ttl="1m")
    @tool
    def brief() -> str:
        """Short patience."""
        return "done"

    desk.open([call("brief"), SEND], "Done", tools=[brief, *desk.tools()])
    clock.advance(seconds=61)
    run_worker()
    assert [request.tool_name for request in desk.pending] == ["send"]
    assert desk.thread.status == "WAITING_FOR_INPUT"
    desk.answer(True)
    assert desk.results["brief"].outcome == "timed_out"
    assert desk.results["send"].outcome == "ok"


def test_more_calls_than_allowed_in_one_step_get_an_error(desk: Desk, settings: Any) -> None:
    settings.AGENTS = {"CALLS_MAX": 2}
    desk.open([call("look", what=str(n)) for n in range(3)], "Done")
    assert desk.effects == ["look 0", "look 1"]
    [*_, block] = desk.model.requests[-1].messages
    assert [result.outcome for result in block.results] == ["ok", "ok", "error"]
