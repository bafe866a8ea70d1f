"""A stand-in for the studio's model: "Draw order 16 and tell the customer." Pure.

A function of the request alone, so any process gives the same reply.
"""

import re
from typing import Any

from agents.llm.messages import Call, Request, ToolResult, ToolResults, UserMessage
from agents.testing import ScriptedModel, call

MODEL = "scripted:studio"

ORDER = re.compile(r"\border\s+#?(\d{1,9})\b", re.IGNORECASE)
TELL = re.compile(r"\b(write|e-?mail|mail|tell)\b", re.IGNORECASE)
NEWS = "Write to {email} that a picture of the {item} is being drawn and will be with you soon."


def reply(request: Request) -> str | list[Call]:
    """Look the order up, then have it drawn and written about, then tell what came of it."""
    said, results = "", list[ToolResult]()
    for message in request.messages:
        match message:
            case UserMessage(text):
                said, results = text, []
            case ToolResults():
                results += message.results
    if not results:
        return [
            call("lookup_order", order_id=int(number)) for number in ORDER.findall(said)[:1]
        ] or ('Tell me what to draw, for example "Draw order 16 and tell the customer".')
    order = results[0].content
    if results[0].outcome != "ok":
        return f"I could not look it up: {order}"
    if len(results) == 1:
        return _work(order, is_to_be_told=bool(TELL.search(said)))
    return " ".join(_sentence(result) for result in results[1:])


def _work(order: dict[str, Any], *, is_to_be_told: bool) -> list[Call]:
    calls = [call("render", scene=f"{order['item']} (order {order['order_id']})")]
    if is_to_be_told:
        calls.append(call("delegate_to_mailer", instructions=NEWS.format(**order)))
    return calls


def _sentence(result: ToolResult) -> str:
    content = result.content
    if result.name == "render" and isinstance(content, dict) and "picture" in content:
        return f"The picture is at {content['picture']}."
    if isinstance(content, dict):
        return (
            f"{result.name}: {result.outcome}. {content.get('message', content.get('error', ''))}"
        )
    return str(content)


studio = ScriptedModel(reply, name=MODEL.removeprefix("scripted:"))
