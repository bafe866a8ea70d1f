"""What a person writes beside a decision: a reason, a result. Touches nothing.

Limits are those of the rows: a text that is too long is refused with a message, never cut, since
the person is still there to shorten it.
"""

from typing import Any

from django import forms

from hitl import conf, parks, values
from hitl.errors import HitlError


class ReasonForm(forms.Form):
    """A decision with its reason, which may be empty, and the digest of what was decided about."""

    seen = forms.CharField(required=False, max_length=80, widget=forms.HiddenInput)
    reason = forms.CharField(
        required=False,
        max_length=parks.REASON_CHARS_MAX,
        widget=forms.Textarea(attrs={"rows": 2}),
    )


class ResultForm(ReasonForm):
    """A decision with a value: the tool's result, or information for the tool.

    `cleaned_data["result"]` is JSON: the parsed value, or the text as it was written.
    """

    field_order = ("result", "kind", "reason")

    result = forms.CharField(strip=False, widget=forms.Textarea(attrs={"rows": 4}))
    kind = forms.ChoiceField(
        choices=[("text", "text"), ("json", "JSON")],
        initial="text",
        widget=forms.RadioSelect,
        error_messages={"required": "Say whether it is text or JSON."},
    )

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if "result" in cleaned and "kind" in cleaned:
            try:
                cleaned["result"] = _value(cleaned["result"], kind=cleaned["kind"])
            except HitlError as error:
                self.add_error("result", str(error))
        return cleaned


class ExtensionForm(ReasonForm):
    """By how much a deadline is moved, with the reason."""

    by = forms.ChoiceField(
        choices=[
            ("15m", "15 minutes"),
            ("1h", "an hour"),
            ("4h", "4 hours"),
            ("1d", "a day"),
            ("3d", "3 days"),
        ],
        initial="1h",
        error_messages={"required": "Say for how long."},
    )


def _value(text: str, *, kind: str) -> values.JSON:
    most = conf.payload_bytes_max()
    if kind == "json":
        return values.parse(text, size_max=most)
    # A browser sends line breaks as CR LF whatever was typed.
    return values.clean(text.replace("\r\n", "\n"), size_max=most)
