"""Asking the model and keeping what it said: one call, one saved step, never asked twice for it.

The model is called outside of any transaction; the reply is kept together with whatever follows at
once from it.
"""

import logging
import random
from datetime import timedelta
from uuid import UUID

from agents import agent as agents
from agents import conf, following, frames, gating, guarding, releases, runs, tool_calls
from agents.events import Entry, EventType
from agents.guarding import Judged
from agents.guardrails.subjects import Action
from agents.history import messages
from agents.lease import LeaseLost, StopLanded
from agents.llm.errors import ModelUnavailable, RequestCancelled
from agents.llm.messages import Reply, Request, Usage, check_pairs
from agents.llm.models import resolve
from agents.models import Step, ToolCall
from agents.outages import AWAY, insist
from agents.snapshot import Work
from agents.states import Phase, RunStatus
from agents.tree import CallState, Frame, Hold, SavedStep
from hitl import clock, faults, openings, redaction, values
from hitl.errors import HitlError
from hitl.ids import new_id
from hitl.rows import Group, new
from hitl.states import Reason
from hitl.transactions import unit_of_work

logger = logging.getLogger(__name__)

BACKOFF_JITTER = 0.2


def ask_model(work: Work, frame: Frame) -> None:
    """Make one model call for a frame and keep its reply; a passing failure is tried again (H6).

    A failure for good ends the run, or the frame when it is a subagent's (N3).
    """
    agent = agents.get(frame.agent)
    model = agent.model or conf.default_model()
    try:
        if model is None:
            raise gating.NoModel
        request = Request(
            agent=agent.name,
            model=model if isinstance(model, str) else "",
            instructions=agent.instructions,
            messages=messages(work.turns(frame)),
            tools=tuple(tool.spec for tool in agent.tools),
        )
        check_pairs(request.messages)
        reply = resolve(model).request(request, cancelled=work.lease.is_over)
    except ModelUnavailable as error:
        back_off(work, frame, error)
        return
    except RequestCancelled:
        raise (LeaseLost if work.lease.lost else StopLanded) from None
    except AWAY:  # says nothing about the model: the lease lapses, and another segment asks it
        raise
    except Exception as error:
        if not isinstance(error, HitlError):
            logger.exception("run %s: the model call failed", work.run.id)
        _give_up(work, frame, f"The model call failed: {type(error).__name__}: {error}")
        return
    faults.point("model:replied")
    save_reply(work, frame, reply)


def _give_up(work: Work, frame: Frame, error: str) -> None:
    if frame.parent is None:
        releases.fail(work, error, entries=guarding.take_notes(work))
    else:
        frames.fail(work, frame, error)


def save_reply(work: Work, frame: Frame, reply: Reply) -> None:
    """Keep a reply with its judged calls and, when nothing is to run first, park or finish with it.

    One transaction: the reply, its calls, the parks and their events, the run's status and the end
    of the lease are seen together or not at all (P1, P2, P5).
    """
    text = values.clean_text(reply.text, chars_max=conf.count("REPLY_CHARS_MAX"))
    judged = guarding.judge_reply(work, frame, text, reply.calls)
    calls = gating.judge(work, frame, judged.calls)
    as_written = judged.is_as_written and not any(map(_was_redacted, calls))
    step_id, raw = new_id(), reply.raw if as_written else None
    snapshot = work.snapshot
    snapshot.steps += 1
    snapshot.tokens += reply.usage.input_tokens + reply.usage.output_tokens
    snapshot.cost_micros += reply.usage.cost_micros
    entries: list[Entry] = [_saved(frame, snapshot.steps, len(calls)), *guarding.take_notes(work)]
    if judged.is_held:
        assert judged.verdict is not None
        held = {"text": judged.text, "raw": raw}
        frame.hold = Hold(step_id, judged.verdict, held, snapshot.steps)
        frame.steps.append(SavedStep("", None, calls))
    else:
        frame.steps.append(SavedStep(judged.text, raw, calls))
        frame.finished_with = None if calls else judged.text
        entries += shown(frame, snapshot.steps)
    faults.point("reply:judged")
    used = {
        "steps": 1,
        "input_tokens": reply.usage.input_tokens,
        "output_tokens": reply.usage.output_tokens,
        "cost_micros": reply.usage.cost_micros,
        **({"holds": 1} if judged.is_held else {}),
    }

    def keep() -> bool:
        rows = _rows(work, frame, step_id, judged, reply.usage)
        return following.keep(work, entries, along=rows, add=used, model_failures=0)

    work.released = insist(keep)
    work.run.model_failures = 0
    faults.point("reply:saved")


