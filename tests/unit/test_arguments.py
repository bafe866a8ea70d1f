"""Arguments of a call: from the model's text to stored JSON to typed values."""

import dataclasses
import enum
import logging
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field

from agents.context import ToolContext
from agents.tools import InvalidArguments, Tool, tool
from hitl import values

CTX = ToolContext()


class Kind(enum.Enum):
    GIFT = "gift"
    FAULT = "fault"


class Address(BaseModel):
    street: str
    code: Annotated[int, Field(alias="zip")] = 0
    weight: float = 1.0


@dataclasses.dataclass
class Line:
    item: str
    count: int = 1


@tool
def everything(
    text: str,
    number: int = 0,
    amount: Decimal = Decimal("1.50"),
    ratio: float = 1,
    flag: bool = False,
    kind: Kind = Kind.GIFT,
    size: Literal["s", "m"] = "s",
    day: date | None = None,
    at: datetime | None = None,
    key: UUID | None = None,
    address: Address | None = None,
    lines: list[Line] = [],  # noqa: B006
    tags: set[str] = frozenset(),  # type: ignore[assignment]
    extra: dict[str, Any] = {},  # noqa: B006
    data: bytes = b"",
) -> dict[str, Any]:
    """Take one of each."""
    return dict(locals())


def refusal(made: Tool, text: str) -> str:
    with pytest.raises(InvalidArguments) as caught:
        made.validate(text)
    assert caught.value.code == "invalid_arguments"
    return str(caught.value)


@pytest.mark.promise("M2", "M4")
def test_what_is_stored_is_complete_plain_and_exact() -> None:
    stored = everything.validate(
        '{"text": "a", "number": 9007199254740993, "amount": "12345678901234567890.10",'
        ' "ratio": 100, "kind": "fault", "day": "2026-01-02", "address": {"street": "s", "zip": 7},'
        ' "lines": [{"item": "pen"}], "extra": {"n": [9007199254740993, 1.0, null]}, "data": "x"}'
    )
    assert stored == {
        "text": "a",
        "number": 9007199254740993,
        "amount": "12345678901234567890.10",
        "ratio": 100.0,
        "flag": False,
        "kind": "fault",
        "size": "s",
        "day": "2026-01-02",
        "at": None,
        "key": None,
        "address": {"street": "s", "code": 7, "weight": 1.0},
        "lines": [{"item": "pen", "count": 1}],
        "tags": [],
        "extra": {"n": [9007199254740993, 1.0, None]},
        "data": "x",
    }
    assert values.loads(values.dumps(stored)) == stored
    assert type(stored["ratio"]) is float


@pytest.mark.promise("M1")
def test_the_function_gets_values_of_its_types() -> None:
    stored = everything.validate(
        '{"text": "a", "amount": 2, "kind": "fault", "day": "2026-01-02", "tags": ["b", "a"],'
        ' "key": "00000000-0000-0000-0000-000000000001", "address": {"street": "s", "zip": 7},'
        ' "lines": [{"item": "pen"}], "data": "x"}'
    )
    got = everything.invoke(values.loads(values.dumps(stored)), CTX)  # type: ignore[arg-type]
    assert got == {
        "text": "a",
        "number": 0,
        "amount": Decimal(2),
        "ratio": 1.0,
        "flag": False,
        "kind": Kind.FAULT,
        "size": "s",
        "day": date(2026, 1, 2),
        "at": None,
        "key": UUID(int=1),
        "address": Address(street="s", zip=7),
        "lines": [Line("pen")],
        "tags": {"a", "b"},
        "extra": {},
        "data": b"x",
    }


