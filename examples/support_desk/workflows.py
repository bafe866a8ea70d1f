"""Three workflows of the desk: a refund, waiting for a reply, and an escalation ladder.

Sayso finds this module by its name. The bodies are replayed, so whatever touches the shop is a
step; each step passes its key on, so that it never pays or writes twice.
"""

from decimal import Decimal
from typing import Annotated, Any

from pydantic import BaseModel, Field

from agents.workflows import (
    StepContext,
    define_hook,
    race,
    request_approval,
    sleep,
    step,
    workflow,
)
from examples.support_desk import orders

Money = Annotated[Decimal, Field(gt=0, max_digits=8, decimal_places=2)]


class Reply(BaseModel):
    """What a customer answered."""

    text: str = Field(min_length=1, max_length=10_000)


reply = define_hook("support_desk.reply", schema=Reply)


@step(name="support_desk.pay_back")
def pay_back(ctx: StepContext, order_id: int, amount: Money) -> str:
    """Pay the money back."""
    refund = orders.refund(order_id, amount, key=ctx.idempotency_key)
    return f"{refund.amount} €"


@step(name="support_desk.write_to_customer")
def write_to_customer(ctx: StepContext, to: str, subject: str, body: str) -> str:
    """Write an e-mail; returns the key of the mail thread, under which the reply will come."""
    mail = orders.write(to, subject, body, key=ctx.idempotency_key)
    return f"mail-{mail.pk}"


@workflow(name="support_desk.refund")
async def refund(order_id: int, amount: Money) -> dict[str, Any]:
    """Ask a colleague, then pay the money back."""
    decision = await request_approval(
        topic="refund",
        payload={"order_id": order_id, "amount": amount},
        title=f"Refund {amount} € on order {order_id}?",
        timeout="24h",
        fallback="reject",
    )
    if decision.status != "approved":
        return {"refunded": False, "decision": decision.status, "reason": decision.reason}
    paid = await pay_back(order_id, amount)
    return {"refunded": True, "paid": paid}


@workflow(name="support_desk.ask_customer")
async def ask_customer(to: str, question: str) -> dict[str, Any]:
    """Write to a customer and wait for the reply; remind after three days, give up after six."""
    mail_thread = await write_to_customer(to, "A question", question)
    hook = reply.create(token=mail_thread)
    for subject in ("A reminder", None):
        winner = await race(hook, sleep("72h"))
        if winner.index == 0:
            return {"replied": True, "text": winner.value.text}
        if subject is not None:
            await write_to_customer(to, subject, question)
    return {"replied": False}


@workflow(name="support_desk.escalate")
async def escalate(order_id: int, question: str, ladder: list[str]) -> dict[str, Any]:
    """Ask one approver after the other, each for four hours, until one of them decides."""
    for rung, approver in enumerate(ladder):
        decision = await request_approval(
            topic="escalation",
            payload={"order_id": order_id, "question": question, "rung": rung},
            title=question,
            approver=approver,
            timeout="4h",
        )
        if not decision.timed_out:
            return {"decided_by": decision.actor, "approved": decision.approved, "rung": rung}
    return {"decided_by": None, "approved": False, "rung": len(ladder)}
