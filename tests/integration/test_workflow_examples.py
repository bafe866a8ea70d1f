"""The workflows of the support desk, as their users would try them."""

from decimal import Decimal
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

import hitl
from agents.models import Run
from agents.testing import run_worker
from examples.support_desk.models import Mail, Order, Refund
from examples.support_desk.workflows import ask_customer, escalate, refund, reply
from hitl.admin import offers
from hitl.models import Park

pytestmark = pytest.mark.django_db

ANA = {"to": "ana@example.com", "question": "Which size?"}


def ended(run: Run) -> Run:
    run_worker()
    return Run.objects.get(id=run.id)


@pytest.fixture
def order() -> Order:
    return Order.objects.create(id=17, customer="Ana", email="ana@example.com", total=50)


@pytest.mark.promise("W1", "W2")
def test_an_approved_refund_is_paid(order: Order) -> None:
    run = refund.start(order_id=17, amount=Decimal("9.50"))
    run_worker()
    [pending] = hitl.pending(run)
    assert pending.arguments == {"order_id": 17, "amount": "9.50"}
    hitl.respond(run, pending.tool_call_id, True, actor="ben")
    assert ended(run).output == {"refunded": True, "paid": "9.50 €"}
    assert Refund.objects.get().amount == Decimal("9.50")


@pytest.mark.promise("W1", "W2")
def test_a_denied_refund_is_not_paid(order: Order) -> None:
    run = refund.start(order_id=17, amount=Decimal("9.50"))
    run_worker()
    hitl.respond(run, hitl.pending(run)[0].tool_call_id, False, reason="too late")
    output = ended(run).output
    assert output == {"refunded": False, "decision": "rejected", "reason": "too late"}
    assert not Refund.objects.exists()


@pytest.mark.promise("W6", "K1")
def test_a_reply_to_the_reminder_is_what_the_workflow_returns(clock: Any) -> None:
    run = ask_customer.start(**ANA)
    run_worker()
    token = f"mail-{Mail.objects.get().pk}"
    clock.advance(hours=73)
    run_worker()
    assert Mail.objects.count() == 2
    assert reply.resume(token, {"text": ""}).code == "invalid_payload"
    assert reply.resume(token, {"text": "Large."}).delivered
    assert ended(run).output == {"replied": True, "text": "Large."}
    assert not Park.objects.pending().exists()
    assert reply.resume(token, {"text": "Small!"}).code == "already_answered"


@pytest.mark.promise("W6", "W10")
def test_a_customer_who_never_replies_is_given_up(clock: Any) -> None:
    run = ask_customer.start(**ANA)
    run_worker()
    for _ in range(2):
        clock.advance(hours=73)
        run_worker()
    assert ended(run).output == {"replied": False}
    assert Mail.objects.count() == 2
    late = reply.resume(f"mail-{Mail.objects.order_by('id')[0].pk}", {"text": "Sorry."})
    assert late.code == "moved_on"


@pytest.mark.promise("W6")
def test_the_ladder_asks_the_next_one_when_nobody_answers(clock: Any) -> None:
    run = escalate.start(
        order_id=17, question="May we pay?", ladder=["user:ben", "group:finance", "user:eve"]
    )
    run_worker()
    clock.advance(hours=5)
    run_worker()
    [pending] = hitl.pending(run)
    assert pending.arguments["rung"] == 1
    hitl.respond(run, pending.tool_call_id, True, actor="carla")
    assert ended(run).output == {"decided_by": "carla", "approved": True, "rung": 1}
    statuses = Park.objects.order_by("id").values_list("status", flat=True)
    assert list(statuses) == ["timed_out", "approved"]


@pytest.mark.promise("U2")
def test_the_screens_speak_of_the_workflow_and_not_of_a_tool(order: Order) -> None:
    run, waiting = refund.start(order_id=17, amount=Decimal("9.50")), ask_customer.start(**ANA)
    run_worker()
    gate, hook = Park.objects.get(reason="approval"), Park.objects.get(reason="hook")
    shown = {offer.name: offer for offer in offers.on(gate)}
    assert set(shown) == {"approve", "deny", "answer", "cancel", "extend"}
    assert shown["approve"].help == "The workflow goes on with a yes."
    assert {offer.name for offer in offers.on(hook)} == {"answer", "cancel"}
    Park.objects.filter(id=gate.id).update(schema={"type": "object"})
    gate.refresh_from_db()
    assert "approve" not in {offer.name for offer in offers.on(gate)}, "it would be refused"
    for offer in (*offers.on(gate), *offers.on(hook), *offers.STEP_IN_DOUBT):
        assert "tool" not in f"{offer.help} {offer.said}"
        assert "agent" not in f"{offer.help} {offer.said}"
    assert (run.id, waiting.id) == (gate.scope, hook.scope)


@pytest.mark.promise("U2")
def test_the_page_of_a_hook_says_that_nobody_needs_to_do_anything(
    order: Order, admin_client: Client
) -> None:
    ask_customer.start(**ANA)
    refund.start(order_id=17, amount=Decimal("9.50"))
    run_worker()
    pages = {
        park.reason: admin_client.get(reverse("admin:hitl_park_change", args=[park.id]))
        for park in Park.objects.exclude(reason="sleep")
    }
    assert "The workflow goes on by itself" in pages["hook"].content.decode()
    assert "What an answer has to fit" in pages["hook"].content.decode()
    assert "wants to run" not in pages["approval"].content.decode()
    assert "open the run" in pages["approval"].content.decode()
