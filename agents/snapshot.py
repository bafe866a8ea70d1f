"""What a segment knows of its run: read from the rows once, then kept up by its own effects.

That is sound because the lease makes the segment the only writer of the run's steps and calls, and
no park can be open while it holds the lease. A segment that lost its lease writes nothing (P6).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from time import monotonic
from typing import Any
from uuid import UUID

from agents import agent, history, tree
from agents.agent import Agent, AgentNotFound
from agents.events import Entry
from agents.guardrails import rulebook
from agents.guardrails.judging import Rule
from agents.guardrails.subjects import Action
from agents.history import Turn
from agents.lease import Lease
from agents.models import Frame, Run, Step, ToolCall
from agents.states import Phase
from agents.tools import Tool
from agents.tree import CallState, Hold, SavedStep, Settlement, Snapshot
from hitl.models import Park
from hitl.reads import Select, ask_each, fields_of
from hitl.states import Reason


@dataclass(slots=True)
class Work:
    """One segment's view: the lease, the run's row as taken, the root's agent and the snapshot.

    `rules` are the guardrails in force when the lease was taken; `notes` are events of their
    verdicts that wait to be kept with what was judged.
    """

    lease: Lease
    run: Run
    agent: Agent
    snapshot: Snapshot
    began: float = field(default_factory=monotonic)
    released: bool = False
    rules: tuple[Rule, ...] = ()
    notes: list[Entry] = field(default_factory=list)
    _earlier: list[Turn] | None = None

    def turns(self, frame: tree.Frame) -> list[Turn]:
        """Return what this frame's agent has been told and said: the root the whole conversation.

        Earlier turns of the thread are read once a segment.
        """
        own = Turn(frame.message, frame.steps)
        if frame.parent is not None:
            return [own]
        if self._earlier is None:
            self._earlier = history.earlier_turns(self.run, self.rules)
        return [*self._earlier, own]

    def own_calls(self) -> Iterator[CallState]:
        """Yield the calls of this run that its open frames made."""
        for frame in tree.open_frames(self.snapshot.root):
            for step in frame.steps:
                yield from step.calls

    def delegates(self, frame: tree.Frame) -> Mapping[str, str]:
        """Return the tools of this frame's agent that delegate, with whom they delegate to."""
        return agent.get(frame.agent).delegates

    def tool(self, call: CallState) -> Tool | None:
        """Return the tool that this call names, as its agent has it now."""
        return agent.get(frame_of(call).agent).tool(call.tool_name)


def frame_of(call: CallState) -> tree.Frame:
    """Return the frame that made this call."""
    assert call.frame is not None, "a call of a snapshot knows its frame"
    return call.frame


def load(run: Run) -> Work:
    """Read what a segment needs of a run whose lease was just taken.

    Raises `agent.AgentNotFound` when the root's agent is gone from the code.
    """
    found = agent.get(run.target)
    root = tree.Frame(
        agent=found.name,
        message=history.given(run, ()),
        steps_max=found.max_steps,
        path=(found.name,),
    )
    if run.steps:
        _fill(run, root)
    elif _holds_message(run):
        root.hold = Hold(run.id, run.input["verdict"], {"text": run.input["message"]})
        _join_parks(PARKS(run.id), {}, {str(run.id): root.hold})
    return Work(
        lease=Lease(run.id, run.lease_token),
        run=run,
        agent=found,
        snapshot=Snapshot(
            token=run.lease_token,
            root=root,
            steps=run.steps,
            steps_max=found.max_steps,
            stop_requested=run.stop_requested,
            tokens=run.input_tokens + run.output_tokens,
            tokens_max=found.token_budget,
            cost_micros=run.cost_micros,
            cost_micros_max=found.cost_budget_micros,
        ),
        rules=rulebook.in_force(run.rules_stamp),
    )


def _holds_message(run: Run) -> bool:
    verdict = run.input.get("verdict", {})
    return verdict.get("action") == Action.REQUIRE_APPROVAL and "released" not in run.input


