"""A form made from the JSON of a payload, so that a person can change its values (I6).

One field for each value of an object, of the kind that the value has: text, number, yes or no, and
JSON for what is nested or null. What nobody touched keeps its exact value, and a number that is
typed is read as JSON reads it: 9007199254740993 and 249.0 come back as they were. Touches nothing.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django import forms

from hitl import conf, display, values
from hitl.errors import BadJson

FIELDS_MAX = 60
LINES_MAX = 12
WHOLE = "payload"
"""The name of the one value of a payload that is no object, or has too many values."""


@dataclass(frozen=True, slots=True)
class Row:
    """One value in the form: its name in the payload, and its field."""

    name: str
    field: forms.BoundField

    @property
    def lines(self) -> int:
        """How many lines the value takes, within reason."""
        text = str(self.field.value() or "")
        return min(max(text.count("\n") + 1, len(text) // 70 + 1), LINES_MAX)


class _Text(forms.CharField):
    """A text, with its line breaks as the payload has them."""

    def __init__(self, **more: Any) -> None:
        super().__init__(strip=False, required=False, **more)

    def read(self, written: str, was: Any) -> Any:
        # A browser sends line breaks as CR LF whatever the text had.
        return was if _lines(written) == _lines(was) else written.replace("\r\n", "\n")


class _Json(forms.CharField):
    """Any JSON, as it is written."""

    def read(self, written: str, was: Any) -> Any:
        return values.parse(written, size_max=conf.payload_bytes_max())


class _Number(_Json):
    """A number as JSON writes it."""

    def read(self, written: str, was: Any) -> Any:
        value = super().read(written.strip(), was)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise BadJson("Write a number, with a point before its decimals.")
        return value


class _YesNo(forms.ChoiceField):
    """Yes or no."""

    def __init__(self, **more: Any) -> None:
        super().__init__(choices=[("true", "yes"), ("false", "no")], **more)

    def read(self, written: str, was: Any) -> Any:
        return written == "true"


class PayloadForm(forms.Form):
    """The values of one payload to change; `cleaned_data["payload"]` is the payload as changed.

    `seen` is the digest of the payload that the form was made from.
    """

    seen = forms.CharField(max_length=80, widget=forms.HiddenInput)

    def __init__(self, data: Any = None, *, payload: Any) -> None:
        super().__init__(data, initial={"seen": values.digest(payload)})
        self._payload = payload
        self._names: dict[str, str] = {}
        for number, (name, value) in enumerate(_parts(payload)):
            key = f"value-{number}"
            self._names[key] = name
            self.fields[key] = _field(value)

    @property
    def rows(self) -> Iterator[Row]:
        """The values in the order of the payload."""
        return (Row(name, self[key]) for key, name in self._names.items())

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        changed = {}
        parts = dict(_parts(self._payload))
        for key, name in self._names.items():
            if key not in cleaned:
                continue
            field: Any = self.fields[key]
            try:
                changed[name] = self._read(field, cleaned[key], parts[name])
            except BadJson as error:
                self.add_error(key, str(error))
        if not self.errors:
            cleaned["payload"] = changed if _is_by_parts(self._payload) else changed[WHOLE]
        return cleaned

    def _read(self, field: Any, written: str, was: Any) -> Any:
        """Return the value that was written; the very one that was there if it was left alone."""
        return was if written == field.initial else field.read(written, was)


def _is_by_parts(payload: Any) -> bool:
    return isinstance(payload, dict) and 0 < len(payload) <= FIELDS_MAX


def _parts(payload: Any) -> list[tuple[str, Any]]:
    return list(payload.items()) if _is_by_parts(payload) else [(WHOLE, payload)]


def _field(value: Any) -> forms.Field:
    """Return the field for a value of this kind, with its present value."""
    if isinstance(value, bool):
        return _YesNo(initial="true" if value else "false")
    if isinstance(value, str):
        return _Text(initial=value)
    if isinstance(value, int | float):
        return _Number(initial=values.dumps(value))
    return _Json(initial=_indented(value))


def _indented(value: Any) -> str:
    """Return JSON to edit: letters as they are, unless some hide; those are then spelled out."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return text if display.visible(text) == text else json.dumps(value, indent=2)


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")
