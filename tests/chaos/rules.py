"""The guardrails of a play: which words hold a reply, and which waits hold or block a call."""

from typing import Any, NamedTuple

from tests.chaos import scripts

BEFORE_MAX, AFTER_MAX = 350, 350


class Rule(NamedTuple):
    """One rule as an operator would write it."""

    where: str
    check: str
    settings: dict[str, Any]
    action: str
    tools: tuple[str, ...] = ()


RULES = {
    "careful words": Rule("output", "words", {"words": [scripts.HELD_WORD]}, "require_approval"),
    "long waits": Rule(
        "tool_call",
        "threshold",
        {"path": "before", "must_be": "at_most", "limit": BEFORE_MAX},
        "require_approval",
        ("look", "ring"),
    ),
    "late notes": Rule(
        "tool_call",
        "threshold",
        {"path": "after", "must_be": "at_most", "limit": AFTER_MAX},
        "block",
        ("note",),
    ),
}


def write_down() -> None:
    """Put all of them in force."""
    from agents.guardrails import rulebook

    for name, rule in RULES.items():
        rulebook.create(name=name, **rule._asdict())


def switch_off() -> None:
    """Take all of them out of force."""
    from agents.guardrails import rulebook
    from agents.models import GuardrailRule

    for rule in GuardrailRule.objects.filter(enabled=True):
        rulebook.change(rule.id, enabled=False)


def breaks(name: str, arguments: dict[str, Any]) -> bool:
    """Tell whether a call's arguments break the rule of this name."""
    wait, most = {"long waits": ("before", BEFORE_MAX), "late notes": ("after", AFTER_MAX)}[name]
    return bool(arguments[wait] > most)
