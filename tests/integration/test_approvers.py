"""Who may decide, whichever channel asks: permission, named people, quorum, the requester."""

from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, Group, Permission, User

import hitl
from agents import Agent, threads
from agents.testing import ScriptedModel, call, run_worker
from hitl.models import Decision, Park, Verb, Vote
from tests import invariants
from tests.desk import Desk


def user(name: str, *groups: str, permissions: str = "view decide answer cancel") -> User:
    made = User.objects.create_user(name, is_staff=True)
    codenames = [f"{word}_park" for word in permissions.split()]
    made.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    made.groups.set([Group.objects.get_or_create(name=group)[0] for group in groups])
    return made


def parked(desk: Desk, **gate: Any) -> Park:
    desk.open([call("send", to="ana")], "Done.", tools=desk.tools(**gate))
    [park] = desk.parks()
    return park


def decide(park: Park, who: Any, approved: bool = True, **more: Any) -> hitl.Answer:
    return hitl.decide(park.id, approved, actor=who, channel="admin", **more)


def refused(park: Park, who: Any, code: str, approved: bool = True, **more: Any) -> str:
    """Let someone try; the attempt changes nothing and is in the trail. Return the sentence."""
    before = Park.objects.get(id=park.id)
    answer = decide(park, who, approved, **more)
    assert (answer.delivered, answer.code) == (False, code)
    assert Park.objects.get(id=park.id).status == before.status == "pending"
    row = Decision.objects.filter(park=park).latest("id")
    assert (row.verb, row.actor, row.detail["code"]) == (Verb.REFUSED, who.get_username(), code)
    return str(answer.error)


@pytest.mark.promise("I8", "U6")
def test_a_user_without_the_permission_is_refused_from_python_too(desk: Desk) -> None:
    park = parked(desk)
    refused(park, user("viewer", permissions="view"), "not_allowed")
    refused(park, user("decider", permissions="view decide"), "not_allowed", payload="by hand")
    refused(park, user("answerer", permissions="view answer"), "not_allowed")
    assert decide(park, user("ana")).delivered


@pytest.mark.promise("I8")
def test_an_inactive_or_anonymous_user_decides_nothing(desk: Desk) -> None:
    park = parked(desk)
    gone = user("gone")
    User.objects.filter(id=gone.id).update(is_active=False)
    refused(park, User.objects.get(id=gone.id), "not_allowed")
    refused(park, AnonymousUser(), "not_allowed")


@pytest.mark.promise("I8")
def test_a_program_that_names_no_user_is_trusted(desk: Desk) -> None:
    park = parked(desk, approver={"group:finance": 2, "group:legal": 1})
    assert decide(park, "billing job").delivered
    run_worker()
    assert desk.effects == ["send ana 1"]


@pytest.mark.promise("I8")
def test_a_named_group_decides_and_nobody_else_not_even_a_superuser(desk: Desk) -> None:
    park = parked(desk, approver="group:finance")
    sentence = refused(park, user("ben", "sales"), "not_an_approver")
    assert sentence == "Only group finance may decide this request."
    refused(park, User.objects.create_superuser("root"), "not_an_approver")
    refused(park, user("eve"), "not_an_approver", approved=False)
    refused(park, user("fin", "finance", permissions="view"), "not_allowed")
    assert decide(park, user("ana", "finance")).delivered


@pytest.mark.promise("I8")
def test_a_named_user_decides(desk: Desk) -> None:
    park = parked(desk, approver="user:ana")
    refused(park, user("ben"), "not_an_approver")
    assert decide(park, user("ana"), False).delivered


@pytest.mark.promise("I8")
def test_an_agents_approver_is_asked_where_its_tool_names_nobody(desk: Desk) -> None:
    desk.open([call("send", to="ana")], "Done.", approver="group:finance")
    [park] = desk.parks()
    refused(park, user("ben"), "not_an_approver")
    assert decide(park, user("ana", "finance")).delivered


@pytest.mark.promise("E7", "I8")
def test_a_request_keeps_the_approvers_it_was_opened_with(desk: Desk) -> None:
    park = parked(desk, approver="group:finance")
    Agent("desk", model=desk.model, tools=desk.tools(approver="group:sales"))
    refused(park, user("ben", "sales"), "not_an_approver")


