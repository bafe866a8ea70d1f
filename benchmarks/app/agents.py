"""Scenario P as an agent: one saved reply, a park, one effect, one more saved reply.

The effect is a row in `app_effects`, written as every peer writes it. The model is a function of the
request, so that any worker process gives the same replies. Deadlines differ from run to run in the
expiry storm, so there is an agent for each time to live, in tenths of a second.
"""

import time
from typing import Any

from django.db import connection

from agents import Agent, ToolContext, requires_confirmation, tool
from agents.llm.messages import Request, ToolResults
from agents.testing import ScriptedModel, call

LONG_S = 36_000
STORM_DECISECONDS = 1_000


def effect(run: str, kind: str) -> None:
    """Do the one visible thing of a run."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO app_effects(run_id, kind, at) VALUES (%s, %s, %s)",
            [run, kind, time.time()],
        )


@requires_confirmation
@tool
def act(ctx: ToolContext, run: str) -> str:
    """Do it."""
    effect(run, "yes")
    return "done"


def reply(request: Request) -> Any:
    """Ask for the one call, then end; a timeout has its effect in the second step."""
    [said, *rest] = request.messages
    run = said.text  # type: ignore[union-attr]
    if not rest:
        return [call("act", run=run)]
    last = rest[-1]
    if isinstance(last, ToolResults) and last.results[0].outcome == "timed_out":
        effect(run, "timeout")
    return "done"


MODEL = ScriptedModel(reply)


def name(ttl_s: float) -> str:
    """Return the agent whose questions stay open for this long."""
    return "p" if ttl_s >= LONG_S else f"p{max(round(ttl_s * 10), 1)}"


Agent("p", model=MODEL, tools=[act], ttl="10h")
for deciseconds in range(1, STORM_DECISECONDS):
    Agent(f"p{deciseconds}", model=MODEL, tools=[act], ttl=deciseconds * 100)
