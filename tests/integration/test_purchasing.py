"""The example office: it asks before it buys, and is told by a callback to its own site."""

from decimal import Decimal
from typing import Any

import pytest
from django.test import Client

import hitl
from examples.purchasing import purchases
from examples.purchasing.models import Purchase
from hitl import approval, editing, values
from hitl.models import CallbackDelivery
from hitl.testing import deliver_callbacks

pytestmark = pytest.mark.django_db


def ask() -> approval.Entry:
    purchases.ask("a lamp", Decimal("40.00"), wanted_by="Dana", why="It is dark.")
    [entry] = approval.list(topic=purchases.TOPIC)
    return entry


@pytest.mark.promise("I3", "I6", "C1", "C2")
def test_what_was_approved_is_ordered_as_the_reviewer_left_it() -> None:
    entry = ask()
    cheaper = entry.payload | {"amount": "35.50"}
    seen = values.digest(entry.payload)
    editing.edit(entry.approval_id, cheaper, seen=seen, actor="ana", channel="test")
    hitl.decide(entry.approval_id, True, actor="ana")
    assert deliver_callbacks() == 1
    bought = Purchase.objects.get()
    assert (bought.status, bought.amount, bought.note) == (
        "ordered",
        Decimal("35.50"),
        "approved by ana",
    )
    CallbackDelivery.objects.update(status="owed", next_attempt_at=entry.created_at)
    Purchase.objects.update(note="untouched")
    assert deliver_callbacks() == 1
    assert Purchase.objects.get().note == "untouched", "the second time does nothing"


@pytest.mark.promise("I3", "I4", "C3")
@pytest.mark.parametrize("how", ["rejected", "cancelled", "timed_out"])
def test_anything_else_buys_nothing(how: str, clock: Any, run_worker: Any) -> None:
    entry = ask()
    if how == "rejected":
        hitl.decide(entry.approval_id, False, reason="too dear", actor="ana")
    elif how == "cancelled":
        approval.cancel(entry.approval_id)
    else:
        clock.advance(hours=5)
    run_worker()
    note = {"rejected": "too dear", "cancelled": "cancelled", "timed_out": "timed out"}[how]
    found = Purchase.objects.get()
    assert (found.status, found.note) == ("declined", note)


@pytest.mark.promise("C2")
def test_anybody_else_is_refused(client: Client) -> None:
    ask()
    answer = client.post("/purchases/decided/", {"status": "approved"}, "application/json")
    assert (answer.status_code, answer.content) == (400, b"approval_invalid_signature")
    assert client.get("/purchases/decided/").status_code == 405
    assert Purchase.objects.get().status == "asked"
