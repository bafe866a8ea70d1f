"""Editing a call's arguments before approving it, and values that few may see."""

import json
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User

import hitl
from agents import Agent, requires_confirmation, threads, tool
from agents.guardrails import rulebook
from agents.models import Event, ToolCall
from agents.testing import ScriptedModel, call, run_worker
from agents.tools import ToolDefinitionError
from hitl import redaction
from hitl.models import Decision, Park, Verb
from hitl.subjects import InvalidEdit
from tests import invariants
from tests.desk import Desk

BIG = 9007199254740993


def parked(desk: Desk, **gate: Any) -> Park:
    tools = desk.tools(**{"editable": True} | gate)
    desk.open([call("send", to="ana", copies=3)], "Done.", tools=tools)
    [park] = desk.parks()
    return park


@pytest.mark.promise("A9", "M4")
def test_edited_arguments_run_and_the_trail_keeps_both_forms(desk: Desk) -> None:
    park = parked(desk)
    answer = desk.answer(True, arguments={"to": "ben", "copies": BIG}, actor="eve")
    assert answer.delivered
    assert desk.effects == [f"send ben {BIG}"]
    settled = Park.objects.get(id=park.id)
    assert settled.arguments == {"to": "ben", "copies": BIG}
    assert settled.proposed == {"to": "ana", "copies": 3}
    made = ToolCall.objects.get(id=settled.key)
    assert (made.arguments, made.proposed) == (settled.arguments, settled.proposed)
    edited, approved = Decision.objects.filter(park=park).order_by("id")[1:]
    assert (edited.verb, approved.verb) == (Verb.EDITED, Verb.APPROVED)
    assert edited.detail == {
        "from": park.digest,
        "digest": settled.digest,
        "changed": ["copies", "to"],
        "gated": True,
    }
    assert settled.digest == made.digest != park.digest
    invariants.check()


@pytest.mark.promise("A9")
def test_the_model_is_told_that_a_person_changed_the_arguments(desk: Desk) -> None:
    parked(desk)
    desk.answer(True, arguments={"to": "ben", "copies": 1})
    told = desk.results["send"].content
    assert "A person changed the arguments" in told["message"]
    assert told["arguments"] == {"to": "ben", "copies": 1}
    assert told["result"] == "sent to ben"
    assert desk.contexts[0].approval.arguments == {"to": "ben", "copies": 1}


@pytest.mark.promise("A9")
def test_an_edit_that_changes_nothing_is_a_plain_yes(desk: Desk) -> None:
    park = parked(desk)
    desk.answer(True, arguments={"copies": 3, "to": "ana"})
    assert Park.objects.get(id=park.id).proposed is None
    assert desk.results["send"].content == "sent to ana"
    assert desk.trail() == [("opened", "system"), ("approved", "unnamed program")]


@pytest.mark.promise("A9")
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"to": "ben", "copies": "many"}, "copies"),
        ({"copies": 1}, "to is missing"),
        ({"to": "ben", "tool": "wipe"}, "there is no argument tool"),
        ([], "must be an object"),
    ],
)
def test_an_edit_that_does_not_fit_the_tool_is_refused_before_anything_is_written(
    desk: Desk, arguments: Any, complaint: str
) -> None:
    park = parked(desk)
    with pytest.raises(InvalidEdit, match=complaint):
        hitl.decide(park.id, True, arguments=arguments, actor="eve")
    assert Park.objects.get(id=park.id).is_pending
    assert desk.trail() == [("opened", "system")]


@pytest.mark.promise("A9")
def test_a_tool_that_does_not_allow_it_is_not_edited(desk: Desk) -> None:
    park = parked(desk, editable=False)
    answer = hitl.decide(park.id, True, arguments={"to": "ben"}, actor="eve")
    assert (answer.delivered, answer.code) == (False, "not_editable")
    assert desk.trail()[-1] == ("refused", "eve")
    assert Park.objects.get(id=park.id).is_pending


@pytest.mark.promise("A9", "A7")
def test_arguments_beside_a_no_are_not_looked_at(desk: Desk) -> None:
    park = parked(desk)
    desk.answer(False, arguments={"nonsense": 1})
    assert Park.objects.get(id=park.id).proposed is None
    assert desk.effects == []


@pytest.mark.promise("A1", "A9")
def test_a_late_edit_is_too_late_and_no_exception(desk: Desk) -> None:
    park = parked(desk)
    desk.answer(True)
    answer = hitl.decide(park.id, True, arguments={"nonsense": 1})
    assert (answer.delivered, answer.code) == (False, "already_answered")
    assert desk.effects == ["send ana 3"]


@pytest.mark.promise("A9", "I8")
def test_editing_takes_its_own_permission(desk: Desk) -> None:
    park = parked(desk)
    ana = User.objects.create_user("ana")
    allowed = Permission.objects.filter(codename__in=["view_park", "decide_park"])
    ana.user_permissions.set(allowed)
    answer = hitl.decide(park.id, True, arguments={"to": "ben"}, actor=ana)
    assert (answer.delivered, answer.code) == (False, "not_allowed")
    assert hitl.decide(park.id, True, actor=ana).delivered


@pytest.mark.promise("A9")
def test_an_edit_is_judged_anew_by_the_predicate(desk: Desk) -> None:
    park = parked(desk, when=lambda args, ctx: args["copies"] > 2)
    desk.answer(True, arguments={"to": "ana", "copies": 1})
    edited = Decision.objects.get(park=park, verb=Verb.EDITED)
    assert edited.detail["gated"] is False
    assert desk.effects == ["send ana 1"]


