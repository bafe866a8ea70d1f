"""Steps: what they are given, how they fail, and how they are tried again, doubted and retried."""

import asyncio
import contextlib
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import pytest
from celery import current_app

import hitl
from agents import backlog, segments
from agents.models import JournalEntry, Run, Thread
from agents.testing import run_worker
from agents.workflows import (
    RetryableError,
    StepContext,
    StepFailed,
    check,
    define_hook,
    gather,
    race,
    request_approval,
    retry,
    sleep,
    step,
    workflow,
)
from agents.workflows.errors import WorkflowDefinitionError
from hitl import faults, hints, sweeping
from hitl.models import Park
from tests import journals

pytestmark = pytest.mark.django_db

effects: list[Any] = []


@pytest.fixture(autouse=True)
def no_effects() -> Any:
    effects.clear()
    yield
    assert not journals.violations()


def ended(run: Run) -> Run:
    run_worker()
    return Run.objects.get(id=run.id)


@dataclass
class Order:
    """An order."""

    number: int
    due: date


@step(name="steps.find")
def find(number: int, due: date) -> Order:
    assert isinstance(due, date)
    return Order(number, due + timedelta(days=1))


@workflow(name="steps.typed")
async def typed(number: int, due: date) -> Any:
    order = await find(number, due=due)
    assert isinstance(order, Order)
    return await find(order.number + 1, order.due)


def test_inputs_and_outputs_keep_their_types() -> None:
    run = typed.start(1, date(2026, 1, 1))
    assert run.input == {"number": 1, "due": "2026-01-01"}
    assert ended(run).output == {"number": 2, "due": "2026-01-03"}


@pytest.mark.promise("W9")
def test_a_step_whose_retries_are_used_up_fails_the_body(clock: Any) -> None:
    @step(name="steps.bad", retries=1, backoff="1s")
    def bad() -> None:
        effects.append(1)
        raise ValueError("no way")

    @workflow
    async def trying() -> None:
        await bad()

    run = trying.start()
    assert ended(run).status == "WAITING"
    clock.advance(seconds=2)
    failed = ended(run)
    assert failed.status == "FAILED"
    assert failed.error == "StepFailed: Step steps.bad failed: ValueError: no way"
    assert effects == [1, 1]


@step(name="steps.slow", timeout="50ms", retries=0)
async def slow() -> None:
    await asyncio.sleep(30)


@step(name="steps.stuck", timeout="50ms", retries=0)
def stuck() -> None:
    while True:
        pass


@pytest.mark.promise("W9")
@pytest.mark.parametrize("late", [slow, stuck])
def test_an_attempt_that_takes_too_long_is_broken_off(late: Any) -> None:
    @workflow
    async def waiting() -> str:
        try:
            await late()
        except StepFailed as error:
            return error.type
        return ""

    assert ended(waiting.start()).output == "StepTimedOut"


@pytest.mark.parametrize(
    ("policy", "status"), [("retry", "COMPLETED"), ("fail", "FAILED"), ("ask", "WAITING_FOR_INPUT")]
)
@pytest.mark.parametrize("is_apart", [False, True])
@pytest.mark.promise("A6", "W9")
def test_a_worker_that_dies_in_a_step_leaves_it_to_its_policy(
    policy: str, status: str, is_apart: bool, clock: Any
) -> None:
    @step(name="steps.deadly", on_doubt=policy)
    def deadly(ctx: StepContext) -> int:
        effects.append(ctx.idempotency_key)
        if len(effects) == 1:
            raise faults.Crash
        return len(effects)

    @workflow
    async def risking() -> Any:
        return (await gather(deadly()))[0] if is_apart else await deadly()

    run = risking.start()
    with pytest.raises(faults.Crash):
        run_worker()
    run_worker()
    assert len(effects) == 1, "taken over while its worker may live"
    clock.advance(seconds=7)
    sweeping.sweep()
    assert ended(run).status == status
    if policy == "ask":
        [pending] = hitl.pending(run)
        assert pending.reason == "in_doubt"
        hitl.respond(run, pending.tool_call_id, True, payload="it happened")
        assert ended(run).output == "it happened"
        assert len(effects) == 1
    if policy == "retry":
        assert len(set(effects)) == 1 < len(effects)


@pytest.mark.promise("H7")
def test_a_step_that_kills_its_worker_again_and_again_is_given_up(clock: Any) -> None:
    @step(name="steps.lethal")
    def lethal() -> None:
        effects.append(1)
        raise faults.Crash

    @workflow
    async def doomed() -> None:
        await lethal()

    run = doomed.start()
    for _ in range(8):
        try:
            run_worker()
        except faults.Crash:
            clock.advance(seconds=7)
    failed = ended(run)
    assert failed.status == "FAILED"
    assert "without progress" in failed.error
    assert len(effects) <= 6


def test_a_body_that_asks_the_database_is_told_to_use_a_step() -> None:
    @workflow
    async def peeking() -> bool:
        return Thread.objects.exists()

    failed = ended(peeking.start())
    assert failed.status == "FAILED"
    assert "move that into a @step" in failed.error


