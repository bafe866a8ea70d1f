"""The example shop: what its desk does alone, what it asks about, and what it says afterwards."""

from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

import hitl
from agents import agent, threads
from agents.models import Thread
from agents.testing import run_worker
from examples.support_desk import agents as shop
from examples.support_desk import orders, script
from examples.support_desk.demo import opening
from examples.support_desk.models import Mail, Order, Refund
from hitl import faults
from hitl.inbox import PendingInput
from hitl.models import Park


@dataclass
class Visit:
    """One customer's thread with the desk."""

    thread: Thread

    @property
    def pending(self) -> list[PendingInput]:
        return hitl.pending(self.thread)

    @property
    def reply(self) -> str:
        """The desk's last words, once the thread has completed."""
        assert self.thread.status == "COMPLETED"
        return str(threads.history(self.thread)[-1]["text"])

    def answer(self, approved: bool, **more: Any) -> None:
        """Answer the one open request and let the desk go on."""
        [request] = self.pending
        assert hitl.decide(request.request_id, approved, **more).delivered
        run_worker()


@pytest.fixture(autouse=True)
def the_shop(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The opening's orders, and the shop's own desk with the script behind it."""
    monkeypatch.setitem(agent._agents, "desk", shop.desk)
    monkeypatch.setattr(shop.desk, "model", script.MODEL)
    Order.objects.bulk_create(opening.orders())


def say(wish: str) -> Visit:
    visit = Visit(threads.start("desk", wish))
    run_worker()
    return visit


def paid(order_id: int) -> list[Decimal]:
    return list(Refund.objects.filter(order_id=order_id).values_list("amount", flat=True))


# ── What the desk asks about ─────────────────────────────────────────────────────────────────────


@pytest.mark.promise("M2")
def test_a_small_refund_is_paid_without_asking() -> None:
    visit = say("Refund 20 € on order 17, please.")
    assert visit.reply == "The refund of 20 € on order 17 is done."
    assert paid(17) == [Decimal("20.00")]
    assert not Park.objects.exists()


@pytest.mark.promise("M2", "E1")
def test_a_large_refund_waits_a_day_for_a_yes() -> None:
    visit = say("Refund order 17: it arrived broken.")
    [request] = visit.pending
    assert (request.tool_name, request.agent) == ("issue_refund", "desk")
    assert request.arguments == {"order_id": 17, "amount": "249.00"}
    assert request.expires_at == request.opened_at + timedelta(days=1)
    assert Park.objects.get().title == "Refund 249.00 € on order 17"
    assert paid(17) == []


@pytest.mark.promise("A4")
def test_a_yes_pays_once() -> None:
    visit = say("Refund order 17: it arrived broken.")
    visit.answer(True)
    run_worker()
    assert visit.reply == "The refund of 249.00 € on order 17 is done."
    assert paid(17) == [Decimal("249.00")]


def test_a_mail_and_a_cancellation_always_wait() -> None:
    mail = say("Write to jonas@example.com that his lamp is on its way.")
    cancel = say("Cancel order 15.")
    assert [mail.pending[0].tool_name, cancel.pending[0].tool_name] == [
        "send_email",
        "cancel_order",
    ]
    assert mail.pending[0].arguments["body"] == "Hello, his lamp is on its way."
    mail.answer(True)
    cancel.answer(True)
    assert (mail.reply, cancel.reply) == (
        "The e-mail to jonas@example.com is done.",
        "The cancellation of order 15 is done.",
    )
    assert Mail.objects.get().to == "jonas@example.com"
    assert Order.objects.get(id=15).status == "cancelled"


@pytest.mark.promise("S1")
def test_two_refunds_are_asked_at_once_and_the_mails_after_both_are_paid() -> None:
    visit = say("Refund orders 13 and 16, then write to the customers.")
    first, second = visit.pending
    hitl.decide(first.request_id, True)
    run_worker()
    assert paid(13) == []
    hitl.decide(second.request_id, True)
    run_worker()
    assert (paid(13), paid(16)) == ([Decimal("420.00")], [Decimal("310.00")])
    addressed = [request.arguments["to"] for request in visit.pending]
    assert addressed == ["chen@example.com", "elif@example.com"]
    assert not Mail.objects.exists()


def test_a_later_message_is_about_the_order_named_before() -> None:
    visit = say("Refund 20 on order 17.")
    threads.send(visit.thread, "And write to the customer.")
    run_worker()
    assert visit.pending[0].arguments["to"] == "ana@example.com"


# ── What it says when something was not done ─────────────────────────────────────────────────────


@pytest.mark.promise("A7")
def test_after_a_no_nothing_was_done_and_the_customer_hears_why() -> None:
    visit = say("Refund order 17 and write to the customer.")
    visit.answer(False, reason="Two years old.")
    assert visit.reply == (
        "The refund of 249.00 € on order 17 was not approved, so it was not done. "
        "The reason given: Two years old."
    )
    assert paid(17) == []
    assert not Mail.objects.exists()


@pytest.mark.promise("E2", "A12")
def test_when_nobody_answers_it_says_so(clock: Any) -> None:
    visit = say("Cancel order 15.")
    clock.advance(minutes=11)
    run_worker()
    assert visit.reply == (
        "The cancellation of order 15 found no answer in time, so it was not done."
    )
    assert Order.objects.get(id=15).status == "paid"


@pytest.mark.promise("A11")
@pytest.mark.parametrize(
    ("wish", "reply"),
    [
        (
            "Cancel order 17.",
            "The cancellation of order 17 failed: Refused: Order 17 has already shipped.",
        ),
        (
            "Refund 300 on order 17.",
            "The refund of 300 € on order 17 failed: "
            "Refused: Order 17 has 249.00 € left to refund, not 300 €.",
        ),
    ],
)
def test_an_approved_call_that_the_shop_refuses_failed_with_its_reason(
    wish: str, reply: str
) -> None:
    visit = say(wish)
    visit.answer(True)
    assert visit.reply == reply
    assert paid(17) == []


@pytest.mark.promise("A8")
def test_a_result_given_by_a_colleague_is_told_as_theirs() -> None:
    visit = say("Refund order 17.")
    visit.answer(True, payload="paid in cash at the counter")
    assert visit.reply == (
        "The refund of 249.00 € on order 17 is settled: a colleague reports "
        '"paid in cash at the counter".'
    )
    assert paid(17) == []


@pytest.mark.parametrize(
    ("wish", "reply"),
    [
        (
            "Where is order 17?",
            "Order 17 (espresso machine, 249.00 €) of Ana Ferreira is shipped; "
            "0.00 € were refunded.",
        ),
        ("Refund order 99.", "The search for order 99 failed: Refused: There is no order 99."),
        (
            "Good morning!",
            'Tell me what to do, for example "Refund order 17" or "Cancel order 15".',
        ),
    ],
)
def test_a_wish_that_changes_nothing_is_answered(wish: str, reply: str) -> None:
    assert say(wish).reply == reply


def test_an_order_refunded_in_full_is_not_refunded_again() -> None:
    say("Refund order 12.")
    again = say("Refund order 12.")
    assert again.reply.endswith("18.50 € were refunded.")
    assert paid(12) == [Decimal("18.50")]


# ── A worker that dies while it pays ─────────────────────────────────────────────────────────────


@pytest.fixture
def in_doubt(clock: Any) -> Visit:
    """An approved refund that was paid, by a worker that died before it could say so."""
    visit = say("Refund order 17.")
    [request] = visit.pending
    hitl.decide(request.request_id, True)
    with faults.armed(faults.CrashAt(1, name="tool:returned")), suppress(faults.Crash):
        run_worker()
    clock.advance(seconds=10)
    run_worker()
    return visit


@pytest.mark.promise("A6")
def test_running_it_again_does_not_pay_twice(in_doubt: Visit) -> None:
    [request] = in_doubt.pending
    assert (request.reason, paid(17)) == ("in_doubt", [Decimal("249.00")])
    in_doubt.answer(True)
    assert in_doubt.reply == "The refund of 249.00 € on order 17 is done."
    assert paid(17) == [Decimal("249.00")]


@pytest.mark.promise("A6")
def test_giving_it_up_is_told_as_not_known(in_doubt: Visit) -> None:
    in_doubt.answer(False)
    assert in_doubt.reply == (
        "The refund of 249.00 € on order 17 may or may not have happened: a worker died on it. "
        "Have it checked first."
    )


@pytest.mark.promise("A6")
def test_the_shop_pays_and_writes_once_per_key() -> None:
    for _ in range(2):
        orders.refund(17, Decimal("10"), key="one")
        orders.write("ana@example.com", "Hello", "…", key="one")
    orders.refund(17, Decimal("10"), key="two")
    assert paid(17) == [Decimal("10.00"), Decimal("10.00")]
    assert Mail.objects.count() == 1


# ── The shop's pages ─────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def admin_client() -> Client:
    client = Client()
    client.force_login(get_user_model().objects.create_superuser("admin"))
    return client


@pytest.mark.parametrize("rows", ["order", "refund", "mail"])
def test_the_shops_rows_can_be_seen_and_not_changed(admin_client: Client, rows: str) -> None:
    orders.refund(17, Decimal("10"), key="one")
    orders.write("ana@example.com", "Hello", "…", key="one")
    listed = admin_client.get(f"/admin/support_desk/{rows}/")
    assert listed.status_code == 200
    assert b"17" in listed.content or b"ana@example.com" in listed.content
    assert admin_client.get(f"/admin/support_desk/{rows}/add/").status_code == 403
