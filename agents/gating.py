"""Judging the calls of a reply: may it run, must it be asked about, or is it an error already.

Every call is judged once, when its reply is saved, with validated and defaulted arguments; what was
judged is stored with the call and not judged again when the run goes on (M2, M3).
"""

from collections import Counter
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from django.utils.functional import SimpleLazyObject

from agents import agent, conf, engine, guarding, results
from agents.context import ToolContext
from agents.engine import Ending
from agents.guardrails.subjects import Action
from agents.llm.messages import Call
from agents.models import Run, Thread
from agents.snapshot import Work, frame_of
from agents.states import Outcome, Phase
from agents.tools import InvalidArguments, Tool
from agents.tree import CallState, Frame
from hitl import conf as hitl_conf
from hitl import values
from hitl.errors import HitlError
from hitl.ids import new_id
from hitl.openings import Opening
from hitl.states import Reason

NAME_CHARS_MAX = 100
DOUBT_TITLE = "Did this happen? {tool}"
DOUBT_DESCRIPTION = (
    "A worker died while this tool was running, so nobody knows whether it happened. "
    "Answer with a result if it did; approve to run it again; deny to give it up."
)


class NoModel(HitlError):
    """The agent names no model and AGENTS["DEFAULT_MODEL"] is not set."""

    code = "no_model"


def judge(work: Work, frame: Frame, calls: Iterable[Call]) -> list[CallState]:
    """Return the state of each call of a frame: open, gated, or done with an error for the model.

    A delegation that may be made carries the frame that it opens.
    """
    denied = Counter(
        call.digest for call in work.own_calls() if call.outcome == Outcome.DENIED and call.digest
    )
    judged = [_judge(work, frame, call, index, denied) for index, call in enumerate(calls)]
    most = conf.count("DELEGATIONS_MAX")
    for call in [call for call in judged if call.child is not None][most:]:
        call.child = None
        _error(call, f"At most {most} delegations are made in one step.")
    return judged


def _judge(work: Work, frame: Frame, made: Call, index: int, denied: Counter[str]) -> CallState:
    state = CallState(
        id=new_id(),
        index=index,
        frame=frame,
        tool_name=values.clean_text(made.name, chars_max=NAME_CHARS_MAX),
        arguments_text=values.clean_text(made.arguments, chars_max=conf.count("OUTPUT_BYTES_MAX")),
    )
    asker = agent.get(frame.agent)
    tool = asker.tool(made.name)
    if tool is None:
        known = ", ".join(tool.name for tool in asker.tools) or "none"
        return _error(state, f"There is no tool named {state.tool_name!r}. Tools: {known}.")
    state.tool_id = tool.id
    state.on_doubt = tool.on_doubt
    state.redacted = sorted(tool.redact)
    if index >= conf.count("CALLS_MAX"):
        return _error(state, f"At most {conf.count('CALLS_MAX')} calls are made in one step.")
    try:
        state.arguments = tool.validate(made.arguments)
    except InvalidArguments as error:
        return _error(state, str(error))
    action = guarding.judge_call(work, state, tool)
    state.digest = tool.digest(state.arguments)
    if action == Action.BLOCK:
        return _done(state, Outcome.ERROR, guarding.refusal(state))
    state.parallel = tool.parallel
    if tool.name in asker.delegates:
        return _delegate(work, state, asker.delegates[tool.name])
    by_rule = action == Action.REQUIRE_APPROVAL
    state.gated = tool.needs_approval(state.arguments, context(work, state)) or by_rule
    state.on_doubt = tool.doubt(gated=by_rule or tool.gate is not None)
    refusals = denied[state.digest]
    if state.gated and refusals >= conf.count("SAME_DENIALS_MAX"):
        return _done(state, Outcome.DENIED, results.refused_again(refusals))
    return state


def _delegate(work: Work, state: CallState, name: str) -> CallState:
    """Open a frame for a delegation, or refuse it: too deep, to nobody known, or with no word."""
    above = frame_of(state)
    instructions = str(state.arguments["instructions"])
    if not instructions.strip():
        return _error(state, "The instructions are blank; say what the agent is to do.")
    if above.depth >= work.agent.max_depth:
        return _error(state, f"Delegating goes {work.agent.max_depth} levels deep and no deeper.")
    try:
        below = agent.get(name)
    except agent.AgentNotFound as error:
        return _error(state, str(error))
    state.child = Frame(
        id=new_id(),
        agent=name,
        message=instructions,
        steps_max=below.max_steps,
        depth=above.depth + 1,
        path=(*above.path, name),
        parent=state,
    )
    return state


def refuse(work: Work, call: CallState) -> Ending | None:
    """Return an error for a call that must not run now, or None when it may (M4).

    What would run is compared with what was judged, and approved: the tool may have left the code,
    or changed its id or its schema, since then.
    """
    tool = work.tool(call)
    if tool is None:
        return _refusal(call, f"The tool {call.tool_name!r} no longer exists.")
    if tool.digest(call.arguments) != call.digest:
        return _refusal(
            call, f"The tool {call.tool_name!r} has changed since this call was judged."
        )
    return None