def test_an_error_of_the_body_is_the_runs() -> None:
    @workflow
    async def raising() -> None:
        raise LookupError("lost")

    assert ended(raising.start()).error == "LookupError: lost"


def test_an_output_that_is_no_json_fails_the_run() -> None:
    @workflow
    async def returning() -> Any:
        return object()

    assert "cannot be kept" in ended(returning.start()).error


def test_a_workflow_that_left_the_code_fails_its_runs_and_may_be_retried() -> None:
    run = typed.start(1, date(2026, 1, 1))
    Run.objects.filter(id=run.id).update(target="gone")
    assert "There is no workflow 'gone'" in ended(run).error
    Run.objects.filter(id=run.id).update(target="steps.typed")
    assert retry(run)
    assert ended(run).status == "COMPLETED"
    assert not retry(run)


@pytest.mark.promise("W8")
def test_retrying_by_hand_tries_the_failed_step_anew_and_asks_its_gates_again() -> None:
    @step(name="steps.mended", retries=0)
    def mended() -> str:
        effects.append(1)
        if len(effects) == 1:
            raise ValueError("a bug")
        return "mended"

    @step(name="steps.before")
    def before() -> str:
        effects.append("before")
        return "before"

    hook = define_hook("steps.hook")

    @workflow
    async def mending() -> Any:
        waiting = hook.create(token="open")
        winner = await race(request_approval("slow"), mended())
        return [winner.value, await waiting]

    run = mending.start()
    assert ended(run).status == "FAILED"
    assert not Park.objects.pending().exists()
    assert hook.resume("open", 1).code == "moved_on"
    assert retry(run)
    run_worker()
    assert [park.reason for park in Park.objects.pending().order_by("id")] == ["hook", "approval"]
    assert hook.resume("open", 1).delivered
    assert ended(run).output == ["mended", 1]


@pytest.mark.promise("W6")
def test_what_a_way_raises_that_had_lost_is_logged_once_with_the_run(
    caplog: pytest.LogCaptureFixture,
) -> None:
    hook, last = define_hook("steps.late"), define_hook("steps.last")

    async def late() -> None:
        await hook.create(token="late")
        raise ZeroDivisionError("in a way that had lost")

    async def early() -> str:
        return "first"

    @workflow
    async def racing() -> str:
        winner = await race(late(), early())
        with contextlib.suppress(KeyError):
            await race(failing())
        await last.create(token="last")
        await gather(step_call := find(1, date(2026, 1, 1)), step_call)
        return str(winner.value)

    async def failing() -> None:
        raise KeyError("told to the body")

    run = racing.start()
    run_worker()
    assert hook.resume("late").delivered
    run_worker()
    assert "ZeroDivisionError" not in caplog.text, "the run goes on, and will be replayed"
    assert last.resume("last").delivered
    assert ended(run).output == "first"
    lost = [record for record in caplog.records if "had lost" in record.getMessage()]
    assert [record.getMessage() for record in lost] == [
        f"run {run.id}: a way that had lost raised ZeroDivisionError"
    ]
    assert lost[0].exc_info is not None and "had lost" in str(lost[0].exc_info[1])


@pytest.mark.promise("W8")
def test_a_divergence_leaves_other_runs_alone_and_withdraws_its_cards() -> None:
    """Field report RPL-04."""
    topics = ["refund"]

    @workflow
    async def changing(name: str) -> str:
        await request_approval(topics[0])
        effects.append(name)
        return name

    @workflow
    async def stable() -> str:
        return (await request_approval("stable")).status

    run, other = changing.start("a"), stable.start()
    run_worker()
    topics[0] = "payment"
    verdicts = {verdict.workflow: verdict.fits for verdict in check()}
    assert verdicts == {"changing": False, "stable": True}
    assert Park.objects.pending().count() == 2, "a check writes nothing"
    hitl.respond(run, "refund:0", True)
    assert "approval 'payment'" in ended(run).error
    assert effects == []
    hitl.respond(other, "stable:0", True)
    assert ended(other).output == "approved"


@pytest.mark.promise("W6")
def test_a_way_that_lost_wakes_the_run_and_answers_nothing_else() -> None:
    """Field report WAKE-05."""
    hook = define_hook("steps.either")

    @workflow
    async def either() -> Any:
        first, second = hook.create("A"), hook.create("B")
        winner = await race(first, second)
        decision = await request_approval("then")
        return [winner.index, decision.status]

    run = either.start()
    run_worker()
    hook.resume("A", 1)
    run_worker()
    assert hook.resume("B", 2).delivered
    assert ended(run).status == "WAITING_FOR_INPUT"
    [pending] = hitl.pending(run)
    assert pending.tool_name == "then"
    hitl.respond(run, pending.tool_call_id, True)
    assert ended(run).output == [0, "approved"]


