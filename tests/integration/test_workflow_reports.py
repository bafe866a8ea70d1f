"""Faults that users of other platforms reported of loops, ids and old waits, tried on workflows."""

from typing import Any

import pytest

import hitl
from agents import Agent, backlog, threads
from agents.models import Run
from agents.states import RunStatus
from agents.testing import ScriptedModel, run_worker
from agents.workflows import define_hook, race, request_approval, retry, step, workflow
from agents.workflows.errors import InvalidInput
from hitl import sweeping
from hitl.models import Park

pytestmark = pytest.mark.django_db

bumps: list[int] = []


@pytest.fixture(autouse=True)
def no_bumps() -> None:
    bumps.clear()


@step(name="bump")
def bump() -> int:
    bumps.append(len(bumps) + 1)
    return len(bumps)


@workflow(name="rounds")
async def rounds() -> int:
    while True:
        count = await bump()
        decision = await request_approval("go on", {"round": count})
        if decision.status == "approved":
            return count


def answer(run: Run, approved: bool) -> None:
    [request] = hitl.pending(run)
    assert hitl.decide(request.request_id, approved).delivered
    run_worker()


@pytest.mark.promise("W1", "W7")
def test_a_pause_in_a_loop_repeats_no_earlier_round() -> None:
    """Field report RUN-01."""
    run = rounds.start()
    run_worker()
    for approved in (False, False, True):
        answer(run, approved)
    run.refresh_from_db()
    assert (run.status, run.output) == ("COMPLETED", 3)
    assert bumps == [1, 2, 3]
    assert Park.objects.count() == 3


@pytest.mark.promise("W1", "W12")
def test_a_run_that_is_over_is_not_run_again_from_its_gate() -> None:
    """Field report RUN-09: another run asks anew, whatever was said in the first."""
    first = rounds.start()
    run_worker()
    answer(first, True)
    assert not retry(first)
    second = rounds.start()
    run_worker()
    [request] = hitl.pending(second)
    assert request.arguments == {"round": 2}
    assert Park.objects.count() == 2


@pytest.mark.promise("W12")
@pytest.mark.parametrize("key", ["", 17, "x" * 201])
def test_a_key_that_names_nothing_is_refused_before_any_row(key: Any) -> None:
    """Field report RUN-05: an empty id is no id."""
    with pytest.raises(InvalidInput):
        rounds.start(idempotency_key=key)
    assert not Run.objects.exists()


@pytest.mark.promise("H7")
def test_a_run_of_which_nobody_knows_the_code_ends_visibly_and_does_nothing(clock: Any) -> None:
    """Field report RUN-05: the sweep does not go on with it for ever."""
    model = ScriptedModel(["Done."])
    thread = threads.start(Agent("known", model=model), "Go")
    Run.objects.update(target="")
    for _ in range(20):
        clock.advance(hours=1)
        sweeping.sweep()
        run_worker()
    [run] = Run.objects.all()
    assert run.status == RunStatus.FAILED
    assert "no agent" in run.error.lower()
    assert (model.requests, backlog.owing(), thread.status) == ([], [], "FAILED")


@pytest.mark.promise("W6", "W10")
def test_what_lost_a_race_moves_nothing_when_it_comes_after_all() -> None:
    """Field report WAKE-05: the body has moved on to a gate, and only its answer ends it."""
    first, second = define_hook("first"), define_hook("second")

    @workflow
    async def moving_on() -> str:
        await race(first.create(token="a"), second.create(token="b"))
        return (await request_approval("pay")).status

    run = moving_on.start()
    run_worker()
    assert first.resume("a", 1).delivered
    run_worker()
    [gate] = Park.objects.pending().filter(topic="pay")
    second.resume("b", 2)
    run_worker()
    assert Park.objects.pending().get(topic="pay") == gate
    run.refresh_from_db()
    assert run.status == RunStatus.WAITING_FOR_INPUT
    assert hitl.decide(gate.id, True).delivered
    run_worker()
    run.refresh_from_db()
    assert (run.status, run.output) == (RunStatus.COMPLETED, "approved")


@pytest.mark.promise("W1", "K1")
def test_what_a_hook_waits_for_is_told_before_it_waits() -> None:
    """Field report WAKE-06: the token goes out by a step, and the hook is there when it does."""
    answers: list[Any] = []
    hook = define_hook("reply")

    @step(name="tell")
    def tell(token: str) -> None:
        answers.append(hook.resume(token, "at once"))

    @workflow
    async def asking() -> Any:
        created = hook.create(token="mail")
        await tell("mail")
        return await created

    run = asking.start()
    run_worker()
    run.refresh_from_db()
    assert [each.delivered for each in answers] == [True]
    assert (run.status, run.output) == ("COMPLETED", "at once")