def _was_redacted(call: CallState) -> bool:
    return call.verdict is not None and call.verdict["action"] == Action.REDACT


def back_off(work: Work, frame: Frame, error: ModelUnavailable) -> None:
    """Let go of the run until a model call is worth another try, or give it up (H6)."""
    failures = work.run.model_failures + 1
    if failures > conf.count("MODEL_RETRIES_MAX"):
        _give_up(work, frame, f"The model could not be reached {failures} times: {error}")
        return
    delay = _backoff(failures, error.retry_after)
    logger.warning("run %s: %s; next try in %.1f s", work.run.id, error, delay.total_seconds())
    opening = openings.Opening(
        key=f"retry:{work.snapshot.steps + 1}:{failures}", reason=Reason.RETRY, ttl=delay
    )
    with unit_of_work(durable=True):
        runs.write(
            work.lease, [], heed_stop=True, status=RunStatus.WAITING, model_failures=failures
        )
        openings.open_all("run", work.run.id, work.run.scope, [opening])
        work.released = True
        faults.point("backoff:saving")
    faults.point("backoff:saved")


def _backoff(failures: int, asked_for: timedelta | None) -> timedelta:
    """Return how long to wait: what the provider asked for, or doubling with jitter; bounded."""
    first, most = conf.duration("MODEL_BACKOFF"), conf.duration("MODEL_BACKOFF_MAX")
    if asked_for is not None and asked_for > timedelta():
        return min(asked_for, most)
    doubled = min(first * 2 ** (failures - 1), most)
    return doubled * random.uniform(1 - BACKOFF_JITTER, 1 + BACKOFF_JITTER)  # noqa: S311


def _saved(frame: Frame, number: int, calls: int) -> Entry:
    who = {"agent": frame.agent, "depth": frame.depth}
    return EventType.STEP_SAVED, {"step": number, "calls": calls, **who}


def shown(frame: Frame, number: int) -> list[Entry]:
    """Return the events that show a frame's newest reply: its text, its calls, what they begin."""
    step, who = frame.steps[-1], {"agent": frame.agent, "depth": frame.depth}
    entries: list[Entry] = []
    if step.text:
        entries.append((EventType.TEXT, {"step": number, "text": step.text, **who}))
    for call in step.calls:
        called = {
            "tool_call_id": str(call.id),
            "tool_name": call.tool_name,
            "arguments": redaction.mask(call.arguments, call.redacted),
            "gated": call.gated,
            **who,
        }
        entries.append((EventType.TOOL_CALL, called))
        if call.phase == Phase.DONE:
            entries.append(tool_calls.result_event(call))
        if call.child is not None:
            entries.append(frames.started(call))
    return entries


def _rows(work: Work, frame: Frame, step_id: UUID, judged: Judged, usage: Usage) -> list[Group]:
    """Return the rows of a reply: the step, its calls, and the frames that they open."""
    saved, now = frame.steps[-1], clock.now()
    step = new(
        Step,
        id=step_id,
        run_id=work.run.id,
        frame_id=frame.id,
        number=work.snapshot.steps,
        text=saved.text,
        raw=saved.raw,
        verdict=judged.verdict,
        held=frame.hold.what if frame.hold is not None else None,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cost_micros=usage.cost_micros,
        created_at=now,
    )
    calls = [
        new(
            ToolCall,
            id=call.id,
            run_id=work.run.id,
            step_id=step.id,
            index=call.index,
            provider_id=values.clean_text(made.id, chars_max=200),
            tool_name=call.tool_name,
            tool_id=call.tool_id,
            arguments_text=call.arguments_text,
            arguments=call.arguments,
            redacted=list(call.redacted),
            digest=call.digest,
            gated=call.gated,
            verdict=call.verdict,
            on_doubt=call.on_doubt,
            phase=call.phase,
            outcome=call.outcome,
            result=call.result,
            done_at=now if call.phase == Phase.DONE else None,
        )
        for call, made in zip(saved.calls, judged.calls, strict=True)
    ]
    return [[step], calls, frames.draft_all(work, saved.calls)]
