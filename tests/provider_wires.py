"""The wire formats that the fake provider speaks: how each answers and what it refuses. Pure.

A refusal is what the real service would say with status 400. Only the rules that a history of tool
calls can break are here: pairs, order, names, ids, arguments, empty texts.
"""

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from agents.llm.messages import Call

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@dataclass(frozen=True)
class Wire:
    """One protocol: the path it is asked at, its replies, its refusals and its error bodies."""

    path: str
    reply: Callable[[str, tuple[Call, ...], str], dict[str, Any]]
    refusal: Callable[[dict[str, Any]], str | None]
    error: Callable[[str, str], dict[str, Any]]


def _chat_reply(text: str, calls: tuple[Call, ...], model: str) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": text or None}
    if calls:
        message["tool_calls"] = [_without_no_id(_chat_call(call), "id") for call in calls]
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": model,
        "choices": [
            {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
        ],
        "usage": {"prompt_tokens": 120, "completion_tokens": 30, "total_tokens": 150},
    }


def _chat_call(call: Call) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


def _chat_refusal(body: dict[str, Any]) -> str | None:
    steps: list[Step] = []
    for message in body["messages"]:
        for call in message.get("tool_calls") or ():
            function = call["function"]
            steps.append(("call", call["id"], function["name"], function["arguments"]))
        if message["role"] == "tool":
            steps.append(("result", message["tool_call_id"], "", ""))
        elif message["role"] == "assistant" and not (
            message.get("content") or "tool_calls" in message
        ):
            return "an assistant message must have content or tool_calls"
        elif message["role"] != "assistant":
            steps.append(("text", "", "", ""))
    return unpaired(steps)


def _responses_reply(text: str, calls: tuple[Call, ...], model: str) -> dict[str, Any]:
    output: list[dict[str, Any]] = [{"type": "reasoning", "id": "rs_1", "summary": []}]
    if text:
        content = [{"type": "output_text", "text": text, "annotations": []}]
        said = {"id": "msg_1", "role": "assistant", "status": "completed", "content": content}
        output.append({"type": "message", **said})
    for position, call in enumerate(calls):
        item = {"type": "function_call", "id": f"fc_{position}", "status": "completed"}
        item |= {"call_id": call.id, "name": call.name, "arguments": call.arguments}
        output.append(_without_no_id(item, "call_id"))
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_700_000_000,
        "status": "completed",
        "model": model,
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 120,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 30,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 150,
        },
    }


def _responses_refusal(body: dict[str, Any]) -> str | None:
    steps: list[Step] = []
    for item in body["input"]:
        if item.get("type") == "function_call":
            steps.append(("call", item["call_id"], item["name"], item["arguments"]))
        elif item.get("type") == "function_call_output":
            steps.append(("result", item["call_id"], "", ""))
        elif item.get("role") == "user":
            steps.append(("text", "", "", ""))
    return unpaired(steps)


def _messages_reply(text: str, calls: tuple[Call, ...], model: str) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    for call in calls:
        block = {"type": "tool_use", "id": call.id, "name": call.name}
        content.append(_without_no_id(block | {"input": _loaded(call.arguments)}, "id"))
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": "tool_use" if calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 120, "output_tokens": 30},
    }


def _messages_refusal(body: dict[str, Any]) -> str | None:
    if not isinstance(body.get("max_tokens"), int):
        return "max_tokens: field required"
    steps: list[Step] = []
    for message in body["messages"]:
        content = message["content"]
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        if not content:
            return "messages must have non-empty content"
        for block in content:
            match block["type"]:
                case "tool_use":
                    steps.append(("call", block["id"], block["name"], json.dumps(block["input"])))
                case "tool_result":
                    if not all(part["text"].strip() for part in block["content"]):
                        return "text content blocks must contain non-whitespace text"
                    steps.append(("result", block["tool_use_id"], "", ""))
                case "text" if not block["text"].strip():
                    return "text content blocks must contain non-whitespace text"
                case "text" if message["role"] == "user":
                    steps.append(("text", "", "", ""))
    return unpaired(steps)


Step = tuple[str, str, str, str]  # kind, id, name, arguments


def unpaired(steps: Iterable[Step]) -> str | None:
    """Why a provider refuses this order of calls, results and user texts; None when it takes it."""
    open_ids: list[str] = []
    answered = False
    for kind, call_id, name, arguments in steps:
        if kind == "result":
            if call_id not in open_ids:
                return f"no tool call waits for the result {call_id!r}"
            open_ids.remove(call_id)
            answered = True
            continue
        if open_ids and (kind == "text" or answered):
            return f"tool calls without a result: {open_ids}"
        answered = False
        if kind == "call":
            fault = _call_fault(call_id, name, arguments, open_ids)
            if fault:
                return fault
            open_ids.append(call_id)
    return f"tool calls without a result: {open_ids}" if open_ids else None


def _call_fault(call_id: str, name: str, arguments: str, open_ids: list[str]) -> str | None:
    if not NAME.fullmatch(call_id or ""):
        return f"the id {call_id!r} does not match the pattern"
    if call_id in open_ids:
        return f"the id {call_id!r} is used twice"
    if not NAME.fullmatch(name):
        return f"the name {name!r} does not match the pattern"
    if not isinstance(_loaded(arguments), dict):
        return f"the arguments {arguments!r} are no JSON object"
    return None


def _loaded(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=lambda name: None)
    except ValueError:
        return text


def _without_no_id(item: dict[str, Any], key: str) -> dict[str, Any]:
    """An id spelt "-" stands for none at all: the key itself is missing."""
    return {name: value for name, value in item.items() if (name, value) != (key, "-")}


def _openai_error(message: str, code: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": code, "code": code, "param": None}}


def _anthropic_error(message: str, code: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": code, "message": message}}


CHAT = Wire("/chat/completions", _chat_reply, _chat_refusal, _openai_error)
RESPONSES = Wire("/responses", _responses_reply, _responses_refusal, _openai_error)
MESSAGES = Wire("/messages", _messages_reply, _messages_refusal, _anthropic_error)
WIRES = (CHAT, RESPONSES, MESSAGES)