@pytest.mark.promise("I8")
def test_a_quorum_takes_so_many_people_of_each_group(desk: Desk) -> None:
    park = parked(desk, approver={"group:finance": 2, "group:legal": 1})
    both = user("both", "finance", "legal")
    first = decide(park, both)
    assert (first.delivered, first.code) == (True, "counted")
    assert first.outstanding == "1 of group finance and 1 of group legal"
    refused(park, both, "already_voted")
    second = decide(park, user("fin1", "finance"))
    assert second.outstanding in ("1 of group legal", "1 of group finance")
    run_worker()
    assert desk.effects == []
    assert desk.thread.status == "WAITING_FOR_INPUT"
    assert decide(park, user("fin2", "finance")).code is None
    run_worker()
    assert desk.effects == ["send ana 1"]
    assert desk.trail() == [
        ("opened", "system"),
        ("voted", "both"),
        ("refused", "both"),
        ("voted", "fin1"),
        ("voted", "fin2"),
        ("approved", "fin2"),
    ]
    assert Vote.objects.count() == 3
    invariants.check()


@pytest.mark.promise("I8")
def test_one_no_vetoes(desk: Desk) -> None:
    park = parked(desk, quorum=2)
    assert decide(park, user("ana")).code == "counted"
    last = decide(park, user("ben"), False, reason="too much")
    assert (last.delivered, last.code) == (True, None)
    run_worker()
    assert desk.effects == []
    assert desk.results["send"].content["reason"] == "too much"


@pytest.mark.promise("I8")
def test_without_veto_it_takes_as_many_noes_and_a_person_may_change_their_mind(desk: Desk) -> None:
    park = parked(desk, quorum=2, veto=False)
    ana, ben = user("ana"), user("ben")
    assert decide(park, ana, False).code == "counted"
    assert decide(park, ben).code == "counted"
    assert decide(park, ana).code is None
    assert Park.objects.get(id=park.id).status == "approved"


@pytest.mark.promise("I8")
def test_what_several_approve_cannot_be_answered_by_one(desk: Desk) -> None:
    park = parked(desk, quorum=2)
    sentence = refused(park, user("ana"), "needs_several", payload="by hand")
    assert "cannot" in sentence or "not be changed" in sentence


@pytest.mark.promise("I8", "E6")
def test_a_vote_after_the_deadline_comes_too_late(desk: Desk, clock: Any) -> None:
    park = parked(desk, quorum=2)
    clock.advance(minutes=16)
    answer = decide(park, user("ana"))
    assert (answer.delivered, answer.code) == (False, "expired")
    assert not Vote.objects.exists()


@pytest.mark.promise("I8")
def test_whoever_asked_may_not_approve_but_deny(desk: Desk, settings: Any) -> None:
    settings.HITL = {**settings.HITL, "FOUR_EYES": True}
    ana = user("ana")
    for approved in (True, False):
        Agent(
            "own",
            model=ScriptedModel([[call("send", to="x")], "Done."]),
            tools=desk.tools(approver="group:finance"),
        )
        thread = threads.start("own", "Send", user=ana)
        run_worker()
        [park] = Park.objects.pending()
        sentence = refused(park, ana, "own_request")
        assert "somebody else" in sentence
        settings.HITL = {**settings.HITL, "FOUR_EYES": False}  # the policy stays with the request
        who = user("fin", "finance") if approved else ana
        assert decide(park, who, approved).delivered
        settings.HITL = {**settings.HITL, "FOUR_EYES": True}
        run_worker()
        assert thread.status == "COMPLETED"
    assert desk.effects == ["send x 1"]


@pytest.mark.promise("I8")
def test_cancelling_is_judged_too(desk: Desk) -> None:
    from hitl import parks

    park = parked(desk)
    viewer = user("viewer", permissions="view decide")
    assert parks.cancel(park.id, actor=viewer, channel="admin").code == "not_allowed"
    assert Park.objects.get(id=park.id).is_pending
