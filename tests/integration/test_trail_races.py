"""Votes, extensions and seals at the same moment: real threads on real PostgreSQL."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import Group, User

import hitl
from agents import Agent, requires_confirmation, threads, tool
from agents.testing import ScriptedModel, call
from hitl import audit, clock, parks
from hitl.models import Decision, Park, Seal, Verb, Vote
from hitl.trail import sealing, verifying
from tests import invariants
from tests.integration import racing
from tests.integration.racing import finish
from tests.integration.staging import Crew, Hold, crew

pytestmark = [pytest.mark.services, pytest.mark.timeout(300)]

ran: list[dict[str, Any]] = []


@requires_confirmation(quorum=2)
@tool
def pay(to: str) -> str:
    """Pay."""
    ran.append({"to": to})
    return "paid"


@requires_confirmation(editable=True)
@tool
def send(to: str) -> str:
    """Send."""
    ran.append({"to": to})
    return "sent"


@pytest.fixture(autouse=True)
def _agent(transactional_db: None) -> Iterator[None]:
    racing.needs_postgresql()
    ran.clear()
    yield
    clock.reset()


@pytest.fixture
def hands() -> Iterator[Crew]:
    with crew() as made:
        yield made


def parked(name: str) -> Park:
    script = ScriptedModel(
        lambda request: "Done." if request.messages[1:] else [call(name, to="x")]
    )
    Agent("racer", model=script, tools=[pay, send])
    run = threads.start("racer", "Go").current_run
    assert run is not None
    assert racing.segment(run.id)
    return Park.objects.get(waiter_id=run.id)


def people(count: int) -> list[User]:
    Group.objects.get_or_create(name="finance")
    return [User.objects.create_superuser(f"user{n}") for n in range(count)]


def yes(park: Park, user: User) -> hitl.Answer:
    return hitl.decide(park.id, True, actor=user, channel="admin")


@pytest.mark.promise("I8", "A2")
def test_votes_at_the_same_moment_all_count_and_one_of_them_decides(hands: Crew) -> None:
    park = parked("pay")
    answers = hands.together(*(partial(yes, park, user) for user in people(2)))
    assert all(answer.delivered for answer in answers)
    assert sorted(answer.code or "decided" for answer in answers) == ["counted", "decided"]
    assert racing.verbs(park) == {"opened": 1, "voted": 2, "approved": 1}
    finish()
    assert ran == [{"to": "x"}]
    invariants.check()


@pytest.mark.promise("I8")
def test_one_person_in_two_tabs_counts_once(hands: Crew) -> None:
    park = parked("pay")
    [user] = people(1)
    hands.together(*(partial(yes, park, user) for _ in range(4)))
    assert Vote.objects.filter(park=park).count() == 1
    assert Park.objects.get(id=park.id).is_pending
    finish()
    assert ran == []


@pytest.mark.promise("I8", "A2")
def test_of_many_voters_no_more_than_the_quorum_are_counted_before_it_is_decided(
    hands: Crew,
) -> None:
    park = parked("pay")
    answers = hands.together(*(partial(yes, park, user) for user in people(5)))
    assert sum(answer.delivered for answer in answers) == 2
    assert {answer.code for answer in answers if not answer.delivered} == {"already_answered"}
    assert racing.verbs(park)["approved"] == 1
    finish()
    assert ran == [{"to": "x"}]


@pytest.mark.promise("A9", "A2", "M4")
def test_of_two_edits_and_a_yes_one_wins_and_runs_as_it_was_approved(hands: Crew) -> None:
    park = parked("send")

    def edit(to: str) -> hitl.Answer:
        return hitl.decide(park.id, True, arguments={"to": to}, actor=to)

    plain = partial(hitl.decide, park.id, True, actor="x")
    answers = hands.together(partial(edit, "ben"), partial(edit, "eve"), plain)
    assert sum(answer.delivered for answer in answers) == 1
    settled = Park.objects.get(id=park.id)
    assert settled.arguments == {"to": settled.settled_by}
    assert racing.verbs(park)["edited"] == (settled.settled_by != "x")
    finish()
    assert ran == [{"to": settled.settled_by}]
    invariants.check()


@pytest.mark.promise("E10", "E4")
def test_an_extension_and_an_expiry_at_once_leave_one_of_the_two(hands: Crew) -> None:
    park = parked("send")
    clock.advance(minutes=14, seconds=59)
    hold = Hold("expire:read")
    clock.advance(seconds=2)
    expiring = hands.start(partial(parks.expire, park.id, channel="sweep"), holds=[hold])
    hold.wait_for_it()
    clock.reset()
    clock.advance(minutes=14)
    assert hitl.extend(park.id, by="1h", actor="ana").delivered
    hold.let_go()
    clock.advance(minutes=5)
    assert expiring.result() is False
    assert Park.objects.get(id=park.id).is_pending
    assert racing.verbs(park) == {"opened": 1, "extended": 1}


@pytest.mark.promise("E10")
def test_extensions_at_the_same_moment_add_up(hands: Crew) -> None:
    park = parked("send")
    more = partial(hitl.extend, park.id, by="1h", actor="ana")
    assert all(answer.delivered for answer in hands.together(more, more, more))
    fresh = Park.objects.get(id=park.id)
    assert (fresh.expires_at - park.expires_at).total_seconds() == 3 * 3600
    assert racing.verbs(park)["extended"] == 3


@pytest.mark.promise("I12")
def test_of_two_sealers_one_makes_each_seal(hands: Crew) -> None:
    parked("send")
    parked("pay")
    hold = Hold("seal:making")
    first = hands.start(sealing.seal_loose, holds=[hold])
    hold.wait_for_it()
    second = hands.start(sealing.seal_loose)
    hands.until_blocked(second)
    hold.let_go()
    assert (first.result(), second.result()) == (2, 0)
    assert Seal.objects.count() == 1
    assert verifying.verify().is_sound
    assert sealing.seal_loose() == 0


@pytest.mark.promise("I12", "A2")
def test_an_answer_does_not_wait_for_the_chain(hands: Crew) -> None:
    park = parked("send")
    hold = Hold("seal:making")
    sealer = hands.start(sealing.seal_loose, holds=[hold])
    hold.wait_for_it()
    assert hitl.decide(park.id, True, actor="ana").delivered
    hold.let_go()
    assert sealer.result() == 1
    assert Decision.objects.get(verb=Verb.APPROVED).seal_id is None
    assert sealing.seal_loose() == 1
    assert verifying.verify().is_sound


@pytest.mark.promise("I12")
def test_a_row_that_commits_after_later_ones_were_sealed_is_sealed_next(hands: Crew) -> None:
    park = parked("send")
    row = audit.row(park, Verb.REFUSED, audit.person("eve", "x"), at=clock.now())
    parked("pay")
    assert sealing.seal_loose() == 2
    audit.append([row])
    assert verifying.verify().loose == 1
    assert sealing.seal_loose() == 1
    assert verifying.verify().is_sound
