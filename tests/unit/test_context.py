"""What a tool learns about its call."""

import dataclasses
from typing import Any

import pytest

from agents.context import Approval, ToolContext


def test_a_context_is_built_by_hand_in_a_unit_test() -> None:
    ctx = ToolContext(agent="desk", approval=Approval(payload={"ok": True}, actor="ana"))
    assert ctx.approval is not None
    assert ctx.approval.payload == {"ok": True}
    assert (ctx.depth, ctx.user, ctx.run_id) == (0, None, None)


def test_what_a_tool_emits_goes_to_whoever_runs_it() -> None:
    emitted: list[Any] = []
    ctx = ToolContext(emitter=lambda kind, data: emitted.append((kind, data)))
    ctx.emit("progress", {"percent": 50})
    ctx.emit(type="done", data=None)
    assert emitted == [("progress", {"percent": 50}), ("done", None)]


def test_outside_of_a_run_emitting_does_nothing() -> None:
    ToolContext().emit("progress", {"percent": 50})


def test_a_tool_cannot_change_its_context() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        ToolContext().agent = "other"  # type: ignore[misc]
