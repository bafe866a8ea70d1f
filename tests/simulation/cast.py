"""The agents of the random histories, and what they are told to do.

A process defines them once; their tools and their model speak to the ward that is on stage.

A message is a script in JSON: a list with what the model says at each step. A step is "down" (the
model cannot be reached the first time), "broken" (it fails for good) or a list of calls: a letter
of `LETTERS`, or `{"to": agent, "script": [...]}` for a delegation.
"""

import json
from functools import cache
from random import Random
from typing import Any, Protocol

from agents import Agent, ToolContext, agent, requires_confirmation, tool
from agents.llm.errors import ModelUnavailable
from agents.llm.messages import AssistantMessage, Request, UserMessage
from agents.testing import ScriptedModel, call

LETTERS = {
    "f": "free",
    "g": "gated",
    "r": "retried",  # gated, and run again in doubt
    "e": "raising",
    "x": "free",  # with arguments that do not fit
    "j": "job",
    "q": "quick_job",  # is done before it parks
    "k": "gated_job",
}
DEPTH_MAX = 3


def script(random: Random, depth: int = 0) -> list[Any]:
    """Draw what an agent does: a few steps of one to three calls, with delegations among them."""
    return [_step(random, depth) for _ in range(random.randint(1, 3 if depth == 0 else 2))]


def _step(random: Random, depth: int) -> Any:
    kind = random.randint(0, 11)
    if kind == 0:
        return "down"
    if kind == 1:
        return "broken"
    return [_call(random, depth) for _ in range(random.randint(1, 3))]


def _call(random: Random, depth: int) -> Any:
    if depth < DEPTH_MAX and random.randint(0, 3) == 0:
        return {"to": random.choice(["ward", "guest"]), "script": script(random, depth + 1)}
    return random.choice("".join(LETTERS))


class Stage(Protocol):
    """What the agents need of the history that is being played."""

    failed: set[str]
    """Messages at which the model could not be reached before."""

    def did(self, ctx: ToolContext) -> str:
        """Have the effect of a tool."""

    def did_job(self, ctx: ToolContext, *, is_quick: bool = False) -> Any:
        """Begin a job, or go on once it is done."""


_stage: Stage | None = None


def enter(stage: Stage) -> Agent:
    """Let the agents play for this history from now on; returns the guest, who may leave."""
    global _stage
    _stage = stage
    ward, guest = _define()
    agent._agents |= {"ward": ward, "guest": guest}
    return guest


def _on_stage() -> Stage:
    assert _stage is not None, "nobody is on stage"
    return _stage


@cache
def _define() -> tuple[Agent, Agent]:
    @tool
    def free(ctx: ToolContext) -> str:
        """Run freely."""
        return _on_stage().did(ctx)

    @requires_confirmation
    @tool
    def gated(ctx: ToolContext) -> str:
        """Ask first."""
        return _on_stage().did(ctx)

    @requires_confirmation(on_doubt="retry")
    @tool
    def retried(ctx: ToolContext) -> str:
        """Ask first, retry in doubt."""
        return _on_stage().did(ctx)

    @requires_confirmation
    @tool
    def raising(ctx: ToolContext) -> str:
        """Ask first, then raise."""
        _on_stage().did(ctx)
        raise ValueError("no")

    @tool
    def job(ctx: ToolContext) -> Any:
        """Wait for work elsewhere."""
        return _on_stage().did_job(ctx)

    @tool
    def quick_job(ctx: ToolContext) -> Any:
        """Wait for work elsewhere that is done at once."""
        return _on_stage().did_job(ctx, is_quick=True)

    @requires_confirmation
    @tool
    def gated_job(ctx: ToolContext) -> Any:
        """Ask first, then wait for work elsewhere."""
        return _on_stage().did_job(ctx)

    tools = [free, gated, retried, raising, job, quick_job, gated_job]
    both, model = ["ward", "guest"], ScriptedModel(_reply)
    guest = Agent("guest", model=model, tools=tools, subagents=both, max_steps=2)
    return Agent("ward", model=model, tools=tools, subagents=both, max_steps=10), guest


def _reply(request: Request) -> Any:
    failed = _on_stage().failed
    places = [n for n, m in enumerate(request.messages) if isinstance(m, UserMessage)]
    said = request.messages[places[-1]]
    assert isinstance(said, UserMessage)
    steps = json.loads(said.text)
    done = sum(isinstance(m, AssistantMessage) for m in request.messages[places[-1] :])
    if said.text in failed:
        steps = [step for step in steps if step != "down"]
    failed.add(said.text)
    if done >= len(steps):
        return "That is all."
    step = steps[done]
    if step == "down":
        raise ModelUnavailable("down")
    if step == "broken":
        raise RuntimeError("broken")
    return ["On it.", *map(_made, step)]


def _made(made: Any) -> Any:
    if isinstance(made, dict):
        return call(f"delegate_to_{made['to']}", instructions=json.dumps(made["script"]))
    return call(LETTERS[made], what="unknown") if made == "x" else call(LETTERS[made])
