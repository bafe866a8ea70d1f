"""What happened outside the database: a file of lines that no rollback takes back.

The agent of the simulations writes into it each time a model is asked and each time a tool acts,
from whatever process it runs in. Its model holds no state: the reply follows from the request.
"""

import json
import os
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.db.models import Q
from django.test import Client

from agents import Agent, ToolContext, park_for_input, requires_confirmation, threads, tool
from agents.llm.errors import ModelUnavailable
from agents.llm.messages import AssistantMessage, Request, UserMessage
from agents.models import Run, Step, ToolCall
from agents.states import Phase
from agents.testing import ScriptedModel, call
from hitl import faults

AGENT = "simulated"
BELOW = ("below1", "below2", "below3")
SCRIPTS: dict[str, list[Any]] = {
    "one gated": [[call("send", to="ana")], "Done."],
    "one gated, one free": [[call("look", what="ana"), call("send", to="ana")], "Done."],
    "two gated": [[call("send", to="ana"), call("send", to="ben")], "Done."],
    "no call": ["Done."],
    "busy": [[call("send", to="ana")], "Done."],
    "stopped in a tool": [[call("halt"), call("send", to="ana")], "Done."],
    "a long way": [[call("look", what="ana")], [call("send", to="ana")], "Done."],
    "a job": [[call("render", scene="a")], "Done."],
    "a fast job": [[call("render", scene="fast")], "Done."],
    "a job that nobody awaits": [[call("render", scene="at hand")], "Done."],
    "a deep gate": [[call("delegate_to_below1", instructions="go to 2")], "Done."],
    "go to 2": [[call("delegate_to_below2", instructions="go to 3")], "One."],
    "go to 3": [[call("delegate_to_below3", instructions="one gated")], "Two."],
    "all kinds": [
        [
            call("send", to="ana"),
            call("render", scene="a"),
            call("delegate_to_below1", instructions="one gated"),
        ],
        "Done.",
    ],
    "a child that fails": [[call("delegate_to_below1", instructions="trust below")], "Done."],
    "trust below": [[call("delegate_to_below2", instructions="fail")], "One."],
    "wait for it": [["Wait: I look.", call("look", what="ana")], "Done."],
    "hear [EMAIL]": [["Wait: I write.", call("send", to="ana")], "Wait: done."],
    "say no": [["Wait: I look.", call("look", what="ana")], "Never."],
    "fail": [[call("send", to="ana")], RuntimeError("the model is gone")],
}
BUSY_TIMES = 2


@dataclass
class Journal:
    """Lines in a file; each is flushed before the next thing happens."""

    path: Path

    def write(self, kind: str, **data: Any) -> None:
        line = json.dumps({"kind": kind, **data}) + "\n"
        handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            os.write(handle, line.encode())
        finally:
            os.close(handle)

    def lines(self, kind: str) -> list[dict[str, Any]]:
        """Return the lines of one kind, oldest first."""
        if not self.path.exists():
            return []
        found = [json.loads(line) for line in self.path.read_text().splitlines()]
        return [line for line in found if line["kind"] == kind]

    def effects(self) -> Counter[str]:
        """Return how often each call acted, by the call's id."""
        return Counter(line["call"] for line in self.lines("did"))

    def asked(self) -> Counter[tuple[str, str, int]]:
        """Return how often a model was asked for each reply of each agent's place in each run.

        Passing failures aside.
        """
        return Counter((line["run"], line["place"], line["reply"]) for line in self.lines("asked"))


@tool
def look(ctx: ToolContext, what: str) -> str:
    """Look something up."""
    ctx.emit("looked", {"what": what})
    _act(ctx)
    return f"seen {what}"


@requires_confirmation
@tool
def send(ctx: ToolContext, to: str) -> str:
    """Send a letter."""
    _act(ctx)
    return f"sent to {to}"


@tool
def halt(ctx: ToolContext) -> str:
    """Act, and be stopped by somebody meanwhile."""
    _act(ctx)
    assert ctx.thread_id is not None
    threads.stop(ctx.thread_id, actor="somebody")
    return "halted"


@tool
def render(ctx: ToolContext, scene: str) -> Any:
    """Have a scene rendered elsewhere; a fast farm is done before this returns."""
    if ctx.resumed:
        return f"rendered {ctx.approval.payload}" if ctx.approval else "not in time"
    _act(ctx)
    if scene in ("fast", "at hand"):
        tell_farm(ctx.resume_url)
    if scene == "at hand":
        return "rendered before"
    raise park_for_input(payload={"notify": ctx.resume_url}, ttl="30m")


def tell_farm(address: str) -> bool:
    """Do what a farm does when it is done: post the result; True when it counted."""
    path = urlsplit(address).path
    reply = Client().post(path, data='"a.png"', content_type="application/json")
    assert reply.status_code in (200, 409)
    return reply.status_code == 200


_journal: Journal | None = None


def enrol(journal: Journal) -> None:
    """Define the agents anew, as a process that has just started does."""
    global _journal
    _journal = journal
    names = (AGENT, *BELOW)
    for name, below in zip(names, (*names[1:], None), strict=True):
        Agent(
            name,
            model=ScriptedModel(_reply),
            tools=(look, send, halt, render),
            subagents=[below] if below else [],
        )


def _act(ctx: ToolContext) -> None:
    """Do what a tool does to the world: leave a line that no rollback takes back."""
    assert _journal is not None
    assert ctx.tool_call_id is not None
    row = ToolCall.objects.get(id=ctx.tool_call_id)
    faults.point("effect:begun")
    _journal.write("did", tool=row.tool_name, call=str(row.id), was_done=row.phase == Phase.DONE)
    faults.point("effect:happened")


def _reply(request: Request) -> Any:
    """Return the reply that follows from the request; note which one of which run it is."""
    assert _journal is not None
    spoken = [m for m in request.messages if isinstance(m, UserMessage | AssistantMessage)]
    turn = max(n for n, message in enumerate(spoken) if isinstance(message, UserMessage))
    said, reply = spoken[turn].text, len(spoken) - turn
    run = Run.objects.get(status="RUNNING")
    if said == "busy" and len(_journal.lines("refused")) < BUSY_TIMES:
        _journal.write("refused", run=str(run.id))
        raise ModelUnavailable("429 Too Many Requests", retry_after=timedelta(seconds=20))
    place = f"{request.agent}: {said}"
    mine = Q(frame=None) if request.agent == AGENT else Q(frame__agent=request.agent)
    saved = Step.objects.filter(mine, run=run).count()
    _journal.write("asked", run=str(run.id), place=place, reply=reply, saved=saved)
    return SCRIPTS[said][reply - 1]
