"""A rule, and a change of one, in words for the screens. Touches nothing."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from agents.guardrails import personal
from agents.guardrails.forms import MUST_BE_LABELS
from agents.guardrails.rows import GuardrailChange, GuardrailRule
from agents.guardrails.subjects import Action, Where

WHERE: dict[str, str] = {
    Where.INPUT: "user's message",
    Where.OUTPUT: "model's reply",
    Where.TOOL_CALL: "tool call",
}
ACTION: dict[str, str] = {
    Action.BLOCK: "block",
    Action.REDACT: "redact",
    Action.REQUIRE_APPROVAL: "ask a person",
}
FOLLOWS: dict[tuple[str, str], str] = {
    (Where.INPUT, Action.BLOCK): "The run ends and names the rule; the model is not given it.",
    (Where.INPUT, Action.REDACT): "The model is given it with the findings replaced.",
    (Where.INPUT, Action.REQUIRE_APPROVAL): "The model is given it once a person has let it go on.",
    (Where.OUTPUT, Action.BLOCK): "A refusal that names the rule takes its place; no call of it "
    "runs.",
    (Where.OUTPUT, Action.REDACT): "It goes out with the findings replaced.",
    (Where.OUTPUT, Action.REQUIRE_APPROVAL): "Nobody sees it, and no call of it runs, before a "
    "person has let it go on.",
    (Where.TOOL_CALL, Action.BLOCK): "The call does not run; the model is told which rule it "
    "breaks.",
    (Where.TOOL_CALL, Action.REDACT): "The call runs with the findings replaced.",
    (Where.TOOL_CALL, Action.REQUIRE_APPROVAL): "The call waits in the inbox, whether or not its "
    "tool is marked.",
}
FIELDS = {
    "name": "Name",
    "where": "Looks at",
    "check_name": "Check",
    "agents": "Agents",
    "tools": "Tools",
    "action": "What follows",
    "order": "Order",
    "enabled": "Switched on",
    "shadow": "In shadow",
    "fail_open": "Lets pass what cannot be checked",
}


@dataclass(frozen=True, slots=True)
class Change:
    """One row of the trail: what was done, and each field that differs, before and after."""

    row: GuardrailChange
    verb: str
    fields: list[tuple[str, Any, Any]]


def state(rule: GuardrailRule) -> tuple[str, str]:
    """Return how a rule stands, as the label's name and words."""
    if not rule.enabled:
        return "disabled", "Off"
    return ("shadow", "Shadow") if rule.shadow else ("enabled", "On")


def sentence(rule: GuardrailRule) -> str:
    """Return what follows when the rule is broken."""
    return FOLLOWS[rule.where, rule.action]


def lines(rule: GuardrailRule) -> Iterator[tuple[str, list[str]]]:
    """Yield what the rule says, as names with one or more texts."""
    yield "looks at", [WHERE[rule.where]]
    yield "agents", rule.agents or ["all"]
    if rule.where == Where.TOOL_CALL:
        yield "tools", rule.tools or ["all"]
    yield from _settings(rule.check_name, rule.settings)
    yield "cannot be checked", ["lets pass" if rule.fail_open else "counts as broken"]


def trail(rows: Iterable[GuardrailChange]) -> list[Change]:
    """Return changes in words, in the order in which they come."""
    return [_change(row) for row in rows]


def _settings(check: str, settings: dict[str, Any]) -> Iterator[tuple[str, list[str]]]:
    match check:
        case "words":
            yield "words", settings["words"]
            yield "whole words", ["yes" if settings["whole_words"] else "no"]
        case "pattern":
            yield "pattern", [settings["pattern"]]
            yield "ignore case", ["yes" if settings["ignore_case"] else "no"]
            yield "what it finds", [settings["label"]]
        case "personal_data":
            yield "kinds", [personal.KINDS[kind] for kind in settings["kinds"]] or ["none"]
            countries = [personal.COUNTRIES[country] for country in settings["countries"]]
            yield "national ids of", countries or ["none"]
        case "threshold":
            yield settings["path"], [f"{MUST_BE_LABELS[settings['must_be']]} {settings['limit']}"]
        case "custom":
            yield "check", [settings["function"]]


def _change(row: GuardrailChange) -> Change:
    before, after = row.before or {}, row.after or {}
    if not before or not after:
        return Change(row, "created" if after else "deleted", [])
    fields = [
        (label, before.get(name), after.get(name))
        for name, label in FIELDS.items()
        if before.get(name) != after.get(name)
    ]
    was, now = before.get("settings", {}), after.get("settings", {})
    settings = [
        (name.replace("_", " ").capitalize(), was.get(name), now.get(name))
        for name in sorted(was | now)
        if was.get(name) != now.get(name)
    ]
    return Change(row, "changed", [*fields, *settings])
