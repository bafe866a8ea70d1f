"""What the guardrails say of this run's messages, replies and calls, and what that means for them.

Decides in memory and writes nothing: what is judged is kept, together with the verdict, by whoever
keeps the reply or the message, so it is judged once (`agents/holds.py`, `agents/replies.py`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from agents import results
from agents.arguments import InvalidArguments
from agents.events import Entry, EventType
from agents.guardrails.judging import CLEAN, Judgement, Verdict, judge, redacted
from agents.guardrails.subjects import Action, Subject, Where
from agents.llm.messages import Call
from agents.snapshot import Work, frame_of
from agents.tools import Tool
from agents.tree import CallState, Frame
from hitl import redaction, values
from hitl.openings import Opening
from hitl.states import Reason

REFUSED_MESSAGE = "The message was refused by the guardrail {rule!r}."
REFUSED_REPLY = "This reply was refused by the guardrail {rule!r}."
HELD_TITLES = {True: "Let this message reach {agent}?", False: "Let this reply of {agent} out?"}
HELD_DESCRIPTIONS = {
    True: "The guardrail {rule!r} holds the message back from the model ({kinds}).",
    False: "The guardrail {rule!r} holds the reply back ({kinds}). Nobody has seen it, and none of "
    "its calls has run.",
}


@dataclass(frozen=True, slots=True)
class Judged:
    """A reply as it goes on: its text and calls, perhaps others than the model wrote."""

    text: str
    calls: tuple[Call, ...]
    verdict: dict[str, Any] | None = None

    @property
    def is_held(self) -> bool:
        return self.verdict is not None and self.verdict["action"] == Action.REQUIRE_APPROVAL

    @property
    def is_as_written(self) -> bool:
        return self.verdict is None or self.is_held


def judge_message(work: Work, frame: Frame) -> Judgement:
    """Judge the user's message as the root is given it, and take notes."""
    judgement = judge(work.rules, Subject(Where.INPUT, frame.agent, text=frame.message))
    _note(work, judgement, frame)
    return judgement


def judge_reply(work: Work, frame: Frame, text: str, calls: tuple[Call, ...]) -> Judged:
    """Judge the text of a fresh reply, take notes, and return the reply as it goes on.

    A refused reply keeps none of its calls: its agent's turn ends with the refusal.
    """
    subject = Subject(Where.OUTPUT, frame.agent, text=text if text.strip() else "")
    judgement = judge(work.rules, subject) if subject.text else CLEAN
    _note(work, judgement, frame)
    verdict, rule = judgement.verdict, judgement.rule
    if verdict is None or rule is None:
        return Judged(text, calls)
    match verdict.action:
        case Action.BLOCK:
            refusal = REFUSED_REPLY.format(rule=verdict.rule)
            return Judged(refusal, (), verdict.as_data())
        case Action.REDACT:
            return Judged(redacted(rule, text), calls, verdict.as_data())
    return Judged(text, calls, verdict.as_data())


def judge_call(work: Work, state: CallState, tool: Tool) -> str | None:
    """Judge a validated call and take notes; returns the action of the rule it broke.

    Redacted arguments take the place of those the model wrote; if the tool cannot take them, or the
    call is a delegation that would have to be held, the call is blocked.
    """
    if not any(rule.where == Where.TOOL_CALL for rule in work.rules):
        return None
    frame = frame_of(state)
    subject = Subject(
        Where.TOOL_CALL,
        frame.agent,
        tool=state.tool_name,
        arguments=state.arguments,
        typed=_typed(tool, state),
    )
    judgement = judge(work.rules, subject)
    verdict, rule = judgement.verdict, judgement.rule
    if verdict is not None and rule is not None:
        is_delegation = state.tool_name in work.delegates(frame)
        if verdict.action == Action.REDACT:
            try:
                text = values.dumps(redacted(rule, values.parse_object(state.arguments_text)))
                state.arguments, state.arguments_text = tool.validate(text), text
            except InvalidArguments:
                verdict = replace(verdict, action=str(Action.BLOCK))
        elif verdict.action == Action.REQUIRE_APPROVAL and is_delegation:
            verdict = replace(verdict, action=str(Action.BLOCK))
        state.verdict = verdict.as_data()
    _note(work, Judgement(verdict, rule, judgement.shadows), frame, state)
    return None if verdict is None else verdict.action


def take_notes(work: Work) -> list[Entry]:
    """Return the events of the verdicts since the last time, to be kept with what was judged."""
    notes, work.notes = work.notes, []
    return notes


def opening(frame: Frame, *, ttl: timedelta, policy: dict[str, Any], requester: str) -> Opening:
    """Return the question whether what is held of this frame goes on, exactly as it is."""
    hold = frame.hold
    assert hold is not None
    names = {
        "agent": frame.agent,
        "rule": hold.verdict["rule"],
        "kinds": ", ".join(hold.verdict["kinds"]),
    }
    held: dict[str, Any] = {"text": hold.what["text"]}
    if not hold.is_message and frame.calls:
        held["tool_calls"] = [
            {
                "tool_name": call.tool_name,
                "arguments": redaction.mask(call.arguments, call.redacted),
            }
            for call in frame.calls
        ]
    return Opening(
        key=str(hold.key),
        reason=Reason.GUARDRAIL,
        ttl=ttl,
        topic="message" if hold.is_message else "reply",
        title=HELD_TITLES[hold.is_message].format(**names),
        description=HELD_DESCRIPTIONS[hold.is_message].format(**names),
        asker=frame.agent,
        asker_depth=frame.depth,
        asker_path=frame.path,
        arguments=held,
        digest=values.digest({"held": str(hold.key), "what": held}),
        takes_payload="context",
        policy=policy,
        requester=requester,
        metadata=badge(hold.verdict),
    )


def badge(verdict: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what a card shows of the rule that asks for a person."""
    if verdict is None:
        return {}
    return {"guardrail": {name: verdict[name] for name in ("rule_id", "rule", "kinds")}}


def refusal(call: CallState) -> dict[str, Any]:
    """Return the result of a call that its verdict blocks."""
    assert call.verdict is not None
    return results.blocked(call.verdict["rule"])


def _typed(tool: Tool, state: CallState) -> dict[str, Any]:
    """Return the values that the function would get; nothing when it would not get these."""
    try:
        return tool.typed(state.arguments)
    except InvalidArguments:
        return {}


def _note(work: Work, judgement: Judgement, frame: Frame, call: CallState | None = None) -> None:
    for verdict in judgement.shadows:
        work.notes.append(_event(verdict, frame, call))
    if judgement.verdict is not None:
        work.notes.append(_event(judgement.verdict, frame, call))


def _event(verdict: Verdict, frame: Frame, call: CallState | None) -> Entry:
    """Return the event of a verdict: kinds of findings, never values (G4)."""
    about = {"tool_call_id": str(call.id), "tool_name": call.tool_name} if call else {}
    who = {"agent": frame.agent, "depth": frame.depth, "shadow": verdict.shadow}
    return EventType.GUARDRAIL, {**verdict.as_data(), **about, **who}
