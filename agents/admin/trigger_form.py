"""The form of a trigger, and of an event for a dry run. Checks at the door; writes nothing."""

from datetime import timedelta
from typing import Any, ClassVar

from django import forms

from agents import conf
from agents.models import Trigger
from agents.triggers import expressions
from agents.triggers.expressions import BadExpression
from agents.triggers.verification import STANDARD
from agents.workflows import authoring
from hitl import durations
from hitl.admin.theme import Select, TextInput
from hitl.errors import BadDuration

EXPRESSIONS = ("correlation_key", "input", "payload", "delivery_id")
WINDOW_MAX = timedelta(days=7)
HELP = {
    "slug": "Its address is …/hooks/triggers/ and this.",
    "verification": "Whatever is not signed, or lacks the secret, is refused.",
    "secret": 'The name of a secret in AGENTS["TRIGGER_SECRETS"], not the secret.',
    "header": "Where the signature or secret is, if not in the usual header. Standard "
    "Webhooks has headers of its own.",
    "delivery_id": "JMESPath over the event's JSON. The same id is handled once, however "
    "often it comes.",
    "delivery_header": "The header with the id, where the event has none: "
    "X-GitHub-Delivery. Standard Webhooks: empty for webhook-id, which is signed.",
    "correlation_key": "JMESPath; its text or number is the token of the hook that waits. "
    "Empty: each event begins a run.",
    "input": "JMESPath that gives an object with the workflow's arguments: "
    "{order_id: data.id}. Empty: the whole event.",
    "payload": "JMESPath: what a waiting hook is given. Empty: the whole event.",
    "starts_runs": "Begin a run when none waits for the key. Without, such an event is ignored.",
}


class DurationText(forms.CharField):
    """A duration as people write it here: "30s", "5m", "2h"."""

    def prepare_value(self, value: Any) -> Any:
        return durations.spell(value) if isinstance(value, timedelta) else value

    def to_python(self, value: Any) -> Any:
        text = super().to_python(value)
        if not text:
            return None
        try:
            found = durations.parse(text)
        except BadDuration as error:
            raise forms.ValidationError(str(error)) from None
        if found > WINDOW_MAX:
            raise forms.ValidationError(f"At most {WINDOW_MAX.days} days.")
        return found


class TriggerForm(forms.ModelForm):
    """A trigger, which is created disabled and may be enabled once all that it names is there."""

    workflow = forms.ChoiceField(widget=Select)
    buffer_window = DurationText(
        widget=TextInput,
        initial=timedelta(minutes=5),
        help_text="How long an event is kept for a run that is active for its key and does not "
        "wait for it yet: 30s, 5m, 2h.",
    )

    class Meta:
        model = Trigger
        fields = (
            *("slug", "workflow", "enabled", "verification", "secret", "header"),
            *("delivery_id", "delivery_header", "correlation_key", "input", "payload"),
            *("starts_runs", "buffer_window"),
        )
        help_texts: ClassVar = HELP

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if "workflow" in self.fields:
            names = [each.name for each in authoring.every()]
            if self.instance.workflow and self.instance.workflow not in names:
                names.append(self.instance.workflow)
            field: Any = self.fields["workflow"]
            field.choices = [(name, name) for name in names]

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        for name in EXPRESSIONS:
            if text := cleaned.get(name):
                self._check(name, text)
        if cleaned.get("verification") == STANDARD and cleaned.get("header"):
            self.add_error("header", "Standard Webhooks has headers of its own; leave this empty.")
        if cleaned.get("enabled"):
            self._check_ready(cleaned)
        return cleaned

    def _check(self, name: str, text: str) -> None:
        try:
            expressions.check(text)
        except BadExpression as error:
            self.add_error(name, str(error))

    def _check_ready(self, cleaned: dict[str, Any]) -> None:
        """Refuse to enable what could only refuse events, or fail with them."""
        if "secret" in cleaned and not conf.trigger_secrets(cleaned["secret"]):
            self.add_error(
                "secret",
                f'AGENTS["TRIGGER_SECRETS"] has no secret of this name with at least '
                f"{conf.TRIGGER_SECRET_CHARS_MIN} characters.",
            )
        if cleaned.get("workflow") not in [each.name for each in authoring.every()]:
            self.add_error("workflow", "There is no workflow of this name any more.")


class EventForm(forms.Form):
    """An event to try."""

    event = forms.CharField(strip=False, widget=forms.Textarea(attrs={"rows": 8}))