@pytest.mark.promise("W6", "K1")
def test_hooks_made_in_a_loop_are_each_resumed_from_outside(clock: Any) -> None:
    """Field report RPL-05."""
    hook = define_hook("steps.leg")

    @workflow
    async def legs() -> list[Any]:
        came = []
        for leg in ("a", "b"):
            winner = await race(hook.create(f"r1:{leg}"), sleep("1h"))
            came.append(winner.value)
        return came

    run = legs.start()
    run_worker()
    assert hook.resume("r1:b", 0).code == "not_found"
    assert hook.resume("r1:a", 1).delivered
    run_worker()
    assert hook.resume("r1:b", 2).delivered
    assert ended(run).output == [1, 2]


@pytest.mark.promise("W9")
def test_a_step_apart_goes_to_its_own_queue(
    monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Any
) -> None:
    sent = []

    @step(name="steps.heavy", queue="heavy")
    def heavy(number: int) -> int:
        return number

    @workflow
    async def lifting() -> list[int]:
        return await gather(heavy(1), heavy(2))

    monkeypatch.setattr(
        current_app, "send_task", lambda name, **options: sent.append((name, options))
    )
    monkeypatch.setattr(hints, "current_app", current_app)
    with django_capture_on_commit_callbacks(execute=True):
        run = lifting.start()
        segments.run_segment(run.id, keep_alive=False)
    steps = [options for name, options in sent if name == "agents.step"]
    assert [options["queue"] for options in steps] == ["heavy", "heavy"]
    assert ended(run).output == [1, 2]


@pytest.mark.promise("W1", "P4")
def test_a_finished_step_never_runs_again(clock: Any) -> None:
    @step(name="steps.counted")
    def counted(number: int) -> int:
        effects.append(number)
        return number

    @workflow
    async def long() -> int:
        total = 0
        for number in range(5):
            total += await counted(number)
            await sleep("1h")
        return total

    run = long.start()
    for _ in range(6):
        run_worker()
        clock.advance(hours=1, seconds=1)
    assert ended(run).output == 10
    assert effects == [0, 1, 2, 3, 4]
    assert JournalEntry.objects.filter(run=run).count() == 10


@pytest.mark.promise("H8")
def test_a_stop_during_a_step_keeps_its_output_and_ends_the_run() -> None:
    from agents.workflows import cancel

    @step(name="steps.stopped")
    def stopped(run_id: str) -> str:
        assert cancel(run_id, reason="enough")
        return "kept"

    @workflow
    async def running(again: str = "") -> str:
        await stopped(str(Marker.run_id))
        return "went on"

    class Marker:
        run_id: Any = None

    run = running.start()
    Marker.run_id = run.id
    over = ended(run)
    assert (over.status, over.error) == ("CANCELLED", "enough")
    assert JournalEntry.objects.get(run=run).result == "kept"


def test_a_wrong_retry_after_falls_back_to_the_backoff(clock: Any) -> None:
    @step(name="steps.odd", backoff="1s")
    def odd(ctx: StepContext) -> int:
        if ctx.attempt == 1:
            raise RetryableError("later", retry_after="soon")
        return ctx.attempt

    @workflow
    async def waiting() -> int:
        return await odd()

    run = waiting.start()
    run_worker()
    clock.advance(seconds=2)
    assert ended(run).output == 2


@pytest.mark.parametrize(
    ("define", "said"),
    [
        (lambda: step(retries=-1), "retries=-1"),
        (lambda: step(on_doubt="shrug"), "on_doubt='shrug'"),
        (lambda: step(42), "is not a function"),
        (lambda: workflow(lambda: None), "is not async"),
        (lambda: workflow(_untyped), "has no type"),
        (lambda: workflow(_reserved), "what start\\(\\) takes for itself"),
        (lambda: define_hook(""), "cannot be the name of a hook"),
    ],
)
def test_what_cannot_be_defined_says_why(define: Any, said: str) -> None:
    with pytest.raises(WorkflowDefinitionError, match=said):
        define()


async def _untyped(what) -> None:  # type: ignore[no-untyped-def]
    pass


async def _reserved(idempotency_key: str) -> None:
    pass


def test_a_step_called_outside_of_a_body_just_runs() -> None:
    assert find(3, date(2026, 1, 1)) == Order(3, date(2026, 1, 2))


def test_nothing_is_owed_twice() -> None:
    run = typed.start(1, date(2026, 1, 1))
    run_worker()
    assert backlog.owing() == []
    assert not segments.run_segment(run.id)


@pytest.mark.promise("E8")
def test_reclaiming_hints_again_at_steps_that_nobody_has_taken() -> None:
    @workflow
    async def lifting() -> list[Order]:
        return await gather(find(1, date(2026, 1, 1)), find(2, date(2026, 1, 1)))

    run = lifting.start()
    segments.run_segment(run.id, keep_alive=False)
    assert hitl.reclaim_if_orphaned(run)
    assert ended(run).status == "COMPLETED"
    assert not hitl.reclaim_if_orphaned(run)


def test_reclaiming_leaves_a_run_alone_that_waits_for_somebody() -> None:
    @workflow
    async def asking() -> None:
        await request_approval("go on")

    run = asking.start()
    run_worker()
    assert not hitl.reclaim_if_orphaned(run)
    assert Run.objects.get(id=run.id).status == "WAITING_FOR_INPUT"
