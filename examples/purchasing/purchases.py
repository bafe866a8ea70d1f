"""Asking before buying, and doing what was decided. Only writer of the office's rows.

`order` and `decline` do nothing the second time: a callback may come more than once.
"""

from decimal import Decimal
from typing import Any

from django.db import transaction
from django.urls import reverse

from examples.purchasing.models import Purchase
from hitl import approval

TOPIC = "purchase"


def ask(item: str, amount: Decimal, *, wanted_by: str, why: str) -> Purchase:
    """Note what somebody wants, and ask whether it may be bought: both, or neither."""
    with transaction.atomic():
        purchase = Purchase.objects.create(item=item, amount=amount, wanted_by=wanted_by)
        approval.request(
            topic=TOPIC,
            title=f"Buy {item} for {amount:.2f} €?",
            description=why,
            payload={
                "purchase_id": purchase.id,
                "item": item,
                "amount": str(amount),
                "wanted_by": wanted_by,
            },
            on_decide=reverse("purchasing:decided"),
            timeout="4h",
            idempotency_key=f"purchase-{purchase.id}",
        )
    return purchase


def order(payload: dict[str, Any], *, approver: str) -> None:
    """Order what was approved, as the reviewer left it."""
    asked = Purchase.objects.filter(id=payload["purchase_id"], status=Purchase.Status.ASKED)
    asked.update(
        status=Purchase.Status.ORDERED,
        item=payload["item"],
        amount=Decimal(payload["amount"]),
        note=f"approved by {approver}"[:200],
    )


def decline(purchase_id: int, *, note: str) -> None:
    """Buy nothing."""
    asked = Purchase.objects.filter(id=purchase_id, status=Purchase.Status.ASKED)
    asked.update(status=Purchase.Status.DECLINED, note=note[:200])