@pytest.mark.promise("M3")
@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{}", "Invalid arguments: text is missing."),
        ('{"text": 1}', "text: Input should be a valid string (got 1)"),
        ('{"text": null}', "text: Input should be a valid string (got null)"),
        ('{"text": "a", "kind": "x"}', """kind: Input should be 'gift' or 'fault' (got "x")"""),
        ('{"text": "a", "number": 1.5}', "number: Input should be a valid integer"),
        ('{"text": "a", "ratio": "NaN"}', 'ratio: Input should be a finite number (got "NaN")'),
        ('{"text": "a", "amount": "Infinity"}', "amount: Input should be a finite number"),
        ('{"text": "a", "day": "tomorrow"}', "day: Input should be a valid date"),
        ('{"text": "a", "address": {}}', "address.street is missing"),
        ('{"text": "a", "lines": [{"item": "a"}, {}]}', "lines.1.item is missing"),
        ('{"text": "a", "colour": "red"}', "there is no argument colour, only text, number,"),
        ('{"text": "a", "arg_text": "b"}', "there is no argument arg_text, only text,"),
        ('{"text": "a", "ratio": 1e400}', "A number in the JSON is too large."),
        ('{"text": "a", "ratio": NaN}', "NaN is not valid JSON"),
        ('{"text": "a", "text": "b"}', "A name stands twice"),
        ("[]", "must be an object"),
        ("to=a", "not valid JSON"),
    ],
)
def test_what_does_not_fit_is_told_to_the_model_in_one_sentence(text: str, sentence: str) -> None:
    said = refusal(everything, text)
    assert sentence in said
    assert "http" not in said
    assert "\n" not in said


@pytest.mark.promise("M3", "H4")
@pytest.mark.parametrize(
    "text",
    [
        values.dumps({"text": "a", "day": "\u202e" * 100_000}),
        values.dumps({"text": "a", "tags": list(range(50_000))}),
        values.dumps({"text": "a", "x" * 100_000: 1}),
        values.dumps({"text": "a", **{f"x{n}": 1 for n in range(1000)}}),
        values.dumps({"text": "a", "number": "9" * 100_000}),
        values.dumps({"text": "a", "day": {"deep": [[["x" * 1000] * 100] * 10] * 10}}),
    ],
    ids=["long text", "many faults", "long name", "many names", "long number", "large value"],
)
def test_the_sentence_stays_short_whatever_the_model_wrote(text: str) -> None:
    said = refusal(everything, text)
    assert len(said) < 2000


@pytest.mark.promise("H4")
def test_numbers_beyond_what_a_type_holds_are_refused_and_nothing_crashes() -> None:
    for digits in (400, 3999, 4001, 5000):
        for argument in ("ratio", "day", "at", "flag", "amount"):
            text = '{"text": "a", "' + argument + '": ' + "9" * digits + "}"
            try:
                everything.validate(text)
            except InvalidArguments as error:
                assert len(str(error)) < 400
    assert everything.validate('{"text": "a", "number": ' + "9" * 3999 + "}")


@pytest.mark.promise("H4")
def test_text_that_a_database_cannot_hold_is_marked_before_anyone_sees_it() -> None:
    """Field report ADM-02."""
    stored = everything.validate('{"text": "a\\u0000\\ud800", "extra": {"\\u0000": "\\udfff"}}')
    assert stored["text"] == "a␀\ufffd"
    assert stored["extra"] == {"␀": "\ufffd"}
    got = everything.invoke(stored, CTX)
    assert isinstance(got, dict)
    assert got["text"] == "a␀\ufffd"


@pytest.mark.promise("M3")
@given(
    st.dictionaries(
        st.sampled_from(["text", "number", "amount", "ratio", "day", "tags", "address", "lines"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(st.text(max_size=3), inner, max_size=3)
            ),
            max_leaves=5,
        ),
    )
)
def test_whatever_is_written_is_refused_or_can_be_kept_and_run(written: dict[str, Any]) -> None:
    try:
        stored = everything.validate(values.dumps(values.clean({"text": "a", **written})))
    except InvalidArguments as error:
        assert "\n" not in str(error)
        return
    again = values.loads(values.dumps(stored))
    assert isinstance(again, dict)
    assert everything.digest(again) == everything.digest(stored)
    everything.invoke(again, CTX)


@pytest.mark.promise("M2")
def test_parameters_may_have_names_that_pydantic_uses_itself() -> None:
    @tool
    def awkward(
        json: str, copy: int, schema: str = "s", model_config: str = "m", _x: int = 1
    ) -> object:
        """Do."""
        return json, copy, schema, model_config, _x

    stored = awkward.validate('{"json": "j", "copy": 1, "_x": 2}')
    assert stored == {"json": "j", "copy": 1, "schema": "s", "model_config": "m", "_x": 2}
    assert awkward.invoke(stored, CTX) == ("j", 1, "s", "m", 2)


