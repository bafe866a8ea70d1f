"""A stand-in for a model: reads plain wishes about orders and acts on them. Pure.

It is a function of the request alone, so any process gives the same reply. It understands texts
such as "Refund order 17", "Refund 20 € on order 17 and write to the customer", "Cancel order 15"
and "Write to ana@example.com that it is on its way", and tells what became of each call.
"""

import json
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from agents.llm.messages import AssistantMessage, Call, Request, ToolResults, UserMessage
from agents.testing import ScriptedModel, call

MODEL = "scripted:support-desk"

ORDERS = re.compile(r"\borders?\s+((?:(?:,|and|\s|#)*\d+)+)", re.IGNORECASE)
AMOUNT = re.compile(
    r"\brefund\s+€?\s*(\d+(?:\.\d{1,2})?)\s*(?:€|euros?\b|on\b|for\b|of\b)", re.IGNORECASE
)
ADDRESS = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
MESSAGE = re.compile(r"\bthat\s+(.+)", re.IGNORECASE | re.DOTALL)
WRITE = re.compile(r"\b(write|e-?mail|mail|tell)\b", re.IGNORECASE)
DONE = ("ok", "answered")

ENDINGS = {
    "ok": "{what} is done.",
    "answered": "{what} is settled: a colleague reports {content}.",
    "denied": "{what} was not approved, so it was not done.",
    "timed_out": "{what} found no answer in time, so it was not done.",
    "cancelled": "{what} was withdrawn before anyone decided, so it was not done.",
    "stopped": "{what} was stopped, so it was not done.",
    "error": "{what} failed: {error}",
    "unknown": "{what} may or may not have happened: a worker died on it. Have it checked first.",
}


@dataclass(frozen=True, slots=True)
class Made:
    """A call of the present turn with its result."""

    name: str
    arguments: dict[str, Any]
    content: Any
    outcome: str


def reply(request: Request) -> str | list[Call]:
    """Return the next calls, or the closing words once there is nothing left to do."""
    said = [message.text for message in request.messages if isinstance(message, UserMessage)]
    made = _made(request)
    calls = _next_calls(said, made)
    return calls or _report(made)


def _next_calls(said: list[str], made: list[Made]) -> list[Call]:
    """Return what to do next: look up, then act, then write about it if all of it was done."""
    text, numbers = said[-1], _order_numbers(said)
    names = {one.name for one in made}
    if numbers and not names:
        return [call("lookup_order", order_id=number) for number in numbers]
    found = [one.content for one in made if one.name == "lookup_order" and one.outcome in DONE]
    if not names & {"issue_refund", "cancel_order"} and (acts := _acts(text, found)):
        return acts
    if "send_email" in names or any(one.outcome not in DONE for one in made):
        return []
    return _mails(text, found) if WRITE.search(text) else []


def _order_numbers(said: list[str]) -> list[int]:
    """Return the orders that the newest message names, else those of the newest that names any."""
    for text in reversed(said):
        numbers = [
            int(digits) for run in ORDERS.findall(text) for digits in re.findall(r"\d+", run)
        ]
        if numbers:
            return list(dict.fromkeys(numbers))
    return []


def _acts(text: str, found: list[dict[str, Any]]) -> list[Call]:
    wish = text.lower()
    stated = AMOUNT.search(text)
    calls: list[Call] = []
    for order in found:
        number = order["order_id"]
        if "cancel" in wish:
            calls.append(call("cancel_order", order_id=number))
        if "refund" in wish or "money back" in wish:
            left = Decimal(order["paid"]) - Decimal(order["refunded"])
            if amount := stated[1] if stated else left:
                calls.append(call("issue_refund", order_id=number, amount=amount))
    return calls


def _mails(text: str, found: list[dict[str, Any]]) -> list[Call]:
    given = MESSAGE.search(text)
    news = given[1].strip() if given else "we have done what you asked for. Thank you for waiting."
    address = ADDRESS.search(text)
    if address and not found:
        return [
            call("send_email", to=address[0], subject="News from our shop", body=f"Hello, {news}")
        ]
    return [
        call(
            "send_email",
            to=address[0] if address else order["email"],
            subject=f"Your order {order['order_id']}: {order['item']}",
            body=f"Dear {order['customer']}, {news}",
        )
        for order in found
    ]


def _made(request: Request) -> list[Made]:
    """Return the calls since the last thing the user said."""
    made: list[Made] = []
    calls: dict[str, Call] = {}
    for message in request.messages:
        match message:
            case UserMessage():
                made.clear()
            case AssistantMessage():
                calls |= {one.id: one for one in message.calls}
            case ToolResults():
                for result in message.results:
                    arguments = json.loads(calls[result.call_id].arguments)
                    made.append(Made(result.name, arguments, result.content, result.outcome))
    return made


def _report(made: list[Made]) -> str:
    """Say what was done, what was not, and why."""
    acts = [one for one in made if one.name != "lookup_order" or one.outcome not in DONE]
    if acts:
        return " ".join(_sentence(one) for one in acts)
    if made:
        return " ".join(_standing(one.content) for one in made)
    return 'Tell me what to do, for example "Refund order 17" or "Cancel order 15".'


def _sentence(one: Made) -> str:
    """Tell how one call ended, with the reason that came with it."""
    content = one.content if isinstance(one.content, dict) else {}
    said = ENDINGS[one.outcome].format(
        what=_what(one),
        content=json.dumps(one.content),
        error=content.get("error", "no reason given"),
    )
    reason = content.get("reason")
    return f"{said} The reason given: {reason}" if reason else said


def _what(one: Made) -> str:
    given = one.arguments
    match one.name:
        case "issue_refund":
            return f"The refund of {given['amount']} € on order {given['order_id']}"
        case "cancel_order":
            return f"The cancellation of order {given['order_id']}"
        case "send_email":
            return f"The e-mail to {given['to']}"
    return f"The search for order {given['order_id']}"


def _standing(order: dict[str, Any]) -> str:
    return (
        f"Order {order['order_id']} ({order['item']}, {order['paid']} €) of {order['customer']} "
        f"is {order['status']}; {order['refunded']} € were refunded."
    )


support_desk = ScriptedModel(reply, name=MODEL.removeprefix("scripted:"))