@pytest.mark.promise("A9", "G2")
@pytest.mark.parametrize("action", ["block", "redact"])
def test_an_edit_that_a_guardrail_forbids_is_refused(desk: Desk, action: str) -> None:
    park = parked(desk)
    settings = {"path": "copies", "limit": "5"}
    check: dict[str, Any] = {
        "check": "threshold",
        "settings": settings,
        "action": "block",
        "tools": ["send"],
    }
    if action == "redact":
        check = {
            "check": "words",
            "settings": {"words": ["ben"]},
            "action": "redact",
        }
    rulebook.create(name="few", where="tool_call", **check)
    with pytest.raises(InvalidEdit, match="guardrail 'few' forbids"):
        hitl.decide(park.id, True, arguments={"to": "ben", "copies": 6})
    assert Park.objects.get(id=park.id).is_pending
    desk.answer(True, arguments={"to": "eve", "copies": 5})
    assert desk.effects == ["send eve 5"]


@pytest.mark.promise("A9", "G1")
def test_an_edit_that_a_guardrail_holds_is_let_pass_by_the_person_and_noted(desk: Desk) -> None:
    park = parked(desk)
    settings = {"path": "copies", "limit": "5"}
    rulebook.create(
        name="few",
        where="tool_call",
        check="threshold",
        settings=settings,
        action="require_approval",
        tools=["send"],
    )
    desk.answer(True, arguments={"to": "ben", "copies": 6})
    assert desk.effects == ["send ben 6"]
    assert Decision.objects.get(park=park, verb=Verb.EDITED).detail["rule"] == "few"


@pytest.mark.promise("A9", "M4")
def test_a_tool_that_has_changed_is_not_edited(desk: Desk) -> None:
    park = parked(desk)

    @requires_confirmation(editable=True)
    @tool
    def send(to: str, copies: int = 1, urgent: bool = False) -> str:
        """Send a letter."""
        return "sent"

    Agent("desk", model=desk.model, tools=[send])
    with pytest.raises(InvalidEdit, match="changed"):
        hitl.decide(park.id, True, arguments={"to": "ben"})


# ── Redaction ────────────────────────────────────────────────────────────────────────────────────

SECRET = "4111111111111111"


def paid(desk: Desk, *turns: Any, **gate: Any) -> list[Any]:
    """Open a thread whose tool takes a card number; return what the tool was given."""
    given: list[Any] = []

    @requires_confirmation(redact=["card"], **gate)
    @tool
    def pay(card: str, amount: float) -> str:
        """Pay."""
        given.append((card, amount))
        return "paid"

    desk.open(*(turns or ([call("pay", card=SECRET, amount=249.0)], "Done.")), tools=[pay])
    return given


def everything_shown(desk: Desk) -> str:
    rows = [
        list(Event.objects.values_list("data", flat=True)),
        [park.__dict__ for park in Park.objects.all()],
        [row.__dict__ for row in Decision.objects.all()],
        [made.shown_arguments for made in ToolCall.objects.all()],
    ]
    return json.dumps(rows, default=str)


@pytest.mark.promise("O6")
def test_a_redacted_argument_is_shown_nowhere_and_runs_exactly(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    given = paid(desk, summary=lambda args: f"Pay {args['amount']} with {args['card']}")
    [park] = desk.parks()
    assert park.arguments == {"card": redaction.MASK, "amount": 249.0}
    assert park.title == "Pay 249.0 with [redacted]"
    assert desk.pending[0].arguments["card"] == redaction.MASK
    assert SECRET not in everything_shown(desk)
    desk.answer(True)
    assert given == [(SECRET, 249.0)]
    assert SECRET not in everything_shown(desk)
    assert SECRET not in caplog.text


@pytest.mark.promise("O6", "A9")
def test_a_mask_that_an_editor_leaves_alone_stays_the_exact_value(desk: Desk) -> None:
    given = paid(desk, editable=True)
    desk.answer(True, arguments={"card": redaction.MASK, "amount": 1.5})
    assert given == [(SECRET, 1.5)]
    assert SECRET not in json.dumps(desk.results["pay"].content)
    assert SECRET not in everything_shown(desk)


@pytest.mark.promise("O6", "M3")
def test_an_invalid_redacted_value_is_not_repeated(desk: Desk) -> None:
    paid(desk, [call("pay", card=SECRET, amount="x"), call("pay", card=[SECRET], amount=1)], "Ok")
    assert SECRET not in everything_shown(desk)
    assert "card" in desk.results["pay"].content["error"]


def test_redacting_what_is_no_argument_fails_where_the_tool_is_defined() -> None:
    @tool
    def pay(card: str) -> str:
        """Pay."""
        return card

    with pytest.raises(ToolDefinitionError, match="crad"):
        requires_confirmation(redact=["crad"])(pay)
    assert requires_confirmation(redact="card")(pay).redact == {"card"}
    assert pay.redact == frozenset()


def test_a_thread_of_an_agent_can_be_started_with_a_redacted_free_tool(desk: Desk) -> None:
    @tool(redact=["card"])
    def check(card: str) -> str:
        """Check a card."""
        return "fine"

    Agent("till", model=ScriptedModel([[call("check", card=SECRET)], "Done."]), tools=[check])
    thread = threads.start("till", "Check it")
    run_worker()
    assert thread.status == "COMPLETED"
    assert SECRET not in everything_shown(desk)
