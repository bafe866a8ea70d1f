"""A form of a call's arguments, to change and approve them in one act (A9).

As the form of a payload: a field for each value, and what nobody touched keeps its exact value. The
tool's schema adds what its arguments mean, and a choice where it has one. A mask that is left alone
stays the value behind it.
"""

from typing import Any

from django import forms

from hitl import parks, subjects
from hitl.models import Park
from hitl.payload_forms import PayloadForm

CHOICES_MAX = 100


class _Choice(forms.ChoiceField):
    """One of the texts that the schema allows."""

    def read(self, written: str, was: Any) -> Any:
        return written


class ArgumentsForm(PayloadForm):
    """The arguments of a pending request, and the reason for the yes that goes with them."""

    reason = forms.CharField(required=False, max_length=parks.REASON_CHARS_MAX)

    def __init__(self, data: Any = None, *, park: Park) -> None:
        super().__init__(data, payload=park.arguments)
        self.initial["seen"] = park.digest
        subject = subjects.of(park)
        schema = subject.schema(park) if subject is not None else {}
        properties = schema.get("properties", {})
        for key, name in self._names.items():
            about = properties.get(name, {})
            field = _choice(about, self.fields[key].initial) or self.fields[key]
            field.help_text = str(about.get("description", ""))
            self.fields[key] = field


def _choice(about: dict[str, Any], value: Any) -> forms.Field | None:
    """Return a choice where the schema lists texts, and the present value is among them."""
    options = about.get("enum")
    if not isinstance(options, list) or not 1 < len(options) <= CHOICES_MAX:
        return None
    if value not in options or not all(isinstance(option, str) for option in options):
        return None
    return _Choice(choices=[(option, option) for option in options], initial=value)
