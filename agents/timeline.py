"""What happened in a thread, turn by turn, for the page that shows it. Reads rows, writes none.

One page of turns costs six queries, however many calls, requests and subagents it holds. A turn is
laid out flat, with marks where a subagent begins and ends, so that a page nests as deep as agents
delegate without a template that calls itself.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from agents.models import Frame, Run, Step, Thread, ToolCall
from agents.states import Phase
from hitl.models import Park
from hitl.states import Reason

TURNS_MAX = 20


@dataclass(frozen=True, slots=True)
class ShownCall:
    """A tool call with the requests that were opened about it."""

    call: ToolCall
    requests: list[Park]

    @property
    def open_request(self) -> Park | None:
        return next((request for request in self.requests if request.is_pending), None)

    @property
    def waits(self) -> bool:
        return self.open_request is not None

    @property
    def waits_for(self) -> object:
        """What the tool said that it waits for; None if it has not parked itself, or is silent."""
        return (self.call.asked or {}).get("payload")


@dataclass(frozen=True, slots=True)
class Item:
    """One thing to show: a text that an agent said, a call, or where a subagent begins or ends.

    `kind` is "said", "held" (a reply that a guardrail keeps back, without its text and its calls),
    "call", "begin" or "end". `agent` is who did it; for a begin and an end the subagent.
    """

    kind: str
    agent: str
    step: Step | None = None
    shown_call: ShownCall | None = None
    frame: Frame | None = None
    is_over: bool = False
    requests: Sequence[Park] = ()


@dataclass(frozen=True, slots=True)
class Turn:
    """One run: what the user said, what the agents said and did, and when it is tried again."""

    run: Run
    items: list[Item]
    next_try: Park | None
    requests: Sequence[Park] = ()

    @property
    def message(self) -> str:
        return str(self.run.input.get("message", ""))

    @property
    def verdict(self) -> dict[str, Any]:
        """Which guardrail the message broke, and what followed; empty if none."""
        found: dict[str, Any] = self.run.input.get("verdict", {})
        return found


@dataclass(frozen=True, slots=True)
class Timeline:
    """The newest turns of a thread, oldest of them first.

    `before` is the number under which earlier turns are asked for, None when there are none.
    """

    turns: list[Turn] = field(default_factory=list)
    before: int | None = None


def read(thread: Thread, *, before: int | None = None) -> Timeline:
    """Return the newest turns of a thread, or those with a lower number than `before`."""
    runs = Run.objects.filter(thread=thread).order_by("-number")
    if before is not None:
        runs = runs.filter(number__lt=before)
    found = list(runs[: TURNS_MAX + 1])
    shown = found[:TURNS_MAX][::-1]
    ids = [run.id for run in shown]
    requests, timers = _parks(ids)
    rows = _Rows(_steps(ids), _calls(ids, requests), _frames(ids), requests)
    turns = [
        Turn(
            run,
            list(rows.lay_out(run.id, None, run.target)),
            timers.get(run.id),
            requests.get(str(run.id), []),
        )
        for run in shown
    ]
    return Timeline(turns, shown[0].number if len(found) > TURNS_MAX else None)


@dataclass(frozen=True, slots=True)
class _Rows:
    """The steps by run and frame, the calls by step, the subagents by the call that opened them.

    The requests are by what they are about.
    """

    steps: dict[tuple[UUID, UUID | None], list[Step]]
    calls: dict[UUID, list[ShownCall]]
    frames: dict[UUID, Frame]
    requests: dict[str, list[Park]]

    def lay_out(self, run_id: UUID, frame_id: UUID | None, agent: str) -> Iterator[Item]:
        """Yield what one agent said and did, each subagent's part in place of its delegation."""
        for step in self.steps.get((run_id, frame_id), []):
            asked = self.requests.get(str(step.id), [])
            if step.held is not None:
                yield Item("held", agent, step=step, requests=asked)
                continue
            if step.text:
                yield Item("said", agent, step=step, requests=asked)
            for shown in self.calls.get(step.id, []):
                frame = self.frames.get(shown.call.id)
                if frame is None:
                    yield Item("call", agent, shown_call=shown)
                    continue
                is_over = shown.call.phase == Phase.DONE
                yield Item("begin", frame.agent, shown_call=shown, frame=frame, is_over=is_over)
                yield from self.lay_out(run_id, frame.id, frame.agent)
                yield Item("end", frame.agent, shown_call=shown, frame=frame, is_over=is_over)


def _parks(run_ids: list[UUID]) -> tuple[dict[str, list[Park]], dict[UUID, Park]]:
    """Return the requests by the call they are about, and the timer that each run waits for."""
    requests: dict[str, list[Park]] = defaultdict(list)
    timers: dict[UUID, Park] = {}
    rows = Park.objects.filter(waiter_id__in=run_ids).defer("arguments", "description")
    for park in rows.order_by("id"):
        if not park.is_timer:
            requests[park.subject].append(park)
        elif park.is_pending and park.reason == Reason.RETRY:
            timers[park.waiter_id] = park
    return requests, timers


def _calls(run_ids: list[UUID], requests: dict[str, list[Park]]) -> dict[UUID, list[ShownCall]]:
    found: dict[UUID, list[ShownCall]] = defaultdict(list)
    for call in ToolCall.objects.filter(run_id__in=run_ids).order_by("step_id", "index"):
        found[call.step_id].append(ShownCall(call, requests.get(str(call.id), [])))
    return found


def _frames(run_ids: list[UUID]) -> dict[UUID, Frame]:
    return {frame.call_id: frame for frame in Frame.objects.filter(run_id__in=run_ids)}


def _steps(run_ids: list[UUID]) -> dict[tuple[UUID, UUID | None], list[Step]]:
    found: dict[tuple[UUID, UUID | None], list[Step]] = defaultdict(list)
    rows = Step.objects.filter(run_id__in=run_ids).defer("raw").order_by("run_id", "number")
    for step in rows:
        found[step.run_id, step.frame_id].append(step)
    return found
