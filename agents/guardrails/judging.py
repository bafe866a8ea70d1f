"""Judging a subject by rules: the first one that is broken decides. Pure.

Rules come in a stable order, by their number and then by age. A check that cannot run counts as
broken, and so does a redaction that cannot be made, unless the rule says that it may fail open
(G2). A rule in shadow decides nothing and is only reported (G5).
"""

import logging
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from agents.guardrails.checks import CHECKS
from agents.guardrails.subjects import Action, Finding, Subject

logger = logging.getLogger(__name__)

FAILED = "check_failed"


@dataclass(frozen=True)
class Rule:
    """One rule as it is judged by. `agents` and `tools` name whom it applies to; empty: all."""

    id: str
    name: str
    where: str
    check: str
    settings: dict[str, Any]
    action: str
    agents: frozenset[str] = frozenset()
    tools: frozenset[str] = frozenset()
    shadow: bool = False
    fail_open: bool = False

    @cached_property
    def find(self) -> Callable[[Any], Sequence[Any]]:
        """What the check looks with, built once."""
        return CHECKS[self.check].finder(self.settings)

    def applies_to(self, subject: Subject) -> bool:
        """Tell whether it looks at this subject at all."""
        return (
            self.where == subject.where
            and (not self.agents or subject.agent in self.agents)
            and (not self.tools or subject.tool in self.tools)
        )


@dataclass(frozen=True, slots=True)
class Verdict:
    """That a rule was broken: which, what follows, and of which kinds the findings are."""

    rule_id: str
    rule: str
    where: str
    action: str
    kinds: tuple[str, ...]
    shadow: bool = False

    def as_data(self) -> dict[str, Any]:
        """Return what is kept of it, and logged: never a value (G4)."""
        return {
            "rule_id": self.rule_id,
            "rule": self.rule,
            "where": self.where,
            "action": self.action,
            "kinds": list(self.kinds),
        }


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict that counts, None when nothing was broken, and those of rules in shadow.

    `rule` is the one that decided.
    """

    verdict: Verdict | None = None
    rule: Rule | None = None
    shadows: tuple[Verdict, ...] = field(default=())


CLEAN = Judgement()


def judge(rules: Iterable[Rule], subject: Subject) -> Judgement:
    """Return what these rules, in their order, say of a subject."""
    shadows: list[Verdict] = []
    for rule in rules:
        if not rule.applies_to(subject):
            continue
        verdict = _examine(rule, subject)
        if verdict is None:
            continue
        if not rule.shadow:
            return Judgement(verdict, rule, tuple(shadows))
        shadows.append(verdict)
    return Judgement(shadows=tuple(shadows)) if shadows else CLEAN


def redacted(rule: Rule, value: Any) -> Any:
    """Return a text, or the JSON of arguments, with each finding replaced by its kind: `[EMAIL]`.

    A number in which something is found becomes a text.
    """
    if isinstance(value, str):
        return _cut_out(value, rule.find(value))
    if isinstance(value, dict):
        return {_cut_out(k, rule.find(k)): redacted(rule, item) for k, item in value.items()}
    if isinstance(value, list):
        return [redacted(rule, item) for item in value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        written = str(value)
        found = rule.find(written)
        return _cut_out(written, found) if found else value
    return value


def _examine(rule: Rule, subject: Subject) -> Verdict | None:
    try:
        kinds = _kinds(rule, subject)
    except Exception as error:
        # Its message may hold what was judged, so only where it came from is told.
        origin = traceback.extract_tb(error.__traceback__)[-1]
        logger.warning(
            "guardrail %s could not be checked: %s at %s:%s",
            rule.name,
            type(error).__name__,
            origin.filename,
            origin.lineno,
        )
        if rule.fail_open:
            return None
        kinds = (FAILED,)
    if not kinds:
        return None
    cannot = rule.action == Action.REDACT and FAILED in kinds
    action = Action.BLOCK if cannot else rule.action
    return Verdict(rule.id, rule.name, rule.where, str(action), kinds, rule.shadow)


def _kinds(rule: Rule, subject: Subject) -> tuple[str, ...]:
    """Return the kinds of all findings, each once, in the order in which they were found."""
    if not CHECKS[rule.check].reads_text:
        return tuple(dict.fromkeys(rule.find(subject)))
    found = (finding.kind for text in subject.texts() for finding in rule.find(text))
    return tuple(dict.fromkeys(found))


def _cut_out(text: str, found: Sequence[Finding]) -> str:
    """Return the text with its findings replaced; what overlaps is replaced once."""
    parts, done = [], 0
    for finding in sorted(found, key=lambda one: (one.start, -one.end)):
        if finding.start >= done:
            parts += [text[done : finding.start], f"[{finding.kind.upper()}]"]
        done = max(done, finding.end)
    return "".join([*parts, text[done:]])
