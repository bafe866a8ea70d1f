"""What a fresh demo holds: a few orders, customers' wishes and workflows that have begun, triggers.

Writes through the verbs that any program would call.
"""

from decimal import Decimal
from threading import Event
from time import monotonic
from typing import Any

from django.db import transaction

import hitl
from agents import threads
from agents.guardrails import rulebook
from agents.models import Run, Thread, Trigger
from agents.states import RunStatus
from examples.purchasing import purchases
from examples.support_desk import workflows
from examples.support_desk.models import Order
from hitl import clock

FIELDS = ("id", "customer", "email", "item", "total", "status")
ORDERS = [
    (12, "Bela Nagy", "bela@example.com", "tea cup", "18.50", "shipped"),
    (13, "Chen Wei", "chen@example.com", "standing desk", "420.00", "shipped"),
    (14, "Jonas Weber", "jonas@example.com", "reading lamp", "64.00", "shipped"),
    (15, "Dana Okafor", "dana@example.com", "bread machine", "139.00", "paid"),
    (16, "Elif Kaya", "elif@example.com", "office chair", "310.00", "shipped"),
    (17, "Ana Ferreira", "ana@example.com", "espresso machine", "249.00", "shipped"),
    (18, "Farid Haddad", "farid@example.com", "headphones", "180.00", "shipped"),
    (19, "Grace Lindqvist", "grace@example.com", "rain coat", "95.00", "paid"),
]
SMALL_REFUND = "Refund order 12: the cup has a crack."  # small enough to need nobody's yes
DENIED_REFUND = "Refund order 18: I do not like the colour any more."
WISHES = [
    "Refund order 17: the machine arrived broken.",
    "Write to jonas@example.com that his lamp is on its way.",
    "Refund orders 13 and 16: the lorry burned down. Then write to the customers.",
    "Cancel order 15: I ordered it twice.",
    SMALL_REFUND,
    DENIED_REFUND,
]
# Asked by plain code, which is told the decision by a callback to this very site.
PURCHASE = "a label printer"
PURCHASE_AMOUNT = Decimal("189.00")
# Waits for two things at once: a picture that is drawn elsewhere, and a yes to a subagent's mail.
STUDIO_WISH = "Draw order 12 and tell the customer."
# What three workflows wait for: a yes, a customer's reply, and whoever of two decides first.
WORKFLOW_ORDER = 14
WORKFLOW_REFUND = Decimal("20.00")
ASKED = "farid@example.com"
QUESTION = "Which colour do you want instead?"
ESCALATION = "Take back the chair after six weeks?"
LADDER = ["user:admin", "user:owner"]
# Where the shop's own systems report: returns begin a workflow, mails reach the one that waits.
TRIGGERS: list[dict[str, Any]] = [
    {
        "slug": "returns",
        "workflow": workflows.refund.name,
        "input": "{order_id: order_id, amount: amount}",
    },
    {
        "slug": "mails",
        "workflow": workflows.ask_customer.name,
        "correlation_key": "mail_thread",
        "payload": "{text: text}",
        "starts_runs": False,
    },
]
COLLEAGUE = "Robin (demo)"
NO = "Bought a year ago and worn daily."

# What an operator would write on the screen: one in each kind of standing, but for "off".
RULES: list[dict[str, Any]] = [
    {
        "name": "No card numbers reach the model",
        "where": "input",
        "check": "personal_data",
        "settings": {"kinds": ["card"]},
        "action": "redact",
    },
    {
        "name": "Refunds above 300 € need a person",
        "where": "tool_call",
        "check": "threshold",
        "settings": {"path": "amount", "must_be": "at_most", "limit": "300"},
        "tools": ["issue_refund"],
        "action": "require_approval",
    },
    {
        "name": "Nobody promises a refund",
        "where": "output",
        "check": "words",
        "settings": {"words": ["guaranteed refund", "we promise"]},
        "action": "block",
        "shadow": True,
    },
]

BEGIN_SECONDS_MAX = 10
LOOK_SECONDS = 0.1


def orders() -> list[Order]:
    """Return the orders that a fresh shop has, unsaved."""
    return [Order(**dict(zip(FIELDS, row, strict=True))) for row in ORDERS]


def fill() -> bool:
    """Write orders and rules, start the threads and ask for a purchase, all or nothing.

    Returns whether it did: not when there are orders already.
    """
    with transaction.atomic():
        if Order.objects.exists():
            return False
        Order.objects.bulk_create(orders())
        for rule in RULES:
            rulebook.create(**rule, actor=COLLEAGUE)
        for wish in WISHES:
            threads.start("desk", wish)
        threads.start("studio", STUDIO_WISH)
        purchases.ask(
            PURCHASE,
            PURCHASE_AMOUNT,
            wanted_by="Dana, packing",
            why="The old one prints every second label. Two others cost more.",
        )
        workflows.refund.start(order_id=WORKFLOW_ORDER, amount=WORKFLOW_REFUND)
        workflows.ask_customer.start(to=ASKED, question=QUESTION)
        workflows.escalate.start(order_id=16, question=ESCALATION, ladder=LADDER)
        common = {"verification": "secret", "secret": "demo", "delivery_id": "id", "enabled": True}
        for fields in TRIGGERS:
            Trigger.objects.create(**common, **fields, created_at=clock.now())
    return True


def settle() -> None:
    """Give the desk time to come as far as it can alone, and say the one no of the opening."""
    _wait_until_idle()
    for thread in Thread.objects.filter(title=DENIED_REFUND):
        for request in hitl.pending(thread):
            hitl.decide(request.request_id, approved=False, reason=NO, actor=COLLEAGUE)
    _wait_until_idle()


def _wait_until_idle() -> None:
    """Wait until no run owes a segment; a slow model is not waited for longer than a while."""
    busy = Run.objects.filter(status__in=[RunStatus.QUEUED, RunStatus.RUNNING])
    pause, began = Event(), monotonic()
    while busy.exists() and monotonic() - began < BEGIN_SECONDS_MAX:
        pause.wait(LOOK_SECONDS)
