"""JSON kept as text."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hitl import values
from hitl.errors import NotJson
from hitl.fields import JSONText

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@pytest.mark.promise("H4", "M4")
@given(JSON)
def test_json_comes_back_from_the_column_as_it_went_in(value: Any) -> None:
    value = values.clean(value)
    stored = JSONText().get_prep_value(value)
    assert JSONText().from_db_value(stored, None, None) == value
    if stored is not None:
        assert stored.isascii()
        assert values.dumps(values.loads(stored)) == stored


def test_none_is_null() -> None:
    assert JSONText().get_prep_value(None) is None
    assert JSONText().from_db_value(None, None, None) is None


def test_a_text_stays_a_text_through_validation() -> None:
    assert JSONText().clean("plain", None) == "plain"
    assert JSONText().get_prep_value("plain") == '"plain"'


def test_what_was_not_cleaned_is_refused_before_the_database_sees_it() -> None:
    with pytest.raises(NotJson):
        JSONText().get_prep_value({"when": object()})


def test_a_default_shared_between_rows_is_warned_of() -> None:
    assert [warning.id for warning in JSONText(default={}).check()] == ["fields.E010"]