@pytest.mark.promise("M2")
def test_an_alias_is_what_the_model_writes_and_the_parameters_name_is_what_is_kept() -> None:
    """Field report GRD-01."""

    @tool
    def look(order_id: Annotated[str, Field(alias="orderId")], n: int = 1) -> str:
        """Look."""
        return order_id

    assert list(look.parameters["properties"]) == ["orderId", "n"]
    stored = look.validate('{"orderId": "17"}')
    assert stored == {"order_id": "17", "n": 1}
    assert look.invoke(stored, CTX) == "17"
    assert "orderId is missing" in refusal(look, "{}")
    assert "only orderId, n" in refusal(look, '{"orderId": "1", "order_id": "2"}')


@pytest.mark.promise("M4")
@pytest.mark.parametrize(
    "unstable",
    [AfterValidator(lambda n: n * 2), BeforeValidator(lambda n: int(str(n).removesuffix("0")))],
    ids=["doubles", "strips"],
)
def test_a_validator_that_would_change_the_kept_value_again_is_found_out_at_once(
    unstable: Any, caplog: pytest.LogCaptureFixture
) -> None:
    @tool
    def pay(amount: Annotated[int, unstable]) -> None:
        """Pay."""

    caplog.set_level(logging.ERROR)
    assert "cannot keep these arguments" in refusal(pay, '{"amount": 100}')
    assert "does not keep its own result" in caplog.text


@pytest.mark.promise("M3")
def test_a_validator_that_crashes_is_a_refusal_and_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def crash(value: int) -> int:
        raise KeyError("oops")

    @tool
    def pay(amount: Annotated[int, AfterValidator(crash)]) -> None:
        """Pay."""

    assert refusal(pay, '{"amount": 1}') == "The tool could not check these arguments."
    assert "KeyError" in caplog.text


def test_a_validators_own_words_reach_the_model() -> None:
    def even(value: int) -> int:
        if value % 2:
            raise ValueError("must be even.")
        return value

    @tool
    def pay(amount: Annotated[int, AfterValidator(even)]) -> None:
        """Pay."""

    assert refusal(pay, '{"amount": 3}') == "Invalid arguments: amount: must be even (got 3)."


@pytest.mark.promise("M4")
def test_a_number_that_a_nested_model_lets_through_as_infinite_is_refused() -> None:
    text = '{"text": "a", "address": {"street": "s", "weight": "Infinity"}}'
    assert refusal(everything, text) == "The tool cannot keep these arguments."


@pytest.mark.promise("M4")
def test_kept_arguments_that_the_function_would_now_get_differently_do_not_run() -> None:
    ran: list[object] = []

    def before(amount: int) -> None:
        """Pay."""

    def after(amount: int, currency: str = "EUR") -> None:
        """Pay."""
        ran.append(amount)

    def narrower(amount: Annotated[int, Field(le=10)]) -> None:
        """Pay."""
        ran.append(amount)

    stored = tool(before).validate('{"amount": 100}')
    with pytest.raises(InvalidArguments, match="other arguments than those kept"):
        tool(after).invoke(stored, CTX)
    with pytest.raises(InvalidArguments, match="less than or equal to 10"):
        tool(narrower).invoke(stored, CTX)
    assert ran == []
    assert len({tool(each).digest(stored) for each in (before, after, narrower)}) == 3


def test_a_set_is_the_same_in_whatever_order_it_was_kept() -> None:
    stored = everything.validate('{"text": "a", "tags": ["a", "b", "c"]}')
    got = everything.invoke({**stored, "tags": ["c", "a", "b"]}, CTX)
    assert isinstance(got, dict)
    assert got["tags"] == {"a", "b", "c"}


def test_a_mutable_default_is_not_shared_between_calls() -> None:
    @tool
    def collect(into: list[int] = []) -> list[int]:  # noqa: B006
        """Collect."""
        into.append(1)
        return into

    assert collect.invoke(collect.validate(""), CTX) == [1]
    assert collect.invoke(collect.validate(""), CTX) == [1]
