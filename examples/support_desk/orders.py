"""What the shop can do, with or without an agent. Only writer of its rows.

`refund` and `write` take a key that is the same whenever the same wish is tried again: the second
time they return what the first one did.
"""

from decimal import Decimal
from typing import Any

from django.db import transaction
from django.db.models import Sum

from examples.support_desk.models import Mail, Order, Refund
from hitl import clock

CENT = Decimal("0.01")


class Refused(Exception):
    """The shop does not do this, for the reason given."""


def find(order_id: int) -> dict[str, Any]:
    """Return what is known about an order. Raises Refused when there is none."""
    order = _get(order_id)
    return {
        "order_id": order.id,
        "customer": order.customer,
        "email": order.email,
        "item": order.item,
        "paid": order.total,
        "refunded": _refunded(order),
        "status": order.status,
    }


def refund(order_id: int, amount: Decimal, *, key: str) -> Refund:
    """Pay money back once per key. Raises Refused beyond what is left of the order's total."""
    with transaction.atomic():
        order = _get(order_id, lock=True)
        earlier = Refund.objects.filter(key=key).first()
        if earlier is not None:
            return earlier
        left = order.total - _refunded(order)
        if not 0 < amount <= left:
            raise Refused(f"Order {order_id} has {left} € left to refund, not {amount} €.")
        return Refund.objects.create(order=order, amount=amount, key=key, paid_at=clock.now())


def write(to: str, subject: str, body: str, *, key: str) -> Mail:
    """Send one e-mail per key."""
    mail, _ = Mail.objects.get_or_create(
        key=key, defaults={"to": to, "subject": subject, "body": body, "sent_at": clock.now()}
    )
    return mail


def cancel(order_id: int) -> None:
    """Cancel an order; cancelling it again changes nothing. Raises Refused once it has shipped."""
    with transaction.atomic():
        order = _get(order_id, lock=True)
        if order.status == Order.Status.SHIPPED:
            raise Refused(f"Order {order_id} has already shipped.")
        Order.objects.filter(id=order_id).update(status=Order.Status.CANCELLED)


def _get(order_id: int, *, lock: bool = False) -> Order:
    orders = Order.objects.select_for_update() if lock else Order.objects.all()
    order = orders.filter(id=order_id).first()
    if order is None:
        raise Refused(f"There is no order {order_id}.")
    return order


def _refunded(order: Order) -> Decimal:
    total = order.refunds.aggregate(total=Sum("amount"))["total"]
    return (total or Decimal()).quantize(CENT)  # SQLite sums without trailing zeros
