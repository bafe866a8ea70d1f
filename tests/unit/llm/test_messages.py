"""Which histories may be sent: every call has its one result, where a provider looks for it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.llm.errors import UnpairedCalls
from agents.llm.messages import (
    AssistantMessage,
    Call,
    Message,
    ToolResult,
    ToolResults,
    UserMessage,
    check_pairs,
)
from tests import provider_wires

pytestmark = pytest.mark.promise("H2")

SOME_IDS = ("a", "b", "c")


def said(*ids: str) -> AssistantMessage:
    return AssistantMessage("", tuple(Call(call_id, "tool", "{}") for call_id in ids))


def results(*ids: str) -> ToolResults:
    return ToolResults(tuple(ToolResult(call_id, "tool", "done") for call_id in ids))


USER = UserMessage("hello")

any_message = st.one_of(
    st.just(USER),
    st.lists(st.sampled_from(SOME_IDS), max_size=3).map(lambda ids: said(*ids)),
    st.lists(st.sampled_from(SOME_IDS), max_size=3).map(lambda ids: results(*ids)),
)


@st.composite
def paired_histories(draw: st.DrawFn) -> list[Message]:
    """A history as runs write it: at least one reply with calls, ids never used twice."""
    messages: list[Message] = [USER]
    counts = draw(st.lists(st.integers(0, 4), min_size=1, max_size=5).filter(any))
    for turn, count in enumerate(counts):
        ids = [f"{turn}-{position}" for position in range(count)]
        messages.append(said(*ids))
        messages += [results(*ids)] if ids else []
        messages += [USER] * draw(st.integers(0, 2))
    return messages


def steps(messages: list[Message]) -> list[provider_wires.Step]:
    """The history as a provider walks through it."""
    walked: list[provider_wires.Step] = []
    for message in messages:
        match message:
            case UserMessage():
                walked.append(("text", "", "", ""))
            case AssistantMessage(calls=calls):
                walked += [("call", call.id, call.name, call.arguments) for call in calls]
            case ToolResults(results=given_results):
                walked += [("result", result.call_id, "", "") for result in given_results]
    return walked


@given(paired_histories())
def test_a_history_with_every_call_answered_passes(messages: list[Message]) -> None:
    check_pairs(messages)


@given(st.lists(any_message, max_size=8))
def test_what_passes_is_refused_by_no_provider(messages: list[Message]) -> None:
    try:
        check_pairs(messages)
    except UnpairedCalls:
        return
    assert provider_wires.unpaired(steps(messages)) is None


@given(paired_histories(), st.data())
def test_a_history_that_loses_any_result_is_stopped(
    messages: list[Message], data: st.DataObject
) -> None:
    at = data.draw(st.sampled_from(blocks(messages)))
    block = messages[at]
    assert isinstance(block, ToolResults)
    lost = data.draw(st.sampled_from(block.results))
    kept = tuple(result for result in block.results if result is not lost)
    messages[at : at + 1] = [ToolResults(kept)] if kept else []
    with pytest.raises(UnpairedCalls):
        check_pairs(messages)


@given(paired_histories(), st.data())
def test_a_history_with_any_result_twice_is_stopped(
    messages: list[Message], data: st.DataObject
) -> None:
    at = data.draw(st.sampled_from(blocks(messages)))
    block = messages[at]
    assert isinstance(block, ToolResults)
    twice = data.draw(st.sampled_from(block.results))
    if data.draw(st.booleans()):
        messages[at] = ToolResults((*block.results, twice))
    else:
        messages.insert(at + 1, ToolResults((twice,)))
    with pytest.raises(UnpairedCalls):
        check_pairs(messages)


@given(paired_histories(), st.data())
def test_nothing_may_stand_between_calls_and_their_results(
    messages: list[Message], data: st.DataObject
) -> None:
    """Field reports MSG-03, MSG-04, MSG-07."""
    at = data.draw(st.sampled_from(blocks(messages)))
    between: list[Message] = [USER, said()]
    messages.insert(at, data.draw(st.sampled_from(between)))
    with pytest.raises(UnpairedCalls):
        check_pairs(messages)


def blocks(messages: list[Message]) -> list[int]:
    return [at for at, message in enumerate(messages) if isinstance(message, ToolResults)]


@pytest.mark.parametrize(
    ("messages", "fault"),
    [
        ([USER, said("a")], "ends before the results of the calls a"),
        ([USER, said("a"), USER], "Message 2: no results for the calls a"),
        ([USER, results("a")], "follow no call: a"),
        ([USER, said("a", "b"), results("b", "a")], "results of b, a, where a, b wait"),
        ([USER, said("a"), results("b")], "results of b, where a wait"),
        ([USER, said("a", "a"), results("a", "a")], "the id a is used by two calls"),
        ([USER, said("a"), results("a"), said("a"), results("a")], "used by two calls"),
        ([USER, said(""), results("")], "a call without an id"),
        ([USER, said(), results()], "follow no call: nothing"),
    ],
)
def test_the_first_fault_is_named(messages: list[Message], fault: str) -> None:
    with pytest.raises(UnpairedCalls, match=fault) as raised:
        check_pairs(messages)
    assert raised.value.code == "unpaired_calls"


def test_an_empty_history_has_nothing_to_answer() -> None:
    check_pairs([])
