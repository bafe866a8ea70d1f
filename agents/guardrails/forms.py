"""The form of a rule: what all rules have, and the settings of its check. Writes nothing.

Which fields there are depends on the check alone, so no script is needed. `rulebook.checked` judges
the whole; what it refuses stands beside the field that it names.
"""

from collections.abc import Callable, Iterable
from typing import Any

from django import forms

from agents import agent
from agents.guardrails import custom, personal, rulebook, thresholds
from agents.guardrails.checks import CHECKS
from agents.guardrails.rows import GuardrailRule
from agents.guardrails.subjects import Action, BadRule, Where
from hitl import display

WHERE_LABELS = {
    Where.INPUT: "User's message, before the model is given it",
    Where.OUTPUT: "Model's reply, before anybody sees it",
    Where.TOOL_CALL: "Tool call, before it runs or anybody is asked",
}
ACTION_LABELS = {
    Action.BLOCK: "Block: it goes no further, and the rule is named",
    Action.REDACT: "Redact: it goes on with the findings replaced, as [EMAIL]",
    Action.REQUIRE_APPROVAL: "Ask: it waits in the inbox for a person",
}
MUST_BE_LABELS = {
    "at_most": "at most",
    "less_than": "less than",
    "at_least": "at least",
    "more_than": "more than",
}
MODES = {"on": "On", "shadow": "Shadow: only reports what it would do", "off": "Off"}
SAMPLE_CHARS_MAX = 20_000
BESIDE = {"check_name": "name", "enabled": "mode", "shadow": "mode", "settings": "name"}
"""The field beside which is told what is wrong with something that the form has no field for."""


class RuleForm(forms.Form):
    """One rule. `check_name` is chosen before, and stays."""

    name = forms.CharField(
        max_length=rulebook.NAME_CHARS_MAX, help_text="Users and models are told it when it blocks."
    )
    where = forms.ChoiceField(label="What it looks at", widget=forms.RadioSelect)
    action = forms.ChoiceField(label="What follows", widget=forms.RadioSelect)
    agents = forms.MultipleChoiceField(
        required=False,
        label="Agents",
        widget=forms.CheckboxSelectMultiple,
        help_text="None chosen: all agents, subagents included.",
    )
    tools = forms.MultipleChoiceField(
        required=False,
        label="Tools",
        widget=forms.CheckboxSelectMultiple,
        help_text="For tool calls. None chosen: all tools.",
    )
    order = forms.IntegerField(
        required=False,
        min_value=0,
        max_value=rulebook.ORDER_MAX,
        help_text="The first rule that is broken, by this number, decides. Empty: the last.",
    )
    mode = forms.ChoiceField(
        choices=list(MODES.items()), widget=forms.RadioSelect, initial="on", label="It is"
    )
    fail_open = forms.BooleanField(
        required=False,
        label="Let pass what cannot be checked",
        help_text="Otherwise a check that fails counts as a broken rule.",
    )
    version = forms.IntegerField(required=False, widget=forms.HiddenInput)

    def __init__(
        self, check_name: str, data: Any = None, *, rule: GuardrailRule | None = None
    ) -> None:
        super().__init__(data, initial=_initial(rule) if rule is not None else None)
        self.check_name, self.check = check_name, CHECKS[check_name]
        self.settings = SETTINGS[check_name]()
        self.fields |= self.settings
        if rule is None:
            self.initial = {name: field.initial for name, field in self.fields.items()}
            self.initial["where"] = min(self.check.where, key=lambda one: one != Where.OUTPUT)
        self._choices("where", [(w, WHERE_LABELS[w]) for w in self.check.where])
        self._choices("action", [(a, ACTION_LABELS[a]) for a in self.check.actions])
        self._choices("agents", _shown(_known_agents(), rule.agents if rule is not None else ()))
        if Where.TOOL_CALL in self.check.where:
            self._choices("tools", _shown(_known_tools(), rule.tools if rule is not None else ()))
        else:
            del self.fields["tools"]

    @property
    def own(self) -> list[forms.BoundField]:
        """The fields of the check's settings."""
        return [self[name] for name in self.settings]

    @property
    def scope(self) -> list[forms.BoundField]:
        """The fields that say where it looks, at whom, and what follows."""
        names = ("where", "tools", "agents", "action")
        return [self[name] for name in names if name in self.fields]

    @property
    def standing(self) -> list[forms.BoundField]:
        """The fields that say whether, and when, it counts."""
        return [self[name] for name in ("mode", "order", "fail_open")]

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if self.errors:
            return cleaned
        order = cleaned["order"]
        given = {
            "name": cleaned["name"],
            "where": cleaned["where"],
            "check_name": self.check_name,
            "settings": {
                name: _read(self.fields[name], cleaned[name])
                for name in self.settings
                if cleaned[name] not in (None, "")
            },
            "agents": cleaned["agents"],
            "tools": cleaned.get("tools", []),
            "action": cleaned["action"],
            "order": 0 if order is None else order,
            "enabled": cleaned["mode"] != "off",
            "shadow": cleaned["mode"] == "shadow",
            "fail_open": cleaned["fail_open"],
        }
        try:
            self.rule = rulebook.checked(given) | {"order": order}
        except BadRule as error:
            self.refuse(error)
        return cleaned

    def refuse(self, error: Exception) -> None:
        """Show an error beside the field that its text begins with."""
        field, colon, says = str(error).partition(": ")
        field = BESIDE.get(field, field)
        named = bool(colon) and field in self.fields
        self.add_error(field if named else None, says if named else str(error))

    def _choices(self, name: str, choices: Iterable[tuple[str, str]]) -> None:
        field: Any = self.fields[name]
        field.choices = [(str(value), label) for value, label in choices]


