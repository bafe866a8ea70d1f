"""The replay engine: positions, the order of completions, divergence, and what it refuses."""

import asyncio
from typing import Any

import pytest

from agents.workflows import awaiting, replay
from agents.workflows.awaiting import gather, race, sleep
from agents.workflows.errors import Diverged, ForeignAwait, NeverAwaited, OutsideBody, StepFailed
from agents.workflows.replay import Blocked, Raised, Recorded
from tests.unit.workflows.driver import Body, Live, session, step


def diverges(live: Live, body: Body) -> str:
    """Replay the journal with another body; returns what is said of the difference."""
    fresh = session(live.recorded)
    fresh.start(body())
    outcome = fresh.advance(live.completed)
    error = outcome.error if isinstance(outcome, Raised) else fresh.check_length()
    fresh.close()
    assert isinstance(error, Diverged), outcome
    assert not fresh.new, "asked for more after the difference"
    return str(error)


def test_a_step_that_the_body_awaits_alone_is_told_apart_from_several() -> None:
    async def alone() -> None:
        await step("a")

    async def helped() -> None:
        await alone()

    async def several() -> None:
        await gather(step("a"), step("b"))

    assert Live(alone).outcome == Blocked(0)
    assert Live(helped).outcome == Blocked(0)
    assert Live(several).outcome == Blocked(None)


@pytest.mark.promise("W7")
def test_branches_take_their_positions_in_the_order_of_completions() -> None:
    """Field report RPL-02: a long way to the next request does not lose against a short one."""

    async def long_way(name: str) -> None:
        await step(name)
        for _ in range(3):
            await gather()
        await step(f"{name} then")

    async def short_way(name: str) -> None:
        await step(name)
        await step(f"{name} then")

    async def body() -> None:
        await gather(long_way("a"), short_way("b"))

    live = Live(body)
    live.complete("a")
    live.complete("b")
    assert [entry.name for entry in live.recorded] == ["a", "b", "a then", "b then"]
    assert live.again()[1] == live.recorded


@pytest.mark.promise("W7")
def test_a_race_has_the_same_winner_on_every_replay() -> None:
    async def body() -> Any:
        winner = await race(step("slow"), step("fast"))
        return [winner.index, winner.value]

    live = Live(body)
    live.complete("fast", "f")
    assert live.result() == [1, "f"]
    live.completed.append(replay.Delivery(0, "s"))
    outcome, _ = live.again()
    assert outcome == replay.Returned([1, "f"])


@pytest.mark.promise("W7")
def test_of_ways_that_are_done_already_the_first_wins() -> None:
    async def body() -> int:
        first, second = step("a"), step("b")
        await gather(second, first)
        return (await race(first, second)).index  # type: ignore[no-any-return]

    live = Live(body)
    live.complete("b")
    live.complete("a")
    assert live.result() == 0


def test_the_first_error_of_a_gathering_is_raised_and_the_others_stay() -> None:
    async def body() -> str:
        try:
            await gather(step("a"), step("b"), step("c"))
        except StepFailed as error:
            return str(await step(f"after {error.message}"))
        return ""

    live = Live(body)
    live.complete("b", error="b")
    assert set(live.open) == {"a", "c", "after b"}
    live.complete("after b", "done")
    assert live.result() == "done"


def test_a_call_that_is_awaited_twice_is_made_once() -> None:
    async def body() -> list[str]:
        call = step("a")
        return [await call, await call]

    live = Live(body)
    live.complete("a", "x")
    assert live.result() == ["x", "x"]
    assert len(live.recorded) == 1


@pytest.mark.promise("W7")
def test_values_are_recorded_once() -> None:
    async def body() -> list[Any]:
        number, name, moment = awaiting.random(), awaiting.uuid4(), awaiting.now()
        await step("a")
        return [number, str(name), moment.isoformat()]

    live = Live(body)
    values = [entry.value for entry in live.recorded[:3]]
    live.complete("a")
    assert live.result() == values
    outcome, _ = live.again()
    assert outcome == replay.Returned(values)


# ── Divergence ───────────────────────────────────────────────────────────────────────────────────


def parked() -> Live:
    async def body() -> None:
        await step("charge", 1)
        await step("send")

    live = Live(body)
    live.complete("charge")
    return live


@pytest.mark.promise("W8")
def test_a_step_put_before_is_a_divergence_at_its_place() -> None:
    """Field report RPL-04 (a)."""

    async def mended() -> None:
        await step("check")
        await step("charge", 1)

    said = diverges(parked(), mended)
    assert "position 0: the journal holds step 'charge', the code now asks for step 'check'" in said
    assert "retry the run, or cancel it" in said


