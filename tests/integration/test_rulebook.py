"""The rules as rows: who may be refused, the trail of changes, and when workers read them."""

from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction

from agents import threads
from agents.guardrails import rulebook
from agents.guardrails.subjects import BadRule
from agents.models import GuardrailChange, GuardrailRule
from agents.testing import run_worker
from tests.desk import Desk
from tests.integration.test_guardrails import rule


@pytest.mark.promise("G4")
def test_every_change_of_a_rule_is_kept_with_who_when_before_and_after(db: None) -> None:
    made = rule(actor="ana", channel="admin")
    rulebook.change(made.id, action="redact", actor="bo", channel="admin")
    rulebook.change(made.id, action="redact", actor="bo", channel="admin")
    rulebook.delete(made.id, actor="cy", channel="admin")
    trail = list(GuardrailChange.objects.order_by("id"))
    assert [(c.actor, c.rule_name) for c in trail] == [
        ("ana", "no addresses"),
        ("bo", "no addresses"),
        ("cy", "no addresses"),
    ], "a change of nothing leaves no trace"
    assert trail[0].before is None
    assert trail[0].after["action"] == "block"
    assert (trail[1].before["action"], trail[1].after["action"]) == ("block", "redact")
    assert trail[2].after is None


@pytest.mark.promise("G4")
def test_the_database_refuses_to_change_the_trail_of_the_rules(db: None) -> None:
    rule()
    for tamper in (
        lambda: GuardrailChange.objects.update(actor="nobody"),
        lambda: GuardrailChange.objects.all().delete(),
    ):
        with pytest.raises(DatabaseError), transaction.atomic():
            tamper()


def test_an_edit_of_an_older_version_is_refused(db: None) -> None:
    made = rule()
    rulebook.change(made.id, version=1, action="redact")
    with pytest.raises(rulebook.RuleChanged):
        rulebook.change(made.id, version=1, enabled=False)
    with pytest.raises(rulebook.RuleNotFound):
        rulebook.change("no id", enabled=False)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"name": " "}, "name"),
        ({"check": "magic"}, "check"),
        ({"where": "nowhere"}, "where"),
        ({"action": "explode"}, "action"),
        ({"settings": {"kinds": ["soul"]}}, "soul"),
        ({"settings": {}}, "kinds"),
        ({"settings": []}, "settings"),
        ({"tools": ["look"]}, "tools"),
        ({"agents": [1]}, "agents"),
        ({"order": -1}, "order"),
        ({"enabled": "yes"}, "enabled"),
        ({"check": "threshold", "settings": {}}, "where"),
        ({"check": "custom", "settings": {"function": "none"}}, "none"),
        ({"check": "custom", "settings": {"function": "none"}, "action": "redact"}, "redact"),
    ],
)
def test_a_rule_that_cannot_work_is_refused_before_any_row(
    db: None, more: dict[str, Any], says: str
) -> None:
    with pytest.raises(BadRule, match=says):
        rule(**more)
    assert not GuardrailRule.objects.exists()
    assert not GuardrailChange.objects.exists()


def test_two_rules_cannot_have_one_name(db: None) -> None:
    made = rule()
    other = rule(name="other")
    with pytest.raises(BadRule, match="already"):
        rule()
    with pytest.raises(BadRule, match="already"):
        rulebook.change(other.id, name=made.name)


@pytest.mark.promise("G4")
def test_a_worker_reads_the_rules_only_when_they_have_changed(desk: Desk) -> None:
    reads: list[str] = []

    def count(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if "agents_guardrailrule" in sql:
            reads.append(sql)
        return execute(sql, params, many, context)

    with connection.execute_wrapper(count):
        desk.open("One", "Two", "Three", "Four")
        assert reads == [], "there is no rule"
    made = rule(enabled=False)
    with connection.execute_wrapper(count):
        for _ in range(2):
            threads.send(desk.thread, "Again")
            run_worker()
        assert len(reads) == 1, reads
    rulebook.change(made.id, enabled=True)
    with connection.execute_wrapper(count):
        threads.send(desk.thread, "Again")
        run_worker()
    assert len(reads) == 2, reads
