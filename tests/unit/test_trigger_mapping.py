"""What a trigger reads out of an event: the key, the input, the payload, the delivery id."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.models import Trigger
from agents.triggers import expressions, mapping
from agents.triggers.expressions import BadExpression, NoResult

EVENT = {"id": "e1", "data": {"order": 17, "text": "hello", "tags": ["a"]}}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)


def trigger(**fields: Any) -> Trigger:
    return Trigger(slug="mail", workflow="ask", verification="secret", **fields)


@pytest.mark.promise("K2")
def test_key_input_and_payload_are_found_by_their_expressions() -> None:
    row = trigger(
        correlation_key="data.order", input="{order_id: data.order, note: data.text}",
        payload="data.text",
    )  # fmt: skip
    meaning = mapping.read(row, EVENT)  # type: ignore[arg-type]
    assert (meaning.key, meaning.payload) == ("17", "hello")
    assert meaning.input() == {"order_id": 17, "note": "hello"}


@pytest.mark.promise("K2")
def test_without_expressions_the_event_is_input_and_payload_and_correlates_with_nothing() -> None:
    meaning = mapping.read(trigger(), EVENT)  # type: ignore[arg-type]
    assert (meaning.key, meaning.payload, meaning.input()) == ("", EVENT, EVENT)


@pytest.mark.promise("K2")
@pytest.mark.parametrize(
    "expression", ["nothing", "data", "data.tags", "''", "`true`", "`1.5`", "length(id, id)",
                   "sum(data)", "unknown(@)", "join('', [data.text])[0:0]"],
)  # fmt: skip
def test_a_key_that_is_no_text_or_number_is_told_by_name(expression: str) -> None:
    with pytest.raises(NoResult, match="correlation key"):
        mapping.read(trigger(correlation_key=expression), EVENT)  # type: ignore[arg-type]


@pytest.mark.promise("K2")
def test_a_key_is_never_cut() -> None:
    row = trigger(correlation_key="id")
    assert mapping.read(row, {"id": "x" * 200}).key == "x" * 200
    with pytest.raises(NoResult, match="over 200 characters"):
        mapping.read(row, {"id": "x" * 201})


@pytest.mark.promise("K2")
@pytest.mark.parametrize("event", [[1], "text", None, 7])
def test_an_input_must_be_an_object(event: Any) -> None:
    with pytest.raises(NoResult, match="no object"):
        mapping.read(trigger(), event).input()


@pytest.mark.promise("K3")
def test_the_delivery_id_is_found_in_the_event_or_a_header() -> None:
    headers = {"X-Delivery": "d1", "webhook-id": "msg_1"}
    assert mapping.delivery_id(trigger(delivery_id="id"), EVENT, headers) == "e1"  # type: ignore[arg-type]
    assert mapping.delivery_id(trigger(delivery_header="X-Delivery"), EVENT, headers) == "d1"  # type: ignore[arg-type]
    assert mapping.delivery_id(trigger(), EVENT, headers) is None  # type: ignore[arg-type]
    standard = Trigger(slug="mail", verification="standard")
    assert mapping.delivery_id(standard, EVENT, headers) == "msg_1"  # type: ignore[arg-type]
    with pytest.raises(NoResult, match="X-Absent"):
        mapping.delivery_id(trigger(delivery_header="X-Absent"), EVENT, headers)  # type: ignore[arg-type]


@pytest.mark.promise("K5")
@pytest.mark.parametrize("text", ["data.", "[", "a b", "foo(", "", "`1", "[" * 5000])
def test_what_is_no_jmespath_is_said_in_one_line(text: str) -> None:
    with pytest.raises(BadExpression) as raised:
        expressions.check(text)
    assert "\n" not in str(raised.value)


@pytest.mark.promise("K5")
@given(st.text(max_size=30), JSON)
def test_any_text_over_any_event_gives_a_value_or_a_clear_error(text: str, event: Any) -> None:
    try:
        expressions.value(text, event, what="input")
    except (BadExpression, NoResult) as error:
        assert str(error)
