"""The rules as rows: their verbs, and reading the ones in force. The only writer of these rows.

Every change is one transaction with a row of the trail and a new stamp. The stamp comes along when
a segment takes its lease, so a worker reads the rules again exactly when they have changed: a rule
is in force from the next segment on, in every process, and costs no statement meanwhile (G4).
"""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.db import transaction

from agents.guardrails.checks import CHECKS
from agents.guardrails.judging import Rule
from agents.guardrails.subjects import Action, BadRule, Where
from agents.models import GuardrailChange, GuardrailRule, GuardrailStamp
from hitl import audit, clock, faults, values
from hitl.errors import HitlError
from hitl.ids import new_id
from hitl.parks import as_uuid

NAME_CHARS_MAX = 100
RULES_MAX = 200
NAMES_MAX = 100
ORDER_MAX = 1_000_000
FIELDS = (
    *("name", "where", "check_name", "settings", "agents", "tools"),
    *("action", "order", "enabled", "shadow", "fail_open"),
)

_in_force: tuple[str | None, tuple[Rule, ...]] = (None, ())


class RuleNotFound(HitlError):
    """There is no such rule; it may have been deleted."""

    code = "rule_not_found"


class RuleChanged(HitlError):
    """Somebody else has changed this rule meanwhile; look at it again."""

    code = "rule_changed"


def create(
    *,
    name: str,
    where: str,
    check: str,
    settings: dict[str, Any],
    action: str,
    agents: Iterable[str] = (),
    tools: Iterable[str] = (),
    order: int | None = None,
    enabled: bool = True,
    shadow: bool = False,
    fail_open: bool = False,
    actor: object = None,
    channel: str = "python",
) -> GuardrailRule:
    """Write a new rule and return it. It is in force from the next segment of every run on.

    `agents` and `tools` name whom it applies to (default: all), `order` is its place among the
    rules (default: the last). A rule in `shadow` is only reported, with `fail_open` a check that
    cannot run lets pass. Raises `BadRule`, which names what to mend, before any row is written.
    """
    given = {
        "name": name,
        "where": where,
        "check_name": check,
        "settings": settings,
        "agents": list(agents),
        "tools": list(tools),
        "action": action,
        "order": order,
        "enabled": enabled,
        "shadow": shadow,
        "fail_open": fail_open,
    }
    with transaction.atomic():
        if GuardrailRule.objects.count() >= RULES_MAX:
            raise BadRule(f"At most {RULES_MAX} rules are kept; delete one first.")
        if order is None:
            last = GuardrailRule.objects.order_by("-order").values_list("order", flat=True).first()
            given["order"] = min((last or 0) + 10, ORDER_MAX)
        rule = GuardrailRule(**checked(given), changed_at=clock.now())
        _refuse_namesake(rule)
        rule.save(force_insert=True)
        _note(rule, None, described(rule), actor, channel)
    return rule


def change(
    rule_id: UUID | str,
    *,
    version: int | None = None,
    actor: object = None,
    channel: str = "python",
    **changes: Any,
) -> GuardrailRule:
    """Change some fields of a rule and return it; nothing is written when nothing differs.

    `version` is the one that the changes were made to. Raises `RuleNotFound`, `RuleChanged` when it
    is not the version any more, and `BadRule`.
    """
    with transaction.atomic():
        rule = _locked(rule_id)
        if version is not None and version != rule.version:
            raise RuleChanged
        before = described(rule)
        if "check" in changes:
            changes["check_name"] = changes.pop("check")
        for field, value in checked(before | changes).items():
            setattr(rule, field, value)
        after = described(rule)
        if after == before:
            return rule
        _refuse_namesake(rule)
        rule.version += 1
        rule.changed_at = clock.now()
        rule.save(update_fields=[*FIELDS, "version", "changed_at"])
        _note(rule, before, after, actor, channel)
    return rule


def delete(rule_id: UUID | str, *, actor: object = None, channel: str = "python") -> None:
    """Delete a rule; its trail stays. What it holds keeps waiting for a person."""
    with transaction.atomic():
        rule = _locked(rule_id)
        before = described(rule)
        GuardrailRule.objects.filter(id=rule.id).delete()
        _note(rule, before, None, actor, channel)


def current() -> tuple[Rule, ...]:
    """Return the rules that are in force now, for what is judged outside of a segment."""
    stamp = GuardrailStamp.objects.filter(id=1).values_list("value", flat=True).first()
    return in_force(None if stamp is None else str(stamp))


def in_force(stamp: str | None) -> tuple[Rule, ...]:
    """Return the rules that are switched on, in the order in which they judge.

    Reads them when the stamp is another than last time, and not at all when there is none.
    """
    global _in_force
    if stamp is None:
        return ()
    known, rules = _in_force
    if known != stamp:
        rows = GuardrailRule.objects.filter(enabled=True).order_by("order", "id")
        rules = tuple(as_rule(row) for row in rows)
        _in_force = (stamp, rules)
    return rules


