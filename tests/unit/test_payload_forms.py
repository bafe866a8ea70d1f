"""The form of a payload: every value comes back exactly, unless somebody changed it."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hitl import values
from hitl.payload_forms import PayloadForm

PAYLOAD: dict[str, Any] = {
    "order": "o17",
    "amount": 249.0,
    "big": 9007199254740993,
    "small": 1e-7,
    "express": True,
    "gift": False,
    "note": "one\r\ntwo\rthree\n\n",
    "nothing": None,
    "items": [{"sku": "a", "price": 1.10}, 2.0],
    "empty": "",
    "nested": {"deep": {"er": 3.0}},
}


def sent(form: PayloadForm, **changed: str) -> dict[str, str]:
    """Return what a browser would send: the form's values, line breaks as CR LF, with changes."""
    data = {"seen": form["seen"].value()}
    for row in form.rows:
        text = changed.get(row.name, str(row.field.value()))
        data[row.field.name] = text.replace("\r\n", "\n").replace("\r", "\n").replace("\n", "\r\n")
    return data


def submitted(payload: Any, **changed: str) -> PayloadForm:
    form = PayloadForm(sent(PayloadForm(payload=payload), **changed), payload=payload)
    form.is_valid()
    return form


def exactly(value: Any) -> str:
    return values.dumps(value)


@pytest.mark.promise("I6")
def test_what_nobody_touched_comes_back_exactly() -> None:
    form = submitted(PAYLOAD)
    assert form.errors == {}
    assert exactly(form.cleaned_data["payload"]) == exactly(PAYLOAD)
    assert form.cleaned_data["seen"] == values.digest(PAYLOAD)


@pytest.mark.promise("I6")
def test_what_was_changed_is_read_as_what_it_is() -> None:
    form = submitted(
        PAYLOAD,
        order="o18",
        amount="100.50",
        big="9007199254740995",
        express="false",
        note="a\nb",
        nothing="[1]",
        items='[{"sku": "b", "price": 1.0}]',
    )
    changed = form.cleaned_data["payload"]
    assert exactly(changed) == exactly(
        PAYLOAD
        | {
            "order": "o18",
            "amount": 100.5,
            "big": 9007199254740995,
            "express": False,
            "note": "a\nb",
            "nothing": [1],
            "items": [{"sku": "b", "price": 1.0}],
        }
    )


@pytest.mark.promise("I6")
@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(("amount", bad) for bad in ("", "ten", "1,5", "NaN", "1e999", "true", '"1"', "[1]")),
        *(("items", bad) for bad in ("", "[1", "{'a': 1}", '{"a": 1, "a": 2}', "[" * 500)),
        ("express", "maybe"),
    ],
)
def test_what_makes_no_sense_is_refused_at_its_field(name: str, text: str) -> None:
    form = submitted(PAYLOAD, **{name: text})
    [key] = form.errors
    assert form._names[key] == name
    assert "payload" not in form.cleaned_data


@pytest.mark.promise("I6")
@pytest.mark.parametrize("payload", [[1, 2.0], "text", 7, 249.0, None, {}, True, ""])
def test_a_payload_that_is_no_object_is_one_value(payload: Any) -> None:
    form = submitted(payload)
    assert [row.name for row in form.rows] == ["payload"]
    assert form.errors == {}
    assert exactly(form.cleaned_data["payload"]) == exactly(payload)


def test_an_object_of_very_many_values_is_one_value() -> None:
    payload = {f"n{n}": n for n in range(200)}
    form = submitted(payload)
    assert len(list(form.rows)) == 1
    assert form.cleaned_data["payload"] == payload


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=12,
)


@pytest.mark.promise("I6")
@given(JSON)
def test_any_payload_survives_the_form(payload: Any) -> None:
    kept = values.clean(payload)
    form = submitted(kept)
    assert form.errors == {}
    came = form.cleaned_data["payload"]
    assert exactly(came) == exactly(kept)
    assert not isinstance(came, float) or math.isfinite(came)