class SampleForm(forms.Form):
    """Something to try a rule on: a text, or the arguments of a call as JSON."""

    sample = forms.CharField(max_length=SAMPLE_CHARS_MAX, strip=False, widget=forms.Textarea)


def _initial(rule: GuardrailRule) -> dict[str, Any]:
    mode = "shadow" if rule.shadow else "on"
    return {
        **rulebook.described(rule),
        **rule.settings,
        "mode": mode if rule.enabled else "off",
        "version": rule.version,
    }


class _Lines(forms.CharField):
    """A list of texts, one per line."""

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(value) if isinstance(value, list) else value


def _read(field: forms.Field, value: Any) -> Any:
    return value.splitlines() if isinstance(field, _Lines) else value


def _words() -> dict[str, forms.Field]:
    return {
        "words": _Lines(
            label="Words and phrases",
            widget=forms.Textarea(attrs={"rows": 6}),
            help_text="One per line. Case, accents, look-alike letters and hidden characters make "
            "no difference.",
        ),
        "whole_words": forms.BooleanField(
            required=False,
            initial=True,
            label="Whole words only",
            help_text="Without, “art” is found in “party”.",
        ),
    }


def _pattern() -> dict[str, forms.Field]:
    return {
        "pattern": forms.CharField(
            label="Regular expression",
            widget=forms.TextInput(attrs={"class": "sayso-code", "spellcheck": "false"}),
            help_text="As Python writes them, for example \\bAB-\\d{6}\\b.",
        ),
        "ignore_case": forms.BooleanField(required=False, initial=True, label="Ignore case"),
        "label": forms.CharField(
            required=False,
            label="What it finds",
            help_text="A word for logs, and for [TICKET] in what is redacted: ticket. "
            "Empty: pattern.",
        ),
    }


def _personal() -> dict[str, forms.Field]:
    return {
        "kinds": forms.MultipleChoiceField(
            required=False,
            label="Kinds",
            choices=list(personal.KINDS.items()),
            initial=list(personal.KINDS),
            widget=forms.CheckboxSelectMultiple,
        ),
        "countries": forms.MultipleChoiceField(
            required=False,
            label="National ids of",
            choices=list(personal.COUNTRIES.items()),
            widget=forms.CheckboxSelectMultiple(attrs={"class": "sayso-many"}),
            help_text="Some are no more than eleven digits with check digits: choose the countries "
            "that you have to do with.",
        ),
    }


def _threshold() -> dict[str, forms.Field]:
    return {
        "path": forms.CharField(
            label="Argument",
            widget=forms.TextInput(attrs={"class": "sayso-code", "spellcheck": "false"}),
            help_text="Its name; dots lead inside, * stands for each: amount, order.total, "
            "items.*.price.",
        ),
        "must_be": forms.ChoiceField(
            label="It must be",
            choices=list(MUST_BE_LABELS.items()),
            initial=next(iter(thresholds.WITHIN)),
        ),
        "limit": forms.CharField(
            label="Limit",
            help_text="A number, compared exactly. What is missing, or no number, is over it.",
        ),
    }


def _custom() -> dict[str, forms.Field]:
    known = [(name, f"{name}: {custom.described(name)}".rstrip(": ")) for name in custom.names()]
    return {
        "function": forms.ChoiceField(
            label="Check",
            choices=known,
            help_text="" if known else "This project has registered none with @guardrail_check.",
        )
    }


SETTINGS: dict[str, Callable[[], dict[str, forms.Field]]] = {
    "words": _words,
    "pattern": _pattern,
    "personal_data": _personal,
    "threshold": _threshold,
    "custom": _custom,
}


def _known_agents() -> set[str]:
    return {one.name for one in agent.every()}


def _known_tools() -> set[str]:
    return {tool.name for one in agent.every() for tool in one.tools}


def _shown(known: set[str], stored: Iterable[str]) -> list[tuple[str, str]]:
    """Return the names to choose from; one that is gone from the code stays while it is stored."""
    gone = set(stored) - known
    names = {name: display.visible(name) for name in known}
    return sorted((names | {name: f"{display.visible(name)} (gone)" for name in gone}).items())
