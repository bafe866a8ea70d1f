"""Durable workflows through their public names: bodies, steps, gates, sleeps, hooks, races."""

from typing import Any

import pytest
from pydantic import BaseModel

import hitl
from agents.models import JournalEntry, Run
from agents.testing import run_worker
from agents.workflows import (
    FatalError,
    RetryableError,
    StepContext,
    StepFailed,
    cancel,
    check,
    define_hook,
    gather,
    now,
    race,
    random,
    request_approval,
    retry,
    sleep,
    step,
    uuid4,
    workflow,
)
from agents.workflows.errors import InvalidInput
from hitl.models import Decision, Park

pytestmark = pytest.mark.django_db

effects: list[Any] = []


@pytest.fixture(autouse=True)
def no_effects() -> None:
    effects.clear()


@step(name="issue", retries=3)
def issue(order_id: str, amount: float) -> str:
    effects.append(("issue", order_id, amount))
    return f"receipt {len(effects)}"


@step(name="note")
async def note(text: str) -> str:
    effects.append(("note", text))
    return text.upper()


@workflow(name="refunding")
async def refunding(order_id: str, amount: float = 1.0) -> dict[str, Any]:
    decision = await request_approval(
        "refund",
        {"order_id": order_id, "amount": amount},
        title="Approve this refund?",
        timeout="24h",
    )
    if decision.status != "approved":
        return {"refunded": False, "decision": decision.status, "timed_out": decision.timed_out}
    receipt = await issue(order_id, amount)
    return {"refunded": True, "receipt": receipt, "by": decision.actor}


def fresh(run: Run) -> Run:
    return Run.objects.get(id=run.id)


def ended(run: Run) -> Run:
    run_worker()
    return fresh(run)


@pytest.mark.promise("W1", "W2", "I1")
def test_an_approved_refund_is_paid_once() -> None:
    run = refunding.start(order_id="o1", amount=9.5)
    assert run.status == "QUEUED"
    run_worker()
    assert fresh(run).status == "WAITING_FOR_INPUT"
    assert effects == []
    [pending] = hitl.pending(run)
    assert (pending.tool_name, pending.reason) == ("refund", "approval")
    assert pending.arguments == {"order_id": "o1", "amount": 9.5}
    assert hitl.respond(run, pending.tool_call_id, True, actor="ana").delivered
    done = ended(run)
    assert done.status == "COMPLETED", done.error
    assert done.output == {"refunded": True, "receipt": "receipt 1", "by": "ana"}
    assert effects == [("issue", "o1", 9.5)]
    late = hitl.respond(run, pending.tool_call_id, False)
    assert late.code == "already_answered"


@pytest.mark.promise("W2")
def test_a_denied_refund_is_not_paid() -> None:
    run = refunding.start("o1")
    run_worker()
    [pending] = hitl.pending(run.id)
    hitl.respond(run.id, pending.tool_call_id, False, reason="no")
    assert ended(run).output == {"refunded": False, "decision": "rejected", "timed_out": False}
    assert effects == []


@pytest.mark.promise("W2", "E1", "E2")
def test_a_gate_that_nobody_answers_times_out_without_raising(clock: Any) -> None:
    run = refunding.start("o1")
    run_worker()
    clock.advance(hours=23)
    assert ended(run).status == "WAITING_FOR_INPUT"
    clock.advance(hours=2)
    assert ended(run).output == {"refunded": False, "decision": "rejected", "timed_out": True}


@pytest.mark.promise("W12")
def test_the_same_key_returns_the_same_run() -> None:
    first = refunding.start("o1", idempotency_key="k")
    assert refunding.start("o2", idempotency_key="k").id == first.id
    assert refunding.start("o2", idempotency_key="other").id != first.id
    assert Run.objects.count() == 2


