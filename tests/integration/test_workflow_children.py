"""Workflows that run agents, and agents whose tools start workflows (W11)."""

from typing import Any

import pytest

import hitl
from agents import Agent, requires_confirmation, threads, tool
from agents.models import Run, Thread
from agents.testing import ScriptedModel, call, run_worker
from agents.workflows import AgentFailed, cancel, request_approval, run_agent, workflow
from hitl.models import Park

pytestmark = [pytest.mark.django_db, pytest.mark.promise("W11")]

effects: list[str] = []


@requires_confirmation
@tool
def send(to: str) -> str:
    """Send a letter."""
    effects.append(to)
    return f"sent to {to}"


@pytest.fixture(autouse=True)
def clerk() -> None:
    effects.clear()
    Agent("clerk", model=ScriptedModel([[call("send", to="ana")], "It is done."]), tools=[send])


@workflow(name="delegating")
async def delegating(message: str) -> str:
    """Let the clerk do it."""
    try:
        return await run_agent("clerk", message)
    except AgentFailed as error:
        return f"failed: {error}"


@workflow(name="approving")
async def approving(amount: float) -> dict[str, Any]:
    """Ask whether this may be paid."""
    decision = await request_approval("pay", {"amount": amount})
    if decision.reason == "break":
        raise ValueError("broken")
    return {"paid": decision.approved}


def fresh(run: Run) -> Run:
    return Run.objects.get(id=run.id)


def test_a_workflow_runs_an_agent_whose_gate_is_in_the_same_inbox() -> None:
    run = delegating.start("Write to Ana")
    run_worker()
    assert fresh(run).status == "WAITING"
    [park] = Park.objects.pending()
    assert park.topic == "send"
    assert hitl.decide(park.id, True).delivered
    run_worker()
    assert effects == ["ana"]
    assert fresh(run).output == "It is done."
    child = Run.objects.get(parent=run)
    assert child.reported_at is not None


def test_an_agent_that_is_stopped_fails_the_wait() -> None:
    run = delegating.start("Write to Ana")
    run_worker()
    threads.stop(Thread.objects.get(), reason="enough")
    run_worker()
    assert fresh(run).output == "failed: clerk: CANCELLED. enough"


def test_cancelling_the_workflow_stops_its_agent() -> None:
    run = delegating.start("Write to Ana")
    run_worker()
    cancel(run)
    run_worker()
    assert Run.objects.get(parent=run).status == "CANCELLED"
    assert not Park.objects.pending().exists()


def test_an_agent_that_nobody_defined_fails_the_wait() -> None:
    @workflow
    async def lost() -> str:
        return await run_agent("nobody", "Hello")

    run = lost.start()
    run_worker()
    assert fresh(run).status == "FAILED"
    assert "There is no agent 'nobody'" in fresh(run).error


def cashier() -> tuple[ScriptedModel, Thread]:
    model = ScriptedModel([[call("approving", amount=9.5)], "Thank you."])
    Agent("cashier", model=model, tools=[approving])
    thread = threads.start("cashier", "Pay 9.5")
    run_worker()
    return model, thread


def result(model: ScriptedModel) -> Any:
    [*_, last] = model.requests[-1].messages
    return last.results[0].content


def test_a_tool_starts_a_workflow_and_its_output_is_the_result() -> None:
    model, thread = cashier()
    assert thread.status == "WAITING_FOR_INPUT"
    [gate] = Park.objects.pending().filter(reason="approval")
    assert gate.arguments == {"amount": 9.5}
    hitl.decide(gate.id, True)
    run_worker()
    assert thread.status == "COMPLETED"
    assert result(model) == {"paid": True}


def test_a_workflow_that_fails_gives_the_model_an_error() -> None:
    model, thread = cashier()
    [gate] = Park.objects.pending().filter(reason="approval")
    hitl.decide(gate.id, False, reason="break")
    run_worker()
    assert thread.status == "COMPLETED"
    assert "ended FAILED: ValueError: broken" in str(result(model))


def test_stopping_the_agent_cancels_its_workflow() -> None:
    _, thread = cashier()
    threads.stop(thread)
    run_worker()
    assert Run.objects.get(kind="workflow").status == "CANCELLED"
    assert not Park.objects.pending().exists()
