"""Predicates and summaries: what they are given, and what happens when they fail."""

import logging
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from agents.context import ToolContext
from agents.tools import Tool, requires_confirmation, tool

CTX = ToolContext(agent="desk")


@tool(id="refund.v1")
def refund(
    ctx: ToolContext, order_id: str, amount: Decimal = Decimal(10), on: date | None = None
) -> None:
    """Pay back."""


def gated(**options: Any) -> Tool:
    return requires_confirmation(**options)(refund)


def test_a_predicate_gates_the_calls_for_which_it_is_true() -> None:
    marked = gated(when=lambda args, ctx: args["amount"] > 100)
    assert marked.needs_approval(marked.validate('{"order_id": "1", "amount": 100.01}'), CTX)
    assert not marked.needs_approval(marked.validate('{"order_id": "1", "amount": 100}'), CTX)


@pytest.mark.promise("M2")
def test_a_predicate_sees_named_typed_and_defaulted_arguments_and_the_context() -> None:
    """Field report GRD-01."""
    seen: list[Any] = []

    def when(args: dict[str, Any], ctx: ToolContext) -> bool:
        seen.append((args, ctx))
        return True

    marked = gated(when=when)
    marked.needs_approval(marked.validate('{"order_id": "1", "on": "2026-01-02"}'), CTX)
    assert seen == [
        ({"order_id": "1", "amount": Decimal(10), "on": date(2026, 1, 2)}, CTX),
    ]


@pytest.mark.promise("M2", "M4")
def test_a_predicate_cannot_change_what_will_run() -> None:
    def when(args: dict[str, Any], ctx: ToolContext) -> bool:
        args["order_id"] = "2"
        return False

    marked = gated(when=when)
    arguments = marked.validate('{"order_id": "1"}')
    marked.needs_approval(arguments, CTX)
    assert arguments["order_id"] == "1"


@pytest.mark.promise("M2")
@pytest.mark.parametrize("verdict", [None, 0, 1, "", "no", [], {}, object(), Decimal(0)])
def test_a_predicate_that_returns_no_bool_gates_the_call_and_the_log_says_why(
    verdict: object, caplog: pytest.LogCaptureFixture
) -> None:
    marked = gated(when=lambda args, ctx: verdict)
    assert marked.needs_approval(marked.validate('{"order_id": "1"}'), CTX) is True
    assert f"refund.v1: its predicate returned a {type(verdict).__name__}" in caplog.text


@pytest.mark.promise("M2")
def test_a_predicate_that_raises_gates_the_call_and_the_log_says_why(
    caplog: pytest.LogCaptureFixture,
) -> None:
    marked = gated(when=lambda args, ctx: args["no such argument"] > 100)
    assert marked.needs_approval(marked.validate('{"order_id": "1"}'), CTX) is True
    assert "refund.v1: its predicate failed, so the call is gated" in caplog.text
    assert "KeyError" in caplog.text


@pytest.mark.promise("M2")
def test_arguments_that_no_longer_fit_gate_the_call(caplog: pytest.LogCaptureFixture) -> None:
    marked = gated(when=lambda args, ctx: False)
    assert marked.needs_approval({"order_id": 1}, CTX) is True
    assert "So the call is gated" in caplog.text


def test_a_summary_is_one_bounded_line() -> None:
    marked = gated(summary=lambda args: f"Refund {args['amount']:.2f} on\n{args['order_id']}\0")
    assert marked.summarise(marked.validate('{"order_id": "17"}')) == "Refund 10.00 on 17␀"
    long = marked.summarise(marked.validate('{"order_id": "' + "x" * 1000 + '"}'))
    assert len(long) == 300
    assert "cut" in long


def test_a_summary_that_fails_is_left_out_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    marked = gated(summary=lambda args: args["nothing"])
    caplog.set_level(logging.ERROR)
    assert marked.summarise(marked.validate('{"order_id": "17"}')) == ""
    assert "its summary failed" in caplog.text


def test_a_tool_without_a_summary_says_nothing() -> None:
    assert refund.summarise({"order_id": "1"}) == ""
    assert requires_confirmation(refund).summarise({"order_id": "1"}) == ""