def questions(work: Work, asked: engine.Park) -> list[Opening]:
    """Return what to ask: one per gated call, per call in doubt, per call that parked itself."""
    return [
        *(_gate_opening(work, call) for call in asked.gates),
        *(_doubt_opening(call) for call in asked.doubts),
        *(_job_opening(call) for call in asked.jobs),
        *(
            guarding.opening(
                frame,
                ttl=_ttl(frame),
                policy=_agents_policy(frame),
                requester=_requester(work),
            )
            for frame in asked.holds
        ),
    ]


def _gate_opening(work: Work, call: CallState) -> Opening:
    tool = work.tool(call)
    gate = tool.gate if tool is not None else None
    before = sum(
        other.digest == call.digest and other.outcome == Outcome.DENIED
        for other in work.own_calls()
    )
    return _opening(
        call,
        reason=Reason.APPROVAL,
        ttl=gate.ttl if gate is not None else None,
        title=_summary(tool, call),
        arguments=call.arguments,
        redacted=call.redacted,
        description=tool.description if tool is not None else "",
        takes_payload=gate.payload if gate is not None else "result",
        policy=(gate.policy if gate is not None else {}) or _agents_policy(frame_of(call)),
        requester=_requester(work),
        editable=gate is not None and gate.editable,
        metadata=({"denied_before": before} if before else {}) | _badge(call),
    )


def _doubt_opening(call: CallState) -> Opening:
    """Ask whether a call happened, under a key of its own.

    A yes to the gate that is sent again must find the gate, which is settled, not this question.
    """
    return _opening(
        call,
        key=f"{call.id}.{call.claimed_by}",
        reason=Reason.IN_DOUBT,
        title=DOUBT_TITLE.format(tool=call.tool_name),
        arguments=call.arguments,
        redacted=call.redacted,
        description=DOUBT_DESCRIPTION,
        metadata={"claim": call.claimed_by},
    )


def _job_opening(call: CallState) -> Opening:
    asked = call.asked or {}
    reason, ttl_s = asked["reason"], asked.get("ttl_s")
    return _opening(
        call,
        reason=reason,
        ttl=None if ttl_s is None else timedelta(seconds=ttl_s),
        title=f"{reason[:1].upper()}{reason[1:]} for {call.tool_name}",
        arguments={} if asked["payload"] is None else asked["payload"],
        takes_payload="context",
        metadata={"job": True},
    )


def _opening(
    call: CallState,
    *,
    reason: str,
    key: str = "",
    ttl: timedelta | None = None,
    **more: Any,
) -> Opening:
    """Fill in what every question about a call says: who asks, about what, and until when."""
    frame = frame_of(call)
    return Opening(
        key=key or str(call.id),
        reason=reason,
        ttl=ttl or _ttl(frame),
        topic=call.tool_name,
        asker=frame.agent,
        asker_depth=frame.depth,
        asker_path=frame.path,
        digest=call.digest,
        **more,
    )


def _agents_policy(frame: Frame) -> dict[str, Any]:
    return {} if frame.is_gone else agent.get(frame.agent).policy


def _requester(work: Work) -> str:
    """Return the key of the thread's owner, where whoever asks is barred from approving (I8)."""
    if not hitl_conf.four_eyes():
        return ""
    here = Run.objects.filter(id=work.run.id)
    owner = here.values_list("thread__owner_id", flat=True).first()
    return "" if owner is None else str(owner)


def _ttl(frame: Frame) -> timedelta:
    own = None if frame.is_gone else agent.get(frame.agent).ttl
    return own or hitl_conf.ttl()


def _badge(call: CallState) -> dict[str, Any]:
    """Return which guardrail asks for a person, where one does."""
    asks = call.verdict is not None and call.verdict["action"] == Action.REQUIRE_APPROVAL
    return guarding.badge(call.verdict) if asks else {}


def _summary(tool: Tool | None, call: CallState) -> str:
    """Return the card's title: the tool's own summary where it gives one and it works."""
    own = tool.summarise(call.arguments) if tool is not None else ""
    return own or f"Run {call.tool_name}?"


def context(work: Work, call: CallState, **more: Any) -> ToolContext:
    """Return what a tool or predicate may know about the call it serves."""
    frame = frame_of(call)
    return ToolContext(
        thread_id=work.run.thread_id,
        run_id=work.run.id,
        tool_call_id=call.id,
        idempotency_key=f"sayso:{call.id}",
        agent=frame.agent,
        depth=frame.depth,
        user=SimpleLazyObject(lambda: Thread.objects.get(id=work.run.scope).owner),
        **more,
    )


def _error(state: CallState, sentence: str) -> CallState:
    return _done(state, Outcome.ERROR, results.error(sentence))


def _done(state: CallState, outcome: Outcome, result: Any) -> CallState:
    state.phase, state.outcome, state.result = Phase.DONE, outcome, result
    return state


def _refusal(call: CallState, sentence: str) -> Ending:
    return Ending(call, Outcome.ERROR, results.error(f"{sentence} It was NOT performed."))
