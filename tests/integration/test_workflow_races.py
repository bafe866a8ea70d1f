"""Races of workflows on PostgreSQL: who comes first is decided by the rows, and nobody is lost."""

import functools
from typing import Any

import pytest

from agents import backlog, segments
from agents.models import JournalEntry, Run
from agents.workflows import (
    StepContext,
    attempts,
    cancel,
    define_hook,
    gather,
    race,
    request_approval,
    sleep,
    step,
    workflow,
)
from hitl import hints, parks, sweeping
from hitl.models import Park
from tests import journals
from tests.integration.racing import Hints, needs_postgresql
from tests.integration.staging import Hold, crew

pytestmark = [
    pytest.mark.services,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("raced"),
]

reply = define_hook("race.reply")
effects: list[str] = []


@pytest.fixture
def raced(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Any:
    needs_postgresql()
    effects.clear()
    monkeypatch.setattr(hints, "current_app", Hints())
    yield
    assert not journals.violations()


@step(name="race.do")
def do(ctx: StepContext, what: str) -> str:
    effects.append(what)
    return what


@workflow(name="race.wait")
async def wait_or_not(token: str) -> Any:
    winner = await race(reply.create(token=token), sleep("50ms"))
    return await do("hook" if winner.index == 0 else "time")


@workflow(name="race.gate")
async def gate(token: str, fallback: str = "reject") -> Any:
    decision = await request_approval("pay", token=token, fallback=fallback)
    if decision.approved:
        await do("paid")
    return [decision.status, decision.conflict, decision.timed_out]


@workflow(name="race.busy")
async def busy() -> Any:
    hook = reply.create(token="busy")
    await do("first")
    return await hook


@workflow(name="race.both")
async def both() -> Any:
    return await gather(do("a"), do("b"))


def segment(run: Run) -> bool:
    return segments.run_segment(run.id, keep_alive=False)


def parked(flow: Any, **given: Any) -> Run:
    run: Run = flow.start(**given)
    assert segment(run)
    return Run.objects.get(id=run.id)


def finish(run: Run) -> Run:
    """Do all that is owed, whatever the hints were."""
    for _ in range(20):
        for run_id in backlog.owing():
            segments.run_segment(run_id, keep_alive=False)
        for entry_id, _queue in attempts.owing():
            attempts.perform(entry_id, keep_alive=False)
    return Run.objects.get(id=run.id)


@pytest.mark.promise("W7", "A2", "K1")
def test_a_hook_and_its_deadline_at_once_have_one_winner(clock: Any) -> None:
    """Both settle, each once; the order in which the rows took them is the winner on any replay."""
    for number in range(5):
        run = parked(wait_or_not, token=f"t{number}")
        clock.advance(seconds=1)
        with crew() as hands:
            answer, _ = hands.together(
                functools.partial(reply.resume, f"t{number}", "yes"),
                sweeping.settle_due,
            )
        first = JournalEntry.objects.get(run=run, delivered=1)
        done = finish(run)
        assert done.status == "COMPLETED", done.error
        assert done.output == ("hook" if first.kind == "hook" else "time")
        assert answer.delivered
    assert len(effects) == 5


@pytest.mark.promise("K1", "A2")
def test_of_two_events_for_one_token_one_is_delivered() -> None:
    """Field report COR-02: the other is told so."""
    run = parked(wait_or_not, token="t")
    with crew() as hands:
        answers = hands.together(lambda: reply.resume("t", "a"), lambda: reply.resume("t", "b"))
    assert sorted(answer.delivered for answer in answers) == [False, True]
    assert [answer.code for answer in answers if not answer.delivered] == ["already_answered"]
    assert finish(run).output == "hook"


@pytest.mark.promise("K1", "W4")
def test_two_runs_that_take_one_token_at_once_have_one_holder() -> None:
    """Field reports COR-01 and RPL-06."""
    both_of = [gate.start(token="T", fallback="approve") for _ in range(2)]
    with crew() as hands:
        hands.together(*(lambda run=run: segment(run) for run in both_of))
    assert Park.objects.pending().filter(token="T").count() == 1
    ended = [finish(run) for run in both_of]
    [loser] = [run for run in ended if run.status == "COMPLETED"]
    [holder] = [run for run in ended if run.status == "WAITING_FOR_INPUT"]
    assert loser.output == ["rejected", True, True]
    assert effects == []
    assert parks.respond(holder, "T", True).delivered
    assert finish(holder).output == ["approved", False, False]


@pytest.mark.promise("K1", "W4")
def test_who_waits_for_a_token_that_is_being_taken_learns_that_it_is() -> None:
    first, second = gate.start(token="T"), gate.start(token="T")
    hold = Hold("commands:writing")
    with crew() as hands:
        one = hands.start(segment, first, holds=[hold])
        hold.wait_for_it()
        other = hands.start(segment, second)
        assert hands.until_blocked(other) == {one.backend}
        hold.let_go()
        assert one.result() and other.result()
    assert finish(second).output == ["rejected", True, True]
    assert finish(first).status == "WAITING_FOR_INPUT"


@pytest.mark.promise("W6", "A3")
def test_what_comes_while_a_step_runs_is_kept() -> None:
    """Field reports WAKE-03 and WAKE-07."""
    run = busy.start()
    hold = Hold("step:returned")
    with crew() as hands:
        worker = hands.start(segment, run, holds=[hold])
        hold.wait_for_it()
        assert reply.resume("busy", "early").delivered
        hold.let_go()
        assert worker.result()
    assert finish(run).output == "early"
    assert effects == ["first"]


@pytest.mark.promise("A3")
def test_what_comes_while_a_run_is_let_go_is_not_missed() -> None:
    """Field report WAKE-03: it waits for the row, and finds the run parked."""
    run = busy.start()
    hold = Hold("park:saving")
    with crew() as hands:
        worker = hands.start(segment, run, holds=[hold])
        hold.wait_for_it()
        answer = hands.start(reply.resume, "busy", "late")
        assert hands.until_blocked(answer) == {worker.backend}
        hold.let_go()
        assert worker.result()
        assert answer.result().delivered
    assert finish(run).output == "late"


@pytest.mark.promise("A3")
def test_what_comes_right_before_a_run_is_let_go_makes_it_go_on() -> None:
    """The count of completions is what the segment let go by: it is overtaken and looks again."""
    run = busy.start()
    hold = Hold("segment:boundary")
    with crew() as hands:
        worker = hands.start(segment, run, holds=[hold])
        hold.wait_for_it()
        hold.let_go()
        second = Hold("step:kept")
        worker.holds["step:kept"] = second
        second.wait_for_it()
        assert reply.resume("busy", "between").delivered
        second.let_go()
        assert worker.result()
    assert finish(run).output == "between"


@pytest.mark.promise("W9")
def test_a_step_that_runs_apart_is_run_by_one_of_two_workers() -> None:
    run = parked(both)
    owed = [entry_id for entry_id, _ in attempts.owing()]
    with crew() as hands:
        hands.together(
            *(
                lambda entry_id=entry_id: attempts.perform(entry_id, keep_alive=False)
                for entry_id in owed * 2
            )
        )
    assert sorted(effects) == ["a", "b"]
    assert finish(run).output == ["a", "b"]


@pytest.mark.promise("P3", "W10")
def test_a_step_that_comes_back_after_its_run_was_cancelled_is_ignored() -> None:
    run = parked(both)
    [first, *_] = [entry_id for entry_id, _ in attempts.owing()]
    hold = Hold("step:returned")
    with crew() as hands:
        worker = hands.start(attempts.perform, first, holds=[hold])
        hold.wait_for_it()
        assert cancel(run)
        hold.let_go()
        worker.result()
    assert Run.objects.get(id=run.id).status == "CANCELLED"
    assert not JournalEntry.objects.filter(run=run, state="done").exists()


@pytest.mark.promise("W12")
def test_starting_with_one_key_at_once_begins_one_run() -> None:
    """Field report RPL-06."""
    with crew() as hands:
        found = hands.together(
            *(lambda: gate.start(token="T", idempotency_key="k") for _ in range(3))
        )
    assert len({run.id for run in found}) == 1
