"""Workflows whose steps write their effects to the file of `agents.py`."""

from typing import Any

from agents.workflows import StepContext, define_hook, gather, race, request_approval, sleep, step
from agents.workflows import workflow as define
from tests.acceptance.app.agents import note, wait_for_release

reply = define_hook("acceptance.reply")


@step(name="acceptance.mark")
def mark(reference: str, what: str) -> str:
    note(what, reference)
    return what


@step(name="acceptance.hold")
async def hold(ctx: StepContext, reference: str, what: str) -> str:
    note(f"{what} begins", reference)
    wait_for_release(reference)
    note(f"{what} ends", reference)
    return what


@step(name="acceptance.flaky", backoff="200ms")
def flaky(ctx: StepContext, reference: str) -> int:
    note(f"attempt {ctx.attempt}", reference)
    if ctx.attempt == 1:
        raise ValueError("not yet")
    return ctx.attempt


@define(name="acceptance.passage")
async def passage(reference: str) -> Any:
    first = await mark(reference, "first")
    together = await gather(mark(reference, "left"), mark(reference, "right"), flaky(reference))
    decision = await request_approval("go on", {"reference": reference})
    hook = reply.create(token=reference)
    winner = await race(hook, sleep("1h"))
    return [first, together, decision.status, winner.index, winner.value]


@define(name="acceptance.nap")
async def nap(reference: str) -> str:
    await sleep("500ms")
    return await mark(reference, "awake")


@define(name="acceptance.holding")
async def holding(reference: str) -> Any:
    before = await mark(reference, "before")
    return [before, await gather(hold(reference, "left"), hold(reference, "right"))]