def _fill(run: Run, root: tree.Frame) -> None:
    """Hang the saved steps, the frames and the parks into the tree.

    One query for steps and calls, since a step without calls ends its frame, and ended frames are
    not looked into, and one for parks. One more for frames where somebody delegated.
    """
    found, parks = ask_each([(SAVED, [run.id]), (PARKS, [run.id])])
    saved = [(*row[:4], history.state_of(row[4:])) for row in found]
    calls = {call.id: call for *_, call in saved}
    frames: dict[UUID | None, tree.Frame] = {None: root}
    if any(call.tool_id.startswith(agent.DELEGATION) for call in calls.values()):
        for opened in Frame.objects.filter(run_id=run.id).order_by("id"):
            frames[opened.id] = _frame(opened, calls[opened.call_id])
    steps: dict[int, SavedStep] = {}
    for number, frame_id, text, raw, call in saved:
        frame, step = frames[frame_id], steps.get(number)
        if step is None:
            step = steps[number] = SavedStep(text, raw)
            frame.steps.append(step)
        step.calls.append(call)
        call.frame = frame
        call.parallel = _is_parallel(frame, call)
    holds = dict(_held(run, frames, steps)) if run.holds else {}
    undone = {str(call.id): call for call in calls.values() if call.phase != Phase.DONE}
    _join_parks(parks, undone, holds)


def _held(
    run: Run, frames: dict[UUID | None, tree.Frame], steps: dict[int, SavedStep]
) -> Iterator[tuple[str, Hold]]:
    """Put what guardrails hold on its frames; a reply that is held has not ended its frame."""
    for row in Step.objects.filter(run_id=run.id, held__isnull=False).order_by("number"):
        frame = frames.get(row.frame_id)
        if frame is None:
            continue
        if row.number not in steps:
            frame.steps.append(SavedStep(row.text, row.raw))
        frame.hold = Hold(row.id, row.verdict, row.held, row.number)
        yield str(row.id), frame.hold


def _frame(row: Frame, parent: CallState) -> tree.Frame:
    """Return a frame's state, hung below the call that delegated to it."""
    try:
        steps_max, is_gone = agent.get(row.agent).max_steps, False
    except AgentNotFound:
        steps_max, is_gone = 0, True
    parent.child = tree.Frame(
        id=row.id,
        agent=row.agent,
        message=row.message,
        steps_max=steps_max,
        depth=row.depth,
        path=tuple(row.path),
        parent=parent,
        is_gone=is_gone,
    )
    return parent.child


def _is_parallel(frame: tree.Frame, call: CallState) -> bool:
    if frame.is_gone:
        return False
    tool = agent.get(frame.agent).tool(call.tool_name)
    return tool is not None and tool.parallel


def _join_parks(
    parks: Iterable[list[Any]], by_key: dict[str, CallState], holds: dict[str, Hold]
) -> None:
    """Put on each call how its gate, its own wait and its newest doubt stand, and on each hold."""
    for park in PARKS.instances(parks):
        if (hold := holds.get(park.key)) is not None:
            hold.answer = settlement(park)
        call = by_key.get(park.subject)
        if call is None:
            continue
        if park.reason == Reason.IN_DOUBT:
            call.doubt = settlement(park)
        elif park.is_job:
            call.job = settlement(park)
        else:
            call.gate = settlement(park)


def settlement(park: Park) -> Settlement:
    """Return a park as the engine sees it."""
    answer = park.answer or {}
    return Settlement(
        status=park.status,
        reason=park.answer_reason,
        actor=park.settled_by,
        decided_at=park.settled_at,
        has_payload="payload" in answer,
        payload=answer.get("payload"),
        takes_payload=park.takes_payload,
        claim=park.metadata.get("claim", 0),
    )


SAVED = Select(
    [*fields_of(Step, "number", "frame_id", "text", "raw"), *fields_of(ToolCall, *history.KEPT)],
    "FROM agents_toolcall JOIN agents_step ON agents_step.id = agents_toolcall.step_id"
    ' WHERE agents_toolcall.run_id = %s ORDER BY agents_step.number, agents_toolcall."index"',
    given=fields_of(ToolCall, "run_id"),
)
PARK = "key reason status answer answer_reason settled_by settled_at takes_payload metadata".split()
PARKS = Select(
    fields_of(Park, *PARK),
    "FROM hitl_park WHERE waiter_id = %s ORDER BY id",
    given=fields_of(Park, "waiter_id"),
)
