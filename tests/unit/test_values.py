"""JSON at the door: cleaning, canonical text, digests, and what a model may write."""

import dataclasses
import enum
import hashlib
import json
import uuid
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.utils.safestring import mark_safe
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from hitl import values
from hitl.errors import BadJson, NotJson, TooLarge

ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()))
HOSTILE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | ANY_TEXT
    | st.binary(max_size=20)
    | st.decimals()
    | st.uuids()
    | st.dates()
    | st.sampled_from([10**4000, -(10**4200), "\0", "\ud800", "\udfff\ud800", 2**53 + 1]),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.tuples(inner, inner)
        | st.dictionaries(st.integers() | ANY_TEXT, inner, max_size=5)
        | st.sets(st.integers() | ANY_TEXT, max_size=5)
    ),
    max_leaves=20,
)


class Colour(enum.Enum):
    RED = "red"


class Word(enum.StrEnum):
    YES = "yes"


class Weekday(enum.IntEnum):
    MONDAY = 1


class Order(BaseModel):
    id: uuid.UUID
    total: Decimal
    notes: set[str] = set()


@dataclasses.dataclass
class Point:
    x: int
    other: object = None


def cleaned(value: object) -> Any:
    """Clean a value that may hold two keys that become one, which is refused."""
    try:
        return values.clean(value)
    except NotJson as error:
        assert "same name" in str(error)
        return None


@pytest.mark.promise("H4")
@given(HOSTILE)
def test_what_was_cleaned_is_stored_and_comes_back_equal(value: object) -> None:
    clean = cleaned(value)
    text = values.dumps(clean)
    assert text.isascii()
    assert "\\u0000" not in text
    assert values.loads(text) == clean
    assert values.dumps(values.loads(text)) == text


@pytest.mark.promise("H4")
@given(HOSTILE)
def test_cleaning_twice_changes_nothing_more(value: object) -> None:
    clean = cleaned(value)
    assert values.clean(clean) == clean


@pytest.mark.promise("H4")
@given(ANY_TEXT)
def test_clean_text_can_be_encoded_and_holds_no_nul(text: str) -> None:
    clean = values.clean_text(text)
    assert "\0" not in clean
    assert clean.encode() is not None
    assert values.clean_text(clean) == clean


@pytest.mark.promise("H4")
@given(ANY_TEXT, st.integers(min_value=1, max_value=60))
def test_text_is_never_longer_than_its_bound(text: str, chars_max: int) -> None:
    assert len(values.clean_text(text, chars_max=chars_max)) <= chars_max


def test_a_cut_text_says_that_it_was_cut_and_how_long_it_was() -> None:
    cut = values.clean_text("x" * 500, chars_max=100)
    assert cut.startswith("xxx")
    assert cut.endswith("…(cut, 500 characters in all)")
    assert len(cut) == 100


@pytest.mark.promise("H4")
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a\0b", "a␀b"),
        ("\ud800", "\ufffd"),
        ("\ud83d\ude00", "😀"),
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
        (9007199254740993, 9007199254740993),
        (249.0, 249.0),
        (10**4000, "…(integer of more than 4000 digits)"),
        (Decimal("1.10"), "1.10"),
        (Colour.RED, "red"),
        (Word.YES, "yes"),
        (Weekday.MONDAY, 1),
        (mark_safe("<b>"), "<b>"),
        (date(2026, 1, 2), "2026-01-02"),
        (datetime(2026, 1, 2, 3, tzinfo=UTC), "2026-01-02T03:00:00Z"),
        (timedelta(hours=1), "PT1H"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (b"plain", "plain"),
        (b"\xff\xfe", "//4="),
        ((1, 2), [1, 2]),
        pytest.param(set("bdacfe"), list("abcdef"), id="a set"),
        (Point(1), {"x": 1, "other": None}),
        ({1: "a", None: "b", Colour.RED: "c"}, {"1": "a", "None": "b", "red": "c"}),
        ({"a\0": 1}, {"a␀": 1}),
    ],
    ids=str,
)
def test_each_kind_of_value_has_one_stored_form(value: object, expected: object) -> None:
    clean = values.clean(value)
    assert clean == expected
    assert type(clean) is type(expected)


def test_a_pydantic_model_becomes_an_object() -> None:
    order = Order(id=uuid.UUID(int=1), total=Decimal("9.90"))
    assert values.clean({"order": order}) == {
        "order": {"id": "00000000-0000-0000-0000-000000000001", "total": "9.90", "notes": []}
    }


def test_a_model_that_holds_bytes_is_kept() -> None:
    class Blob(BaseModel):
        data: bytes

    assert values.clean(Blob(data=b"\xff")) == {"data": "/w=="}


@pytest.mark.promise("H4")
def test_what_is_nested_too_deep_is_replaced_by_a_mark() -> None:
    nested: Any = "core"
    for _ in range(60):
        nested = [nested]
    assert values.clean(nested) == nested  # field report ADM-02: 60 levels are kept
    kept = values.clean(nested, depth_max=3)
    assert kept == [[["…(nested deeper than 3 levels)"]]]


@pytest.mark.promise("H4")
def test_a_list_that_holds_itself_ends() -> None:
    alone: list[Any] = []
    alone.append(alone)
    assert "nested deeper" in values.dumps(values.clean(alone))


@pytest.mark.promise("H4")
def test_a_value_that_multiplies_by_sharing_is_too_large_and_takes_no_time() -> None:
    shared: list[Any] = ["x"]
    for _ in range(50):
        shared = [shared] * 10
    with pytest.raises(TooLarge):
        values.clean(shared)


@pytest.mark.promise("H4")
@pytest.mark.parametrize("value", ["x" * 101, ["x"] * 60, {"k" * 101: 1}, "é" * 20, "\x01" * 20])
def test_over_its_bound_of_bytes_a_value_is_refused(value: object) -> None:
    with pytest.raises(TooLarge, match="100 bytes"):
        values.clean(value, size_max=100)


