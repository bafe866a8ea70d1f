"""Agents whose tools leave one line each outside of the database, in whatever process they run.

The models hold no state: a reply follows from the request, and how often a model has failed already
stands in the file of effects.
"""

import os
import random
import time
from typing import Any

from agents import Agent, ToolContext, park_for_input, requires_confirmation, tool
from agents.llm.errors import ModelRefused, ModelUnavailable
from agents.llm.messages import AssistantMessage, Request, UserMessage
from agents.testing import ScriptedModel, call
from tests.chaos import jobs, ledger, scripts
from tests.chaos.app.workflows import errand
from tests.chaos.scripts import AGENTS, DELEGATE, GOODBYE, KINDS, POISONED

MODEL_SECONDS_MAX = 0.15
STEPS_MAX = 200


def act(ctx: ToolContext, before: int, after: int) -> str:
    """Wait, do the one thing that cannot be undone, and wait; milliseconds."""
    time.sleep(before / 1000)
    ledger.effects().write(
        "effect",
        call=str(ctx.tool_call_id),
        run=str(ctx.run_id),
        key=ctx.idempotency_key,
        approved=ctx.approval is not None,
        informed=ctx.approval is not None and ctx.approval.payload is not None,
        session=os.getsid(0),
        before=before,
        after=after,
    )
    time.sleep(after / 1000)
    return "done"


@tool
def look(ctx: ToolContext, before: int, after: int) -> str:
    """Look something up, and tell of it on the way."""
    ctx.emit("looking", {"before": before})
    return act(ctx, before, after)


@tool(on_doubt="ask")
def ring(ctx: ToolContext, before: int, after: int) -> str:
    """Ring somebody, which nobody needs to allow, but which is not done twice."""
    return act(ctx, before, after)


@tool(on_doubt="fail")
def note(ctx: ToolContext, before: int, after: int) -> str:
    """Take a note."""
    return act(ctx, before, after)


@requires_confirmation
@tool
def pay(ctx: ToolContext, before: int, after: int) -> str:
    """Pay."""
    return act(ctx, before, after)


@requires_confirmation(on_doubt="retry")
@tool
def post(ctx: ToolContext, before: int, after: int) -> str:
    """Post to a service that knows the idempotency key."""
    return act(ctx, before, after)


@requires_confirmation(on_doubt="fail")
@tool
def mail(ctx: ToolContext, before: int, after: int) -> str:
    """Send a letter."""
    return act(ctx, before, after)


@requires_confirmation(payload="context")
@tool
def brief(ctx: ToolContext, before: int, after: int) -> str:
    """Brief somebody with what came with the answer."""
    return act(ctx, before, after)


@requires_confirmation(editable=True)
@tool
def amend(ctx: ToolContext, before: int, after: int) -> str:
    """Pay what a reviewer may change."""
    return act(ctx, before, after)


@tool
def stumble(ctx: ToolContext, before: int, after: int) -> str:
    """Act, and then fail."""
    act(ctx, before, after)
    raise ValueError("stumbled")


@requires_confirmation
@tool
def refuse(ctx: ToolContext, before: int, after: int) -> str:
    """Act, and then fail although it was allowed."""
    act(ctx, before, after)
    raise ValueError("refused")


def begin_or_go_on(ctx: ToolContext, before: int, after: int) -> Any:
    """Begin a job once; resumed, leave a line that says with what, and return it."""
    key = str(ctx.tool_call_id)
    if ctx.resumed:
        payload = ctx.approval.payload if ctx.approval is not None else None
        is_late = ctx.approval is None
        ledger.effects().write("resumed", call=key, late=is_late, payload=payload)
        return "late" if is_late else payload
    ledger.effects().write(
        "begun", call=key, thread=str(ctx.thread_id), address=ctx.resume_url, way=jobs.way(key)
    )
    act(ctx, before, after)
    raise park_for_input(reason="job", payload={"way": jobs.way(key)}, ttl=jobs.ttl(key))


@tool
def render(ctx: ToolContext, before: int, after: int) -> Any:
    """Have something rendered elsewhere."""
    return begin_or_go_on(ctx, before, after)


@requires_confirmation(on_doubt="retry")
@tool(name="print")
def print_out(ctx: ToolContext, before: int, after: int) -> Any:
    """Have something printed elsewhere, once somebody allowed it."""
    return begin_or_go_on(ctx, before, after)


@tool
def misfit(ctx: ToolContext, before: int) -> str:
    """Take other arguments than the model gives."""
    return act(ctx, before, 0)


@tool
def poison(ctx: ToolContext, before: int, after: int) -> str:
    """Take the process down with it."""
    act(ctx, before, after)
    os._exit(POISONED)


def reply(request: Request) -> Any:
    """Return the turn that follows from the request, or fail as its script says."""
    time.sleep(random.uniform(0, MODEL_SECONDS_MAX))
    newest = max(at for at, each in enumerate(request.messages) if isinstance(each, UserMessage))
    step = sum(isinstance(each, AssistantMessage) for each in request.messages[newest:])
    script = scripts.parse(request.messages[newest].text)  # type: ignore[union-attr]
    _fail_for_a_while(script, step)
    if step >= len(script.words):
        return GOODBYE
    if script.words[step] == scripts.GONE:
        raise ModelRefused("this model is no more")
    turn: list[Any] = ["Be careful now."] if scripts.is_careful(script.reference, step) else []
    for index, (letter, below) in enumerate(scripts.calls(script.words[step])):
        if letter in AGENTS:
            told = scripts.instructions(script.reference, step, index, below)
            turn.append(call(DELEGATE + AGENTS[letter], instructions=told))
            continue
        before, after = scripts.pauses(script.reference, step, index)
        turn.append(call(KINDS[letter].name, before=before, after=after))
    return turn


def _fail_for_a_while(script: scripts.Script, step: int) -> None:
    times = script.down.get(step, 0)
    if not times:
        return
    place = f"{script.reference} {step}"
    seen = sum(line["place"] == place for line in ledger.effects().lines("turned away"))
    if seen < times:
        ledger.effects().write("turned away", place=place)
        raise ModelUnavailable("503: try again later")


TOOLS = [look, ring, note, pay, post, mail, brief, stumble, refuse, misfit, poison]
TOOLS += [render, print_out, amend, errand.as_tool(name="errand")]
# Nobody need answer the hasty one in time; the patient one waits until somebody does.
for name, ttl in (("hasty", "3s"), ("patient", "1h")):
    Agent(
        name,
        model=ScriptedModel(reply),
        tools=TOOLS,
        ttl=ttl,
        subagents=AGENTS.values(),
        max_steps=STEPS_MAX,
    )
