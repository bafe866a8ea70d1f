"""The desk: an agent that looks after orders, and asks before it does what cannot be undone.

Sayso finds this module by its name. `DEFAULT_MODEL=openai:gpt-5` in the environment, with the key
of the provider, puts a real model behind it; without, a script plays the model.
"""

from decimal import Decimal
from typing import Annotated, Any

from django.conf import settings
from pydantic import Field

from agents import Agent, ToolContext, requires_confirmation, tool
from examples.support_desk import orders, script

# Up to here the desk pays back without asking.
FREE_REFUND_MAX = Decimal("100")

Money = Annotated[Decimal, Field(gt=0, max_digits=8, decimal_places=2)]


@tool
def lookup_order(order_id: int) -> dict[str, Any]:
    """Find an order: its customer, what was paid and refunded (in euros), where it stands.

    Args:
        order_id: The number of the order.
    """
    return orders.find(order_id)


@requires_confirmation(
    when=lambda args, ctx: args["amount"] > FREE_REFUND_MAX,
    ttl="1d",
    on_doubt="ask",  # if a worker dies while paying, a person says what happened
    summary=lambda args: f"Refund {args['amount']} € on order {args['order_id']}",
)
@tool(id="support_desk.issue_refund")
def issue_refund(ctx: ToolContext, order_id: int, amount: Money) -> str:
    """Pay money back to the customer of an order.

    Args:
        order_id: The number of the order.
        amount: Euros; at most what was paid and not refunded yet.
    """
    # The key stays the same when this call is tried again, so it never pays twice.
    refund = orders.refund(order_id, amount, key=ctx.idempotency_key)
    return f"Refunded {refund.amount} € on order {order_id}."


@requires_confirmation(summary=lambda args: f"Write to {args['to']}: {args['subject']}")
@tool(id="support_desk.send_email")
def send_email(ctx: ToolContext, to: str, subject: str, body: str) -> str:
    """Send an e-mail to a customer. It cannot be taken back."""
    mail = orders.write(to, subject, body, key=ctx.idempotency_key)
    return f"Sent to {mail.to}."


@requires_confirmation(ttl="10m", summary=lambda args: f"Cancel order {args['order_id']}")
@tool(id="support_desk.cancel_order")
def cancel_order(order_id: int) -> str:
    """Cancel an order that has not shipped yet."""
    orders.cancel(order_id)
    return f"Order {order_id} is cancelled."


desk = Agent(
    "desk",
    model=settings.AGENTS["DEFAULT_MODEL"] or script.MODEL,
    instructions=(
        "You are the support desk of a small shop. Look an order up before you act on it. "
        "Some of your calls wait for a colleague: when one is denied, or nobody answers in time, "
        "it was not done. Then do not try it again; tell the customer plainly what was done, what "
        "was not, and why."
    ),
    tools=[lookup_order, issue_refund, send_email, cancel_order],
)
