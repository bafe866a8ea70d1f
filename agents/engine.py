"""What a run does next. Pure: a snapshot in, one action out; no clock, no database, no I/O.

A run is a tree of frames: the root's agent, and below it the subagents it delegated to. The newest
step of each open frame holds the calls that are looked at. The order of things:

1. free calls run, in every frame;
2. when nothing is open or still to be asked, whatever was settled is performed, in call order:
   readiness first, side effects second;
3. frames whose calls are all done ask their model;
4. what must be asked is asked, all of it in one park;
5. what is open is waited for.

A reply that a guardrail holds is no part of that before a person has released it: its calls neither
run nor are asked about. A no to it ends the turn of its agent.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agents import results
from agents.states import OnDoubt, Outcome, Phase
from agents.tree import CallState, Frame, Hold, Settlement, Snapshot, open_frames


@dataclass(frozen=True, slots=True)
class CallModel:
    """Ask this frame's model for the next reply."""

    frame: Frame


@dataclass(frozen=True, slots=True)
class RunTool:
    """Run this call's tool, with the approval when it has one."""

    call: CallState
    approval: Settlement | None = None


@dataclass(frozen=True, slots=True)
class RunTools:
    """Run these free calls side by side: each of their tools said that it may."""

    calls: Sequence[CallState]


@dataclass(frozen=True, slots=True)
class Ending:
    """The result of a call that is kept without running its tool."""

    call: CallState
    outcome: Outcome
    result: Any


@dataclass(frozen=True, slots=True)
class Keep:
    """Keep these results; no tool runs."""

    endings: Sequence[Ending]


@dataclass(frozen=True, slots=True)
class Park:
    """Ask about these calls, all at once, and let go of the run.

    `gates` wait for a decision before they run, `doubts` for word on whether they happened, `jobs`
    for work elsewhere that their tools began. `holds` are frames of which something is held.
    """

    gates: Sequence[CallState]
    doubts: Sequence[CallState]
    jobs: Sequence[CallState] = field(default_factory=list)
    holds: Sequence[Frame] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Release:
    """A person let go on what a guardrail held: exactly that, and it is not judged again (G3)."""

    frame: Frame


@dataclass(frozen=True, slots=True)
class Wait:
    """Something is open: let go of the run."""


@dataclass(frozen=True, slots=True)
class Return:
    """A subagent has said its last word: it is the result of the call that delegated to it."""

    frame: Frame
    text: str


@dataclass(frozen=True, slots=True)
class FailFrame:
    """A subagent cannot go on: that is the result of its delegation, and the run goes on (N3)."""

    frame: Frame
    error: str


@dataclass(frozen=True, slots=True)
class Finish:
    """The root has answered in words: the run is complete."""

    text: str


@dataclass(frozen=True, slots=True)
class Fail:
    """The run cannot go on."""

    error: str


@dataclass(frozen=True, slots=True)
class Cancel:
    """A stop was asked for."""


Action = (
    CallModel
    | RunTool
    | RunTools
    | Keep
    | Park
    | Release
    | Wait
    | Return
    | FailFrame
    | Finish
    | Fail
    | Cancel
)


def next_action(snapshot: Snapshot) -> Action:
    """Return what the run does next."""
    if snapshot.stop_requested:
        return Cancel()
    frames = list(open_frames(snapshot.root))
    for frame in frames:
        if frame.is_gone:
            return FailFrame(frame, f"There is no agent {frame.agent!r} any more.")
        if frame.hold is not None and frame.hold.answer is not None and not frame.hold.is_open:
            return _settled_hold(frame, frame.hold.answer)
        if frame.finished_with is not None:
            return _last_word(frame)
    held = [frame for frame in frames if frame.hold is not None]
    calls = [
        call
        for frame in frames
        if frame.hold is None
        for call in frame.undone
        if call.child is None
    ]
    token = snapshot.token
    free = [call for call in calls if _is_free(call, token)]
    if free:
        return _run_free(free, token)
    asked = _questions(calls, held, token)
    is_waiting = bool(held) or any(_is_waiting(call, token) for call in calls)
    if calls and asked is None and not is_waiting:
        return _perform_settled(calls, token)
    for frame in frames:
        if not frame.undone and frame.hold is None:
            return _ask_model(frame, snapshot)
    return asked or Wait()


def _last_word(frame: Frame) -> Action:
    assert frame.finished_with is not None
    return Return(frame, frame.finished_with) if frame.parent else Finish(frame.finished_with)


def _settled_hold(frame: Frame, answer: Settlement) -> Action:
    """Let what was held go on, or end the turn of its agent and name the rule."""
    assert frame.hold is not None
    if answer.status == "approved":
        return Release(frame)
    refusal = results.held_back(_what_of(frame.hold), frame.hold.verdict["rule"], answer.status)
    return Fail(refusal) if frame.parent is None else FailFrame(frame, refusal)


def _what_of(hold: Hold) -> str:
    return "message" if hold.is_message else "reply"


