"""Guardrails when several act at once, staged on PostgreSQL."""

from collections.abc import Iterator
from functools import partial

import pytest

import hitl
from agents.guardrails import rulebook
from agents.models import GuardrailChange, GuardrailRule, GuardrailStamp, Run
from hitl.models import Park
from tests import invariants
from tests.integration import racing
from tests.integration.racing import finish, segment, started
from tests.integration.staging import Crew, Hold, crew
from tests.integration.test_guardrails import rule

pytestmark = pytest.mark.services


@pytest.fixture
def hands(transactional_db: None) -> Iterator[Crew]:
    racing.needs_postgresql()
    racing.enrol()
    with crew() as made:
        yield made


@pytest.mark.promise("G4")
def test_of_two_rules_written_at_once_no_worker_misses_one(hands: Crew) -> None:
    """The stamp's row lets one writer after the other, so the newest stamp is of both rules."""
    hold = Hold("rule:changed")
    first = hands.start(partial(rule, name="first"), holds=[hold])
    hold.wait_for_it()
    second = hands.start(partial(rule, name="second"))
    hold.let_go()
    first.result()
    second.result()
    stamp = GuardrailStamp.objects.get().value
    assert {one.name for one in rulebook.in_force(stamp)} == {"first", "second"}
    assert GuardrailChange.objects.count() == 2


@pytest.mark.promise("G4")
def test_a_writer_waits_for_another_that_changes_the_same_rule(hands: Crew) -> None:
    made, hold = rule(), Hold("rule:changed")
    one = hands.start(partial(rulebook.change, made.id, version=1, order=5), holds=[hold])
    hold.wait_for_it()
    other = hands.start(partial(rulebook.change, made.id, version=1, order=6))
    assert hands.until_blocked(other) == {one.backend}
    hold.let_go()
    one.result()
    with pytest.raises(rulebook.RuleChanged):
        other.result()
    assert GuardrailRule.objects.get().order == 5


@pytest.mark.promise("G4")
def test_a_rule_that_is_not_committed_holds_up_no_run_and_counts_for_the_next(hands: Crew) -> None:
    hold = Hold("rule:changed")
    writes = partial(rule, where="input", check="words", settings={"words": ["send"]})
    writer = hands.start(writes, holds=[hold])
    hold.wait_for_it()
    before = started("send")
    assert segment(before.id)
    hold.let_go()
    writer.result()
    after = started("send")
    assert segment(after.id)
    assert Run.objects.get(id=before.id).status == "WAITING_FOR_INPUT"
    assert Run.objects.get(id=after.id).status == "FAILED"
    invariants.check()


@pytest.mark.promise("G3", "A1")
def test_of_a_yes_and_a_no_to_what_is_held_one_counts(hands: Crew) -> None:
    rule(
        where="input",
        check="words",
        settings={"words": ["send"]},
        action="require_approval",
    )
    run = started("send")
    assert segment(run.id)
    park = Park.objects.get(waiter_id=run.id)
    answers = hands.together(
        partial(hitl.decide, park.id, True, actor="ana"),
        partial(hitl.decide, park.id, False, actor="bo"),
    )
    assert [answer.delivered for answer in answers].count(True) == 1
    finish()
    run.refresh_from_db()
    assert run.status == ("WAITING_FOR_INPUT" if answers[0].delivered else "FAILED")
    invariants.check()