@pytest.mark.promise("W12")
@pytest.mark.parametrize(
    "given", [{}, {"order_id": "o", "amount": "much"}, {"order_id": "o", "more": 1}]
)
def test_input_that_does_not_fit_is_refused_before_any_row(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        refunding.start(**given)
    assert not Run.objects.exists()


def test_a_sleep_holds_nothing_and_goes_on_at_its_time(clock: Any) -> None:
    @workflow
    async def napping() -> str:
        await sleep("2h")
        return await note("awake")

    run = napping.start()
    run_worker()
    assert fresh(run).status == "WAITING"
    clock.advance(hours=1)
    assert ended(run).status == "WAITING"
    clock.advance(hours=2)
    assert ended(run).output == "AWAKE"


@pytest.mark.promise("W9")
def test_gathered_steps_run_apart_and_keep_their_order() -> None:
    @workflow
    async def gathering() -> list[str]:
        return await gather(note("a"), note("b"), note("c"))

    run = gathering.start()
    assert ended(run).output == ["A", "B", "C"]
    assert JournalEntry.objects.filter(run=run, is_apart=True).count() == 3


@pytest.mark.promise("W6", "W10")
def test_a_race_has_one_winner_and_the_loser_is_closed() -> None:
    reply = define_hook("reply")

    @workflow
    async def racing() -> Any:
        hook = reply.create(token="mail-1")
        winner = await race(hook, request_approval("go on"))
        return [winner.index, winner.value]

    run = racing.start()
    run_worker()
    assert len(hitl.pending(run)) == 2
    assert reply.resume("mail-1", {"yes": True}).delivered
    assert ended(run).output == [0, {"yes": True}]
    assert not Park.objects.pending().exists()
    [card] = Park.objects.filter(reason="approval")
    assert card.status == "cancelled"
    assert hitl.decide(card.id, True).code == "moved_on"
    assert reply.resume("mail-1", {}).code == "already_answered"


@pytest.mark.promise("W9")
def test_a_step_is_tried_again_later_and_no_worker_waits(clock: Any) -> None:
    keys = set()

    @step(name="flaky", retries=2, backoff="10s")
    def flaky(ctx: StepContext) -> int:
        keys.add(ctx.idempotency_key)
        effects.append(ctx.attempt)
        if ctx.attempt < 3:
            raise RetryableError("not yet", retry_after="1h" if ctx.attempt == 1 else None)
        return ctx.attempt

    @workflow
    async def trying() -> int:
        return await flaky()

    run = trying.start()
    run_worker()
    assert fresh(run).status == "WAITING"
    assert effects == [1]
    clock.advance(minutes=59)
    run_worker()
    assert effects == [1]
    clock.advance(minutes=2)
    run_worker()
    assert effects == [1, 2]
    clock.advance(seconds=25)
    assert ended(run).output == 3
    assert len(keys) == 1


@pytest.mark.promise("W9")
def test_a_fatal_error_ends_a_step_at_once_and_the_body_may_catch_it() -> None:
    @step(name="doomed")
    def doomed() -> None:
        effects.append(1)
        raise FatalError("never")

    @workflow
    async def catching() -> str:
        try:
            await doomed()
        except StepFailed as error:
            return f"{error.type}: {error.message}"
        return "done"

    run = catching.start()
    assert ended(run).output == "FatalError: never"
    assert effects == [1]


def test_values_are_recorded() -> None:
    seen = []

    @workflow
    async def values() -> Any:
        seen.append((now(), random(), uuid4()))
        await request_approval("go")
        return [now().isoformat(), seen[-1][1]]

    run = values.start()
    run_worker()
    hitl.respond(run, hitl.pending(run)[0].tool_call_id, True)
    assert ended(run).status == "COMPLETED"
    assert len(set(seen)) == 1


class Reply(BaseModel):
    """A reply."""

    text: str


@pytest.mark.promise("W6", "K1")
def test_a_hook_is_iterated_and_loses_nothing_in_between() -> None:
    reply = define_hook("chat", schema=Reply)

    @workflow
    async def listening() -> list[str]:
        hook = reply.create(token="room")
        said = []
        async for message in hook:
            said.append(await note(message.text))
            if message.text == "bye":
                break
        return said

    run = listening.start()
    run_worker()
    assert reply.resume("room", {"no": 1}).code == "invalid_payload"
    assert reply.resume("room", {"text": "a"}).delivered
    assert reply.resume("room", {"text": "b"}).delivered
    run_worker()
    assert fresh(run).status == "WAITING_FOR_INPUT"
    assert reply.resume("room", {"text": "bye"}).delivered
    assert ended(run).output == ["A", "B", "BYE"]
    assert reply.resume("room", {"text": "c"}).code == "moved_on"


@pytest.mark.promise("W4")
def test_a_held_token_is_a_conflict_at_once_and_leaves_its_holder_alone() -> None:
    @workflow
    async def holding(fallback: str) -> Any:
        decision = await request_approval("pay", token="T", fallback=fallback)
        return [decision.status, decision.conflict, decision.timed_out]

    first, second = holding.start("reject"), holding.start("approve")
    run_worker()
    assert fresh(second).output == ["rejected", True, True]
    assert fresh(first).status == "WAITING_FOR_INPUT"
    assert hitl.respond(first, "T", True).delivered
    assert ended(first).output == ["approved", False, False]
    assert Park.objects.count() == 1


@pytest.mark.promise("W5")
def test_falling_open_is_the_systems_act(clock: Any) -> None:
    @workflow
    async def lenient() -> Any:
        decision = await request_approval("pay", timeout="1h", fallback="approve")
        return [decision.status, decision.timed_out, decision.actor]

    run = lenient.start()
    run_worker()
    clock.advance(hours=2)
    assert ended(run).output == ["approved", True, "system"]
    [decided] = Decision.objects.filter(verb="approved")
    assert decided.system


@pytest.mark.promise("W8")
def test_a_diverged_run_fails_with_its_place_and_goes_on_once_mended() -> None:
    source = {"topic": "refund"}

    @workflow
    async def changing() -> str:
        await request_approval(source["topic"])
        return await note("after")

    run = changing.start()
    run_worker()
    assert [verdict.fits for verdict in check()] == [True]
    source["topic"] = "payment"
    [verdict] = check(run)
    assert "position 0" in str(verdict.error)
    assert "approval 'refund'" in str(verdict.error)
    hitl.respond(run, hitl.pending(run)[0].tool_call_id, True)
    failed = ended(run)
    assert failed.status == "FAILED"
    assert "approval 'payment'" in failed.error
    assert effects == []
    source["topic"] = "refund"
    assert retry(run)
    assert ended(run).output == "AFTER"


def test_cancelling_closes_everything() -> None:
    run = refunding.start("o1")
    run_worker()
    [pending] = hitl.pending(run)
    assert cancel(run, reason="no more")
    assert not cancel(run)
    assert fresh(run).status == "CANCELLED"
    assert hitl.respond(run, pending.tool_call_id, True).code == "moved_on"
    run_worker()
    assert effects == []


@pytest.mark.promise("W3")
def test_a_gate_inside_a_step_fails_at_once_and_writes_nothing() -> None:
    @step(name="misplaced")
    def misplaced() -> None:
        request_approval("refund")

    @workflow
    async def asking() -> None:
        await misplaced()

    run = asking.start()
    failed = ended(run)
    assert failed.status == "FAILED"
    assert "Move it out of the step" in failed.error
    assert not Park.objects.exists()


@pytest.mark.promise("W7")
def test_a_body_that_is_not_deterministic_is_found_out_in_its_test() -> None:
    calls = []

    @workflow
    async def wavering() -> str:
        calls.append(1)
        await note("a" if len(calls) == 1 else "b")
        return await note("c")

    failed = ended(wavering.start())
    assert failed.status == "FAILED"
    assert "position 0" in failed.error