def test_a_value_just_within_its_bound_is_kept() -> None:
    assert values.clean("x" * 98, size_max=100) == "x" * 98


@pytest.mark.parametrize(
    "value", [object(), print, (n for n in [object()]), [lambda: 1], 1j.conjugate]
)
def test_what_has_no_json_form_is_refused_and_named(value: object) -> None:
    with pytest.raises(NotJson, match="has no JSON form"):
        values.clean(value)


def test_an_object_whose_own_serializer_fails_is_refused() -> None:
    loop = Point(1)
    loop.other = loop
    with pytest.raises(NotJson, match="Point"):
        values.clean(loop)


def test_two_keys_that_become_one_are_refused_rather_than_lost() -> None:
    with pytest.raises(NotJson, match="same name"):
        values.clean({1: "one", "1": "two"})


def test_canonical_text_does_not_depend_on_the_order_of_keys() -> None:
    assert values.dumps({"b": 1, "a": [True, None]}) == '{"a":[true,null],"b":1}'
    assert values.dumps({"a": [True, None], "b": 1}) == '{"a":[true,null],"b":1}'


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, object(), {1: 1, "a": 2}])
def test_canonical_text_of_what_was_not_cleaned_is_refused(value: object) -> None:
    with pytest.raises(NotJson):
        values.dumps(value)


@pytest.mark.promise("M4")
def test_a_digest_covers_the_full_value_whatever_is_shown() -> None:
    """Field report DEC-05."""
    long = "x" * 5000
    others = [
        long[:3999] + "y" + long[4000:],
        long + " ",
        long + "\x01",
        [0] * 40,
        [0] * 39 + [1],
        1,
        "1",
        True,
        None,
        {},
        [],
        "",
    ]
    digests = {values.digest({"arguments": one}) for one in [long, *others]}
    assert len(digests) == len(others) + 1


@pytest.mark.promise("M4")
def test_a_digest_is_that_of_the_canonical_text_so_any_tool_can_check_it() -> None:
    written = b'{"a":null,"b":[1,2.5,"\\u00e9"]}'
    expected = "sha256:" + hashlib.sha256(written).hexdigest()
    assert values.digest({"b": [1, 2.5, "é"], "a": None}) == expected


class TestParsingWhatAModelWrote:
    @pytest.mark.parametrize("text", ["", "  \n", "{}"])
    def test_nothing_written_means_no_arguments(self, text: str) -> None:
        assert values.parse_object(text) == {}

    def test_numbers_are_exact(self) -> None:
        parsed = values.parse_object('{"n": 9007199254740993, "big": ' + "9" * 4000 + ', "f": 1.0}')
        assert parsed == {"n": 9007199254740993, "big": int("9" * 4000), "f": 1.0}
        assert type(parsed["f"]) is float

    @pytest.mark.promise("H4")
    def test_text_that_a_database_cannot_hold_is_marked(self) -> None:
        text = '{"a": "\\u0000", "b": ["\\ud800"], "c\\u0000": "\\ud83d\\ude00"}'
        assert values.parse_object(text) == {"a": "␀", "b": ["\ufffd"], "c␀": "😀"}

    @pytest.mark.promise("H4")
    @pytest.mark.parametrize(
        ("text", "sentence"),
        [
            ("[1]", "must be an object"),
            ('"text"', "must be an object"),
            ("null", "must be an object"),
            ("{", "not valid JSON"),
            ("{'a': 1}", "not valid JSON"),
            ('{"a": 1} {"a": 2}', "not valid JSON"),
            ('\ufeff{"a": 1}', "not valid JSON"),
            ('{"a": "\n"}', "not valid JSON"),
            ('{"a": NaN}', "NaN is not valid JSON"),
            ('{"a": -Infinity}', "-Infinity is not valid JSON"),
            ('{"a": 1e400}', "too large"),
            ('{"a": ' + "9" * 4001 + "}", "more than 4000 digits"),
            ('{"a": -' + "9" * 100_000 + "}", "more than 4000 digits"),
            ('{"a": 1, "a": 1000}', "twice"),
            ('{"a\\u0000": 1, "a␀": 2}', "same name"),
            ('{"a":' * 70 + "1" + "}" * 70, "nested deeper than 64"),
            ('{"a":' + "[" * 100_000 + "]" * 100_000 + "}", "nested"),
            ("[" * 100_000, "nested"),
            ('{"a": "' + "x" * 3_000_000 + '"}', "over 2097152"),
            ('{"a": "' + "é" * 1_000_000 + '"}', "over 2097152"),
        ],
    )
    def test_what_cannot_be_accepted_is_told_in_a_sentence(self, text: str, sentence: str) -> None:
        with pytest.raises(BadJson, match=sentence) as caught:
            values.parse_object(text)
        assert len(str(caught.value)) < 200

    @pytest.mark.promise("H4")
    @given(ANY_TEXT | st.text(alphabet='{}[]":,0123456789eE+-.\\unaftrlsy \0'))
    def test_any_text_gives_an_object_or_a_sentence(self, text: str) -> None:
        try:
            parsed = values.parse_object(text)
        except BadJson:
            return
        assert values.loads(values.dumps(parsed)) == parsed

    @given(st.dictionaries(st.text(), st.integers() | st.floats(allow_nan=False) | st.text()))
    def test_an_object_in_bounds_is_read_as_it_was_written(self, written: dict[str, Any]) -> None:
        try:
            parsed = values.parse_object(json.dumps(written))
        except BadJson as error:
            assert "Infinity" in str(error) or "same name" in str(error)
            return
        assert parsed == values.clean(written)
