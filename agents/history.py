"""From saved turns to the messages that a model is given, every call with its one result (H2).

Reads rows, writes none. Only turns that no edit has cut away count. Calls carry our ids.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db import DEFAULT_DB_ALIAS

from agents import results
from agents.guardrails.judging import Rule, judge, redacted
from agents.guardrails.subjects import Action, Subject, Where
from agents.llm.messages import (
    AssistantMessage,
    Call,
    Message,
    ToolResult,
    ToolResults,
    UserMessage,
)
from agents.models import Run, Step, ToolCall
from agents.states import Outcome, Phase
from agents.tree import CallState, SavedStep
from hitl.reads import Select, fields_of, instance


@dataclass(slots=True)
class Turn:
    """One run as the model sees it: what the user said and what came of it."""

    message: str
    steps: list[SavedStep] = field(default_factory=list)


def messages(turns: Iterable[Turn]) -> tuple[Message, ...]:
    """Return these turns as messages. A call that never got a result is given one that says so."""
    found: list[Message] = []
    for turn in turns:
        found.append(UserMessage(turn.message))
        for step in turn.steps:
            found += step.messages or _messages(step)
    return tuple(found)


def _messages(step: SavedStep) -> Sequence[Message]:
    """Return a step as messages, and keep them with it once nothing of it changes any more."""
    calls = tuple(Call(_id(c), c.tool_name, c.arguments_text) for c in step.calls)
    if not calls:
        return [AssistantMessage(step.text, calls, step.raw)] if step.text else []
    made = (
        AssistantMessage(step.text, calls, step.raw),
        ToolResults(tuple(_result(call) for call in step.calls)),
    )
    if all(call.phase == Phase.DONE for call in step.calls):
        step.messages = made
    return made


def _id(call: CallState) -> str:
    return call.id.hex


def _result(call: CallState) -> ToolResult:
    if call.phase == Phase.DONE:
        return ToolResult(_id(call), call.tool_name, call.result, call.outcome)
    lost = results.unknown("The run ended before it was recorded.")
    return ToolResult(_id(call), call.tool_name, lost, Outcome.UNKNOWN)


def earlier_turns(run: Run, rules: Sequence[Rule] = ()) -> list[Turn]:
    """Return the turns of the thread before this run, oldest first."""
    return [] if run.number == 1 else turns_before(run.scope, run.number, rules)


def given(run: Run, rules: Sequence[Rule]) -> str:
    """Return a turn's message as a model may be given it.

    A turn that ended before its model was asked has not been judged; that is made up for here.
    """
    message: str = run.input["message"]
    if "verdict" in run.input:
        return str(run.input.get("given", message))
    if run.steps or not rules:
        return message
    judgement = judge(rules, Subject(Where.INPUT, run.target, text=message))
    if judgement.verdict is None or judgement.rule is None:
        return message
    if judgement.verdict.action == Action.REDACT:
        return str(redacted(judgement.rule, message))
    return results.withheld("message", judgement.verdict.rule)


def turns_before(thread_id: UUID, number: int, rules: Sequence[Rule] = ()) -> list[Turn]:
    """Return the turns of a thread below this number, with the steps of their root agents.

    What a guardrail held and nobody released is no part of the conversation.
    """
    turns: dict[int, Turn] = {}
    steps: dict[tuple[int, int], SavedStep] = {}
    for row in TURNS(thread_id, number):
        run = instance(Run, DEFAULT_DB_ALIAS, RUN, row[: len(RUN)])
        place, text, raw, *call = row[len(RUN) :]
        if run.number not in turns:
            turns[run.number] = Turn(given(run, rules))
        if place is None:  # a turn without a reply
            continue
        step = steps.get((run.number, place))
        if step is None:
            step = steps[run.number, place] = SavedStep(text, raw)
            turns[run.number].steps.append(step)
        if call[0] is not None:
            step.calls.append(state_of(call))
    return list(turns.values())


KEPT = (
    *("id", "index", "tool_name", "tool_id", "arguments_text", "arguments", "proposed"),
    *(
        "redacted",
        "digest",
        "gated",
        "verdict",
        "on_doubt",
        "phase",
        "claimed_by",
        "asked",
        "outcome",
    ),
    "result",
)
"""What a call's row and its state in memory have in common."""

RUN = ("number", "target", "input", "steps")
TURNS = Select(
    [
        *fields_of(Run, *RUN),
        *fields_of(Step, "number", "text", "raw"),
        *fields_of(ToolCall, *KEPT),
    ],
    "FROM agents_run"
    " LEFT JOIN agents_step ON agents_step.run_id = agents_run.id AND agents_step.frame_id IS NULL"
    " AND agents_step.held IS NULL"
    " LEFT JOIN agents_toolcall ON agents_toolcall.step_id = agents_step.id"
    " WHERE agents_run.thread_id = %s AND agents_run.number < %s AND agents_run.dropped_at IS NULL"
    ' ORDER BY agents_run.number, agents_step.number, agents_toolcall."index"',
    given=fields_of(Run, "thread_id", "number"),
)


def as_state(call: ToolCall) -> CallState:
    """Return a call's row as the engine sees it, its parks not yet looked up."""
    return state_of(getattr(call, name) for name in KEPT)


def state_of(values: Iterable[Any]) -> CallState:
    """Return a call as the engine sees it, from the values of `KEPT`."""
    return CallState(**dict(zip(KEPT, values, strict=True)))
