"""A form for the input of a workflow, built from its signature. Checks at the door; writes nothing.

One field per argument: text, number, yes or no, choice; JSON for what is nested. What is left empty
takes its default. The workflow itself reads the input in the end, so a form never lets through what
`start` would refuse.
"""

import json
from typing import Any

from django import forms

from agents.workflows.authoring import Workflow
from agents.workflows.errors import InvalidInput
from hitl import values
from hitl.errors import BadJson

PREFIX = "input-"
KEY = "idempotency_key"
YES_NO = [("true", "yes"), ("false", "no")]


class StartForm(forms.Form):
    """The input of one workflow. `cleaned_data["arguments"]` is what `start` takes."""

    def __init__(self, workflow: Workflow, data: Any = None) -> None:
        super().__init__(data)
        self.workflow = workflow
        self.kinds: dict[str, str] = {}
        schema = workflow.parameters
        required = schema.get("required", [])
        for name, part in schema.get("properties", {}).items():
            whole = _resolved(part, schema.get("$defs", {}))
            self.kinds[name] = _kind(whole)
            self.fields[PREFIX + name] = _field(name, whole, self.kinds[name], name in required)
        self.fields[KEY] = forms.CharField(
            required=False,
            max_length=200,
            label="Idempotency key",
            help_text="May be empty. The same key gives the run that it began.",
        )

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        arguments: dict[str, Any] = {}
        for name, kind in self.kinds.items():
            text = cleaned.get(PREFIX + name)
            if text is None or text == "":
                continue
            try:
                arguments[name] = _read(text, kind)
            except BadJson as error:
                self.add_error(PREFIX + name, str(error))
        if not self.errors:
            try:
                self.workflow.read(**arguments)
            except InvalidInput as error:
                self.add_error(None, str(error))
        return {**cleaned, "arguments": arguments}


def _resolved(part: dict[str, Any], named: dict[str, Any]) -> dict[str, Any]:
    """Return a part of a schema with what it refers to, and without the "or nothing" around it."""
    if name := part.get("$ref", "").rpartition("/")[2]:
        part = {**named.get(name, {}), **{k: v for k, v in part.items() if k != "$ref"}}
    several = [one for one in part.get("anyOf", []) if one.get("type") != "null"]
    if len(several) == 1:
        return {**_resolved(several[0], named), **{k: v for k, v in part.items() if k != "anyOf"}}
    return part


def _kind(part: dict[str, Any]) -> str:
    if "enum" in part and all(isinstance(one, str) for one in part["enum"]):
        return "choice"
    kind = part.get("type")
    return kind if kind in ("string", "integer", "number", "boolean") else "json"


def _field(name: str, part: dict[str, Any], kind: str, required: bool) -> forms.Field:
    default = part.get("default")
    common: dict[str, Any] = {
        "label": name,
        "required": required and kind != "string",  # a text may be empty
        "help_text": _help(part, kind, required),
        "initial": None if default is None else _written(default, kind),
    }
    if kind in ("choice", "boolean"):
        listed = YES_NO if kind == "boolean" else [(one, one) for one in part["enum"]]
        return forms.ChoiceField(choices=listed if required else [("", "–"), *listed], **common)
    if kind == "integer":
        return forms.IntegerField(**common)
    if kind == "number":
        widget = forms.NumberInput(attrs={"step": "any"})
        return forms.CharField(widget=widget, **common)
    rows = 1 if kind == "string" else 5
    return forms.CharField(strip=False, widget=forms.Textarea(attrs={"rows": rows}), **common)


def _help(part: dict[str, Any], kind: str, required: bool) -> str:
    words = [part.get("description", "")]
    words += ["JSON."] if kind == "json" else []
    words += [] if required else ["May be empty."]
    return " ".join(word for word in words if word)


def _written(value: Any, kind: str) -> Any:
    if kind == "json":
        return json.dumps(value, indent=2)
    return {True: "true", False: "false"}.get(value, value) if kind == "boolean" else value


def _read(text: Any, kind: str) -> Any:
    if kind in ("json", "number"):
        return values.parse(text)
    if kind == "boolean":
        return text == "true"
    # A browser sends line breaks as CR LF whatever was typed.
    return text.replace("\r\n", "\n") if isinstance(text, str) else text