def as_rule(row: GuardrailRule) -> Rule:
    """Return a row as what judges."""
    return Rule(
        id=str(row.id),
        name=row.name,
        where=row.where,
        check=row.check_name,
        settings=row.settings,
        action=row.action,
        agents=frozenset(row.agents),
        tools=frozenset(row.tools),
        shadow=row.shadow,
        fail_open=row.fail_open,
    )


def problem(row: GuardrailRule) -> str:
    """Say why this rule cannot be checked by the code as it is now; empty when it can."""
    check = CHECKS.get(row.check_name)
    if check is None:
        return f"There is no check {row.check_name!r} any more."
    try:
        check.clean(row.settings)
    except BadRule as error:
        return str(error)
    return ""


def described(rule: GuardrailRule) -> dict[str, Any]:
    """Return the fields of a rule that an operator sets, as the trail keeps them."""
    return {field: getattr(rule, field) for field in FIELDS}


def checked(given: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a rule, cleaned. Raises `BadRule` for the first that is wrong."""
    name = given["name"]
    if not isinstance(name, str) or not name.strip() or len(name) > NAME_CHARS_MAX:
        raise BadRule(f"name: write up to {NAME_CHARS_MAX} characters.")
    check = CHECKS.get(given["check_name"])
    if check is None:
        raise BadRule(f"check: {given['check_name']!r} is unknown; known: {', '.join(CHECKS)}.")
    where, action = (
        _one_of("where", given["where"], Where),
        _one_of("action", given["action"], Action),
    )
    if where not in check.where:
        raise BadRule(f"where: this check looks at {', '.join(check.where)} only.")
    if action not in check.actions:
        raise BadRule("action: this check finds nothing that could be taken out; do not redact.")
    tools = _names("tools", given["tools"])
    if tools and where != Where.TOOL_CALL:
        raise BadRule("tools: only a rule on tool calls can name tools.")
    if given["check_name"] == "threshold" and not tools:
        raise BadRule("tools: name the tools whose argument is limited; others do not have it.")
    order = given["order"]
    if isinstance(order, bool) or not isinstance(order, int) or not 0 <= order <= ORDER_MAX:
        raise BadRule("order: write a whole number from 0 on.")
    flags = {field: given[field] for field in ("enabled", "shadow", "fail_open")}
    for field, value in flags.items():
        if not isinstance(value, bool):
            raise BadRule(f"{field}: write true or false.")
    settings = given["settings"]
    if not isinstance(settings, dict):
        raise BadRule("settings: write an object.")
    return {
        "name": values.clean_text(name.strip()),
        "where": str(where),
        "check_name": given["check_name"],
        "settings": check.clean(settings),
        "agents": _names("agents", given["agents"]),
        "tools": tools,
        "action": str(action),
        "order": order,
        **flags,
    }


def _one_of(field: str, value: Any, choices: type[Where] | type[Action]) -> Any:
    if value not in list(choices):
        raise BadRule(f"{field}: write one of {', '.join(choices)}.")
    return choices(value)


def _names(field: str, given: Any) -> list[str]:
    if not isinstance(given, list) or not all(isinstance(one, str) and one for one in given):
        raise BadRule(f"{field}: write a list of names.")
    if len(given) > NAMES_MAX or any(len(one) > NAME_CHARS_MAX for one in given):
        raise BadRule(f"{field}: at most {NAMES_MAX} names of {NAME_CHARS_MAX} characters.")
    return sorted({values.clean_text(one) for one in given})


def _locked(rule_id: UUID | str) -> GuardrailRule:
    found_id = as_uuid(rule_id)
    if found_id is None:
        raise RuleNotFound
    found = GuardrailRule.objects.select_for_update().filter(id=found_id).first()
    if found is None:
        raise RuleNotFound
    return found


def _refuse_namesake(rule: GuardrailRule) -> None:
    if GuardrailRule.objects.filter(name=rule.name).exclude(id=rule.id).exists():
        raise BadRule(f"name: there is a rule named {rule.name!r} already.")


def _note(
    rule: GuardrailRule,
    before: dict[str, Any] | None,
    after: dict[str, Any] | None,
    actor: object,
    channel: str,
) -> None:
    """Write the trail and the new stamp, whose row holds back others who change rules."""
    who = audit.person(actor, channel)
    GuardrailStamp.objects.bulk_create(
        [GuardrailStamp(id=1, value=new_id().hex)],
        update_conflicts=True,
        unique_fields=["id"],
        update_fields=["value"],
    )
    GuardrailChange.objects.create(
        rule_id=rule.id,
        rule_name=rule.name,
        actor=who.name,
        channel=who.channel,
        before=before,
        after=after,
        at=clock.now(),
    )
    faults.point("rule:changed")
