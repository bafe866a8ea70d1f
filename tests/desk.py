"""A desk to test with: an agent whose tools write their effects into a list outside the rows."""

from dataclasses import dataclass, field
from typing import Any

import hitl
from agents import Agent, ToolContext, requires_confirmation, threads, tool
from agents.models import Run, Thread
from agents.testing import ScriptedModel, run_worker
from hitl.inbox import PendingInput
from hitl.models import Decision, Park


@dataclass
class Desk:
    """A scripted agent, what its tools did, and short ways to look at its newest thread."""

    effects: list[str] = field(default_factory=list)
    contexts: list[ToolContext] = field(default_factory=list)
    model: ScriptedModel = field(init=False)
    thread: Thread = field(init=False)

    def open(self, *turns: Any, message: str = "Go on", **options: Any) -> Thread:
        """Start a thread whose model answers with these turns, and work until it waits or ends."""
        self.model = ScriptedModel(list(turns))
        tools = options.pop("tools", None) or self.tools()
        Agent("desk", model=self.model, tools=tools, **options)
        self.thread = threads.start("desk", message)
        run_worker()
        return self.thread

    def tools(self, **gate: Any) -> list[Any]:
        """Return a free tool `look`, and the gated tools `send` and `wipe`."""
        effects, contexts = self.effects, self.contexts

        @tool
        def look(what: str) -> str:
            """Look something up."""
            effects.append(f"look {what}")
            return f"seen {what}"

        @requires_confirmation(**gate)
        @tool
        def send(ctx: ToolContext, to: str, copies: int = 1) -> str:
            """Send a letter."""
            contexts.append(ctx)
            effects.append(f"send {to} {copies}")
            return f"sent to {to}"

        @requires_confirmation
        @tool
        def wipe() -> str:
            """Wipe the disk."""
            effects.append("wipe")
            return "wiped"

        return [look, send, wipe]

    @property
    def pending(self) -> list[PendingInput]:
        return hitl.pending(self.thread)

    @property
    def run(self) -> Run:
        """The thread's current run, as its row is now."""
        fresh = Thread.objects.select_related("current_run").get(id=self.thread.id)
        assert fresh.current_run is not None
        return fresh.current_run

    @property
    def results(self) -> dict[str, Any]:
        """Return the newest results that the model was given, by tool name."""
        [*_, last] = self.model.requests[-1].messages
        return {result.name: result for result in last.results}

    def answer(self, approved: object = True, **more: Any) -> hitl.Answer:
        """Answer the one open request and work on."""
        [request] = self.pending
        answer = hitl.respond(self.thread.id, request.tool_call_id, approved, **more)
        run_worker()
        return answer

    def event_types(self) -> list[str]:
        return [event["type"] for event in threads.events(self.thread)]

    def trail(self) -> list[tuple[str, str]]:
        """Return the verbs and actors of the audit trail of all this thread's requests."""
        rows = Decision.objects.filter(park__scope=self.thread.id).order_by("id")
        return list(rows.values_list("verb", "actor"))

    def parks(self) -> list[Park]:
        return list(Park.objects.filter(scope=self.thread.id).order_by("id"))