@pytest.mark.promise("W8")
def test_other_input_is_a_divergence() -> None:
    async def mended() -> None:
        await step("charge", 2)

    assert "step 'charge' with other input" in diverges(parked(), mended)


@pytest.mark.promise("W8")
def test_a_body_that_ends_before_its_journal_is_a_divergence() -> None:
    async def mended() -> None:
        await step("charge", 1)

    said = diverges(parked(), mended)
    assert "position 1: the journal holds step 'send', the code now asks for nothing" in said


@pytest.mark.promise("W8")
def test_a_completion_of_what_the_body_has_not_asked_for_yet_is_a_divergence() -> None:
    async def body() -> None:
        await gather(step("a"), step("b"))

    async def mended() -> None:
        await step("a")
        await step("b")

    live = Live(body)
    live.complete("b")
    assert "had not asked for it" in diverges(live, mended)


@pytest.mark.promise("W8")
def test_a_step_added_after_the_journal_is_none() -> None:
    """Field report RPL-04 (d)."""

    async def mended() -> None:
        await step("charge", 1)
        await step("send")
        await step("log")

    live = parked()
    live.body = mended
    live.session = session(live.recorded)
    live.session.start(mended())
    live.session.advance(live.completed)
    live.complete("send")
    assert set(live.open) == {"log"}


@pytest.mark.promise("W8")
def test_a_body_cannot_swallow_a_divergence() -> None:
    async def mended() -> None:
        try:
            await step("check")
        except Exception:
            await step("anything")

    async def stubborn() -> None:
        try:
            await step("check")
        except BaseException:
            await step("anything")

    for body in (mended, stubborn):
        assert "position 0" in diverges(parked(), body)


# ── What is refused ──────────────────────────────────────────────────────────────────────────────


async def sleeps() -> None:
    await asyncio.sleep(1)


async def sleeps_for_nothing() -> None:
    await asyncio.sleep(0)


async def makes_a_task() -> None:
    inner = sleeps_for_nothing()
    try:
        await asyncio.gather(inner)
    finally:
        inner.close()


async def locks() -> None:
    async with asyncio.Lock(), asyncio.timeout(1):
        pass


@pytest.mark.parametrize("body", [sleeps, sleeps_for_nothing, makes_a_task, locks])
def test_what_needs_an_event_loop_is_refused_with_what_to_use_instead(body: Body) -> None:
    outcome = Live(body).outcome
    assert isinstance(outcome, Raised)
    assert isinstance(outcome.error, ForeignAwait)
    assert "In place of asyncio.sleep write `sleep`" in str(outcome.error)


def test_a_foreign_awaitable_is_told_with_its_line() -> None:
    outcome = Live(sleeps_for_nothing).outcome
    assert isinstance(outcome, Raised)
    assert "At tasks.py:" in str(outcome.error)


def test_a_call_that_is_never_awaited_is_named() -> None:
    async def body() -> None:
        step("forgotten")

    outcome = Live(body).outcome
    assert isinstance(outcome, Raised)
    assert isinstance(outcome.error, NeverAwaited)
    assert "forgotten was called and never awaited" in str(outcome.error)


@pytest.mark.promise("W3")
def test_outside_of_a_body_each_says_where_it_belongs() -> None:
    for call in (lambda: sleep("1s"), lambda: race(1), awaiting.now, awaiting.random):
        with pytest.raises(OutsideBody, match="Move it out of the step"):
            call()


def test_a_finally_block_asks_for_nothing_while_the_run_only_parks() -> None:
    seen = []

    async def body() -> None:
        try:
            await step("a")
        finally:
            seen.append("finally")
            await step("clean up")

    live = Live(body)
    live.session.close()
    assert seen == ["finally"]
    assert not live.session.new
    assert live.again()[1] == [Recorded("step", "a", live.recorded[0].digest)]


def test_a_way_that_cannot_be_waited_for_is_refused() -> None:
    async def body() -> None:
        await race(step("a"), 42)

    outcome = Live(body).outcome
    assert isinstance(outcome, Raised)
    assert "cannot be a way of race or gather" in str(outcome.error)


def test_a_body_that_asks_without_end_is_broken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "ENTRIES_MAX", 10)

    async def body() -> None:
        while True:
            awaiting.now()

    outcome = Live(body).outcome
    assert isinstance(outcome, Raised)
    assert "more than a journal holds" in str(outcome.error)
