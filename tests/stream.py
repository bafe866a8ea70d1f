"""What a client of the event stream does: keep a view of a thread up to date from events alone.

`apply` is a pure reducer; `read` makes the same view from the rows. They agree at every moment, so
a client that comes back with an old view and the number it stands at misses nothing (H5).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from agents import threads
from agents.models import Event, Frame, Run, Thread, ToolCall
from agents.states import FINAL, Phase
from hitl.models import Park

WORKING, WAITING = "working", "waiting for input"
SETTLED = frozenset({"INPUT_ANSWERED", "INPUT_EXPIRED", "INPUT_CANCELLED"})
ENDED = {"RUN_COMPLETED": "COMPLETED", "RUN_FAILED": "FAILED", "RUN_CANCELLED": "CANCELLED"}


@dataclass(frozen=True)
class Call:
    """A tool call as a screen shows it; `outcome` is empty while it is not over."""

    tool: str
    arguments: Any
    agent: str
    depth: int
    outcome: str = ""
    result: Any = None
    path: tuple[str, ...] = ()
    """The way to the agent that it delegates to."""
    at_work: bool = False
    """Whether that agent has begun and not ended."""


@dataclass(frozen=True)
class Turn:
    """A user's message, what the agent said to it, and the calls of the whole tree by their ids."""

    message: str
    texts: tuple[str, ...] = ()
    calls: dict[str, Call] = field(default_factory=dict)


@dataclass(frozen=True)
class View:
    """A thread as a screen shows it. `seq` is the number of the last event in it."""

    seq: int = 0
    end: str = ""
    turns: dict[str, Turn] = field(default_factory=dict)
    open: frozenset[str] = frozenset()

    @property
    def status(self) -> str:
        return self.end or (WAITING if self.open else WORKING)


def apply(view: View, events: Iterable[dict[str, Any]]) -> View:
    """Return the view after these events. Fails when one is missing or comes twice."""
    for event in events:
        assert event["seq"] == view.seq + 1, f"event {event['seq']} after {view.seq}"
        view = replace(_apply(view, event["type"], event["data"]), seq=event["seq"])
    return view


def _apply(view: View, kind: str, data: dict[str, Any]) -> View:
    if kind == "RUN_STARTED":
        turns = view.turns | {data["message_id"]: Turn(data["message"])}
        return replace(view, turns=turns, end="")
    if kind == "MESSAGES_DROPPED":
        gone = data["message_ids"]
        return replace(view, turns={key: t for key, t in view.turns.items() if key not in gone})
    if kind == "INPUT_REQUIRED":
        return replace(view, open=view.open | {data["request_id"]})
    if kind in SETTLED:
        assert data["request_id"] in view.open, f"{kind} for a request that nobody saw open"
        return replace(view, open=view.open - {data["request_id"]})
    if kind in ENDED:
        return replace(view, end=ENDED[kind])
    return _apply_to_turn(view, kind, data)


def _apply_to_turn(view: View, kind: str, data: dict[str, Any]) -> View:
    """Apply what happens within the newest turn."""
    key = list(view.turns)[-1]
    turn = view.turns[key]
    if kind == "TEXT" and data["depth"] == 0:
        turn = replace(turn, texts=(*turn.texts, data["text"]))
    elif kind == "TOOL_CALL":
        made = Call(data["tool_name"], data["arguments"], data["agent"], data["depth"])
        turn = replace(turn, calls=turn.calls | {data["tool_call_id"]: made})
    elif kind in ("TOOL_RESULT", "SUBAGENT_STARTED", "SUBAGENT_FINISHED"):
        call = _apply_to_call(turn.calls[data["tool_call_id"]], turn, kind, data)
        turn = replace(turn, calls=turn.calls | {data["tool_call_id"]: call})
    return replace(view, turns=view.turns | {key: turn})


def _apply_to_call(call: Call, turn: Turn, kind: str, data: dict[str, Any]) -> Call:
    path = tuple(data.get("path", ()))
    if kind == "SUBAGENT_STARTED":
        return replace(call, path=path, at_work=True)
    if kind == "SUBAGENT_FINISHED":
        assert (call.at_work, call.path) == (True, path), "a subagent ends once, and has begun"
        inside = [each for each in turn.calls.values() if each.at_work and each.path[:-1] == path]
        assert not inside or _has_namesake(turn, path), "a subagent ends before those above it"
        return replace(call, at_work=False)
    assert not call.outcome, "a call ends once"
    assert not call.at_work, "a subagent ends before its delegation has a result"
    return replace(call, outcome=data["outcome"], result=data["result"])


def _has_namesake(turn: Turn, path: tuple[str, ...]) -> bool:
    """Tell whether another agent at the same path is at work, so that a child may be its own."""
    return sum(each.at_work and each.path == path for each in turn.calls.values()) > 1


def read(thread: Thread) -> View:
    """Return the view that the rows give, read now."""
    turns: dict[str, Turn] = {}
    for line in threads.history(thread):
        if line["role"] == "user":
            key = str(line["id"])
            turns[key] = Turn(line["text"])
        else:
            turns[key] = replace(turns[key], texts=(*turns[key].texts, line["text"]))
    frames = {frame.call_id: frame for frame in Frame.objects.filter(run__thread=thread)}
    agents = {frame.id: frame.agent for frame in frames.values()}
    depths = {frame.id: frame.depth for frame in frames.values()}
    made = ToolCall.objects.filter(run__thread=thread, run__dropped_at=None)
    for row in made.select_related("step", "run").order_by("step__number", "index"):
        child, above = frames.get(row.id), row.step.frame_id
        turns[str(row.run_id)].calls[str(row.id)] = Call(
            tool=row.tool_name,
            arguments=row.arguments,
            agent=agents[above] if above else row.run.target,
            depth=depths[above] if above else 0,
            outcome=row.outcome,
            result=row.result,
            path=tuple(child.path) if child else (),
            at_work=child is not None and row.phase != Phase.DONE,
        )
    current = _current(thread)
    return View(
        seq=Event.objects.filter(thread=thread).count(),
        end=current.status if current.status in FINAL else "",
        turns=turns,
        open=frozenset(
            str(park.id) for park in Park.objects.pending().cards().filter(scope=thread.id)
        ),
    )


def _current(thread: Thread) -> Run:
    run = Thread.objects.select_related("current_run").get(id=thread.id).current_run
    assert run is not None
    return run