def _ask_model(frame: Frame, snapshot: Snapshot) -> Action:
    """Ask the frame's model, unless a limit is reached: the tree's ends the run, its own itself."""
    if snapshot.steps >= snapshot.steps_max:
        return Fail(f"The run reached its limit of {snapshot.steps_max} steps.")
    if snapshot.tokens_max is not None and snapshot.tokens >= snapshot.tokens_max:
        return Fail(f"The run used up its budget of {snapshot.tokens_max} tokens.")
    if snapshot.cost_micros_max is not None and snapshot.cost_micros >= snapshot.cost_micros_max:
        return Fail(f"The run used up its budget of {snapshot.cost_micros_max / 1e6:g} dollars.")
    if frame.parent is not None and len(frame.steps) >= frame.steps_max:
        return FailFrame(frame, f"It reached its limit of {frame.steps_max} steps.")
    return CallModel(frame)


def _is_free(call: CallState, token: int) -> bool:
    """Tell whether a call may run without anybody's answer."""
    return not call.gated and call.phase != Phase.ASKED and not _asks_about_doubt(call, token)


def _run_free(free: list[CallState], token: int) -> Action:
    """Run the first free call, together with its neighbours when all may run side by side."""
    together = [
        call for call in free if call.parallel and call.phase == Phase.OPEN and call.job is None
    ]
    if len(together) > 1 and free[0] in together:
        return RunTools(together)
    return _perform(free[0], token)


def _questions(calls: list[CallState], held: list[Frame], token: int) -> Park | None:
    """Return what is still to be asked, or None."""
    gates = [call for call in calls if call.gated and call.gate is None]
    doubts = [call for call in calls if _needs_doubt_park(call, token)]
    jobs = [call for call in calls if call.phase == Phase.ASKED and call.job is None]
    holds = [frame for frame in held if frame.hold is not None and frame.hold.answer is None]
    return Park(gates, doubts, jobs, holds) if gates or doubts or jobs or holds else None


def _perform_settled(calls: list[CallState], token: int) -> Action:
    """Keep what ends without an effect first, all at once; then run one settled call."""
    endings = [ending for call in calls if (ending := _ending(call, token))]
    return Keep(endings) if endings else _perform(calls[0], token)


def _perform(call: CallState, token: int) -> Action:
    """Run a call's tool, or keep what stands in for its result."""
    ending = _ending(call, token)
    return Keep([ending]) if ending is not None else RunTool(call, call.approval)


def _ending(call: CallState, token: int) -> Ending | None:
    """Return the result of a call that is not to run, or None when its tool runs now."""
    if _in_doubt(call, token):
        return _doubt_ending(call)
    if call.job is not None:
        return _job_ending(call, call.job)
    gate = call.gate
    if not call.gated or gate is None:
        return None
    if gate.status == "approved":
        if gate.has_payload and gate.takes_payload == "result":
            return Ending(call, Outcome.ANSWERED, gate.payload)
        return None
    return _not_done(call, gate)


def _job_ending(call: CallState, job: Settlement) -> Ending | None:
    """A job that finished or outlived its deadline resumes its tool; any other ending is kept."""
    if job.status in ("approved", "timed_out"):
        return None
    outcome = Outcome.DENIED if job.status == "rejected" else Outcome.CANCELLED
    return Ending(call, outcome, results.job_ended(outcome, job.reason))


def _not_done(call: CallState, answer: Settlement) -> Ending:
    outcome = {
        "rejected": Outcome.DENIED,
        "timed_out": Outcome.TIMED_OUT,
        "cancelled": Outcome.CANCELLED,
    }[answer.status]
    return Ending(call, outcome, results.not_done(outcome, answer.reason))


def _doubt_ending(call: CallState) -> Ending | None:
    """Return what is kept for a call in doubt; None when it is to run again."""
    if call.on_doubt == OnDoubt.RETRY:
        return None
    if call.on_doubt == OnDoubt.FAIL:
        return _unknown(call, "The worker died while the tool ran.")
    answer = call.doubt
    assert answer is not None, "a call in doubt is asked about before it ends"
    if answer.status == "approved":
        if answer.has_payload:
            return Ending(call, Outcome.ANSWERED, answer.payload)
        return None
    said = {
        "rejected": "A person decided to give it up.",
        "timed_out": "Nobody could say whether it happened.",
        "cancelled": "The question about it was withdrawn.",
    }[answer.status]
    return _unknown(call, f"{said} {answer.reason}".strip())


def _unknown(call: CallState, detail: str) -> Ending:
    return Ending(call, Outcome.UNKNOWN, results.unknown(detail))


def _in_doubt(call: CallState, token: int) -> bool:
    """Tell whether an earlier segment went into the tool and never came back."""
    return call.phase == Phase.CLAIMED and call.claimed_by != token


def _asks_about_doubt(call: CallState, token: int) -> bool:
    return _in_doubt(call, token) and call.on_doubt == OnDoubt.ASK


def _answered_doubt(call: CallState) -> Settlement | None:
    """Return the park about this very claim; one about an earlier claim does not count."""
    if call.doubt is not None and call.doubt.claim == call.claimed_by:
        return call.doubt
    return None


def _needs_doubt_park(call: CallState, token: int) -> bool:
    return _asks_about_doubt(call, token) and _answered_doubt(call) is None


def _is_waiting(call: CallState, token: int) -> bool:
    """Tell whether a question about this call is open."""
    if _asks_about_doubt(call, token):
        doubt = _answered_doubt(call)
        return doubt is not None and doubt.is_open
    answer = call.job if call.phase == Phase.ASKED else call.gate
    return answer is not None and answer.is_open
