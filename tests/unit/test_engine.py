"""The engine: from a snapshot to the one next action."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents import engine, tree
from agents.engine import (
    CallModel,
    Cancel,
    Fail,
    Finish,
    Keep,
    Park,
    RunTool,
    Wait,
)
from agents.states import OnDoubt, Outcome, Phase
from agents.tree import CallState
from hitl.ids import new_id

TOKEN = 7


def snapshot(*calls: CallState, finished_with: str | None = None, **changes: Any) -> tree.Snapshot:
    root = tree.Frame("desk", finished_with=finished_with)
    if calls:
        root.steps.append(tree.SavedStep("", calls=list(calls)))
    return tree.Snapshot(root=root, **({"token": TOKEN, "steps": 1, "steps_max": 5} | changes))


def call(index: int = 0, **changes: object) -> CallState:
    return CallState(id=new_id(), index=index, tool_name="send", **changes)


def settled(status: str, **changes: object) -> tree.Settlement:
    return tree.Settlement(status=status, **changes)


def test_a_new_run_asks_the_model() -> None:
    assert isinstance(engine.next_action(snapshot(steps=0)), CallModel)


@pytest.mark.promise("P3")
def test_a_stop_comes_before_everything() -> None:
    assert engine.next_action(snapshot(call(gated=True), stop_requested=True)) == Cancel()


def test_a_reply_without_calls_finishes_the_run() -> None:
    assert engine.next_action(snapshot(finished_with="Bye")) == Finish("Bye")


def test_the_limit_of_steps_ends_the_run() -> None:
    assert isinstance(engine.next_action(snapshot(steps=5)), Fail)


def test_free_calls_run_before_anyone_is_asked() -> None:
    free, gated = call(1), call(0, gated=True)
    assert engine.next_action(snapshot(gated, free)) == RunTool(free, None)


@pytest.mark.promise("P1")
def test_all_questions_of_a_step_are_asked_at_once() -> None:
    first, second = call(0, gated=True), call(1, gated=True)
    assert engine.next_action(snapshot(first, second)) == Park([first, second], [])


def test_nothing_approved_runs_while_a_sibling_is_open() -> None:
    yes = call(0, gated=True, gate=settled("approved"))
    still_open = call(1, gated=True, gate=settled("pending"))
    assert engine.next_action(snapshot(yes, still_open)) == Wait()


@pytest.mark.promise("A4")
def test_an_approved_call_runs_with_its_approval() -> None:
    yes = call(gated=True, gate=settled("approved"))
    assert engine.next_action(snapshot(yes)) == RunTool(yes, yes.gate)


@pytest.mark.promise("A7", "A12")
@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        ("rejected", Outcome.DENIED),
        ("timed_out", Outcome.TIMED_OUT),
        ("cancelled", Outcome.CANCELLED),
    ],
)
def test_a_call_that_was_not_allowed_is_never_run(status: str, outcome: Outcome) -> None:
    no = call(gated=True, gate=settled(status))
    action = engine.next_action(snapshot(no))
    assert isinstance(action, Keep)
    assert [ending.outcome for ending in action.endings] == [outcome]


@pytest.mark.promise("A8")
def test_a_payload_stands_in_for_the_tool_unless_it_is_context() -> None:
    given_result = settled("approved", has_payload=True, payload={"id": 3})
    action = engine.next_action(snapshot(call(gated=True, gate=given_result)))
    assert isinstance(action, Keep)
    assert action.endings[0].result == {"id": 3}
    as_context = settled("approved", has_payload=True, payload=1, takes_payload="context")
    with_context = call(gated=True, gate=as_context)
    assert engine.next_action(snapshot(with_context)) == RunTool(with_context, as_context)


def test_what_ends_without_an_effect_is_kept_before_anything_runs() -> None:
    yes = call(0, gated=True, gate=settled("approved"))
    no = call(1, gated=True, gate=settled("rejected"))
    action = engine.next_action(snapshot(yes, no))
    assert isinstance(action, Keep)
    assert [ending.call for ending in action.endings] == [no]


# In doubt: a segment with another token went in and never came back.


def in_doubt(on_doubt: OnDoubt, **changes: object) -> CallState:
    return call(phase=Phase.CLAIMED, claimed_by=TOKEN - 1, on_doubt=on_doubt, **changes)


@pytest.mark.promise("A6")
def test_a_call_in_doubt_is_retried_failed_or_asked_about_as_its_tool_says() -> None:
    again = in_doubt(OnDoubt.RETRY)
    assert engine.next_action(snapshot(again)) == RunTool(again, None)
    action = engine.next_action(snapshot(in_doubt(OnDoubt.FAIL)))
    assert isinstance(action, Keep)
    assert action.endings[0].outcome == Outcome.UNKNOWN
    asks = in_doubt(OnDoubt.ASK, gated=True, gate=settled("approved"))
    assert engine.next_action(snapshot(asks)) == Park([], [asks])


@pytest.mark.promise("A6")
def test_the_three_answers_about_a_doubt() -> None:
    def asked(doubt: tree.Settlement) -> engine.Action:
        gate = settled("approved")
        return engine.next_action(
            snapshot(in_doubt(OnDoubt.ASK, gated=True, gate=gate, doubt=doubt))
        )

    claim = TOKEN - 1
    assert asked(settled("pending", claim=claim)) == Wait()
    happened = asked(settled("approved", claim=claim, has_payload=True, payload="sent"))
    assert isinstance(happened, Keep)
    assert happened.endings[0].result == "sent"
    assert isinstance(asked(settled("approved", claim=claim)), RunTool)
    given_up = asked(settled("rejected", claim=claim))
    assert isinstance(given_up, Keep)
    assert given_up.endings[0].outcome == Outcome.UNKNOWN


@pytest.mark.promise("A6")
def test_an_answer_about_an_earlier_claim_does_not_settle_a_later_one() -> None:
    old = settled("approved", claim=TOKEN - 2)
    again = in_doubt(OnDoubt.ASK, gated=True, gate=settled("approved"), doubt=old)
    assert engine.next_action(snapshot(again)) == Park([], [again])


STATUSES = ["pending", "approved", "rejected", "timed_out", "cancelled"]


@st.composite
def any_call(draw: st.DrawFn) -> CallState:
    gated = draw(st.booleans())
    claimed = draw(st.booleans())
    claimed_by = draw(st.integers(1, TOKEN - 1)) if claimed else 0
    gate = draw(st.none() | st.sampled_from(STATUSES).map(settled)) if gated else None
    doubt = draw(st.none() | st.sampled_from(STATUSES))
    return call(
        draw(st.integers(0, 9)),
        gated=gated,
        gate=settled("approved") if gated and claimed else gate,
        phase=Phase.CLAIMED if claimed else draw(st.sampled_from([Phase.OPEN, Phase.DONE])),
        claimed_by=claimed_by,
        on_doubt=draw(st.sampled_from(list(OnDoubt))),
        doubt=settled(doubt, claim=claimed_by) if claimed and doubt else None,
    )


@pytest.mark.promise("A7", "A10")
@given(st.lists(any_call(), max_size=5))
def test_a_gated_tool_runs_only_when_it_was_approved_and_nothing_is_open(
    calls: list[CallState],
) -> None:
    action = engine.next_action(snapshot(*calls))
    if not isinstance(action, RunTool) or not action.call.gated:
        return
    assert action.call.gate is not None
    assert action.call.gate.status == "approved"
    undone = [other for other in calls if other.phase != Phase.DONE]
    assert not [other for other in undone if other.gate and other.gate.is_open]


@given(st.lists(any_call(), max_size=5))
def test_every_action_makes_progress(calls: list[CallState]) -> None:
    """Whatever is settled, keeping what an action brings leads to the model or to a question."""
    for _ in range(50):
        action = engine.next_action(snapshot(*calls))
        match action:
            case RunTool(done):
                done.phase = Phase.DONE
            case engine.RunTools(together):
                for done in together:
                    done.phase = Phase.DONE
            case Keep(endings):
                assert endings
                for ending in endings:
                    ending.call.phase = Phase.DONE
            case Park(gates, doubts):
                assert [*gates, *doubts]
                return
            case _:
                assert isinstance(action, CallModel | Wait)
                return
    raise AssertionError("the engine goes round in circles")
