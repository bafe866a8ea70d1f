"""A small cast of workflows whose steps leave one line each outside of the database.

What a body returns names what it was told, so that the verdict can compare it with the rows. A step
that is given up is a text in the result and no failure of its run, but for `brittle`.
"""

import os
import time
import zlib
from typing import Any

from agents.workflows import (
    AgentFailed,
    RetryableError,
    StepContext,
    StepFailed,
    define_hook,
    gather,
    now,
    race,
    random,
    request_approval,
    run_agent,
    sleep,
    step,
    uuid4,
    workflow,
)
from tests.chaos import ledger, scripts
from tests.chaos.plans import PATIENCE

DONE = "done"
RUNG_SECONDS = "2s"
LETTERS_MAX = 4

reply_hook = define_hook("reply")
letter_hook = define_hook("letter")


def act(ctx: StepContext, about: str) -> str:
    """Wait, do the one thing that cannot be undone, and wait."""
    before, after = scripts.pauses(ctx.idempotency_key, 0, 0)
    time.sleep(before / 1000)
    ledger.effects().write(
        "acted",
        entry=ctx.idempotency_key.rpartition(":")[2],
        run=str(ctx.run_id),
        key=ctx.idempotency_key,
        attempt=ctx.attempt,
        about=about,
    )
    time.sleep(after / 1000)
    return DONE


def fail_for_a_while(about: str, times: int) -> None:
    """Fail so often before the first effect; how often it was stands in the file of effects."""
    seen = sum(line["place"] == about for line in ledger.effects().lines("turned away"))
    if seen < times:
        ledger.effects().write("turned away", place=about)
        raise RetryableError("come again later", retry_after="300ms")


@step(name="chaos.look_up", retries=5)
def look_up(ctx: StepContext, about: str) -> str:
    """Look something up at a place that is out of order now and then."""
    fail_for_a_while(about, zlib.crc32(about.encode()) % 3)
    return act(ctx, about)


@step(name="chaos.charge", on_doubt="ask")
def charge(ctx: StepContext, about: str) -> str:
    """Take money, which is not done twice."""
    return act(ctx, about)


@step(name="chaos.stamp", on_doubt="fail")
async def stamp(ctx: StepContext, about: str) -> str:
    """Put a stamp on a paper that is thrown away when nobody knows whether it has one."""
    return act(ctx, about)


@step(name="chaos.crack", retries=0)
def crack(ctx: StepContext, about: str) -> str:
    """Break the first time, and the run with it."""
    fail_for_a_while(about, 1)
    return act(ctx, about)


@step(name="chaos.poison")
def poison(ctx: StepContext, about: str) -> str:
    """Take the process down with it."""
    act(ctx, about)
    os._exit(scripts.POISONED)


POLICIES = {
    each.name: str(each.policy.on_doubt) for each in (look_up, charge, stamp, crack, poison)
}
STEPS = (look_up, charge, stamp)


async def attempt(call: Any) -> str:
    """Await a step; one that failed or was given up is a text."""
    try:
        return str(await call)
    except StepFailed as error:
        return f"failed: {error}"


@workflow(name="chaos.refund")
async def refund(reference: str, ttl: str) -> dict[str, Any]:
    """A gate, then a step."""
    decision = await request_approval("refund", {"reference": reference}, timeout=ttl)
    if not decision.approved:
        return {"decision": decision.status, "late": decision.timed_out}
    return {"decision": decision.status, "paid": await attempt(charge(reference))}


@workflow(name="chaos.fan")
async def fan(reference: str, width: int) -> list[str]:
    """Steps that run apart."""
    calls = [STEPS[number % len(STEPS)](f"{reference}.{number}") for number in range(width)]
    return list(await gather(*map(attempt, calls)))


@workflow(name="chaos.reply")
async def reply(reference: str) -> dict[str, Any]:
    """A hook against a clock and a person; whoever loses is closed."""
    hook = reply_hook.create(token=reference)
    asked = await attempt(look_up(reference))
    gate = request_approval("remind", {"reference": reference}, timeout=PATIENCE)
    winner = await race(hook, sleep("4s"), gate)
    told = {0: lambda came: came["word"], 2: lambda came: came.status}.get(winner.index, str)
    filed = await attempt(stamp(f"{reference} filed"))
    return {"asked": asked, "way": winner.index, "told": told(winner.value), "filed": filed}


@workflow(name="chaos.ladder")
async def ladder(reference: str, rungs: int) -> dict[str, Any]:
    """One person after the other is asked; at the last rung silence is a yes."""
    for rung in range(rungs):
        decision = await request_approval(
            "climb",
            {"reference": reference, "rung": rung},
            timeout=RUNG_SECONDS,
            fallback="approve" if rung == rungs - 1 else "reject",
        )
        if not decision.timed_out or decision.approved:
            done = await attempt(look_up(reference)) if decision.approved else ""
            return {"rung": rung, "decision": decision.status, "done": done}
    raise AssertionError("the last rung decides")


@workflow(name="chaos.nap")
async def nap(reference: str) -> dict[str, Any]:
    """Sleeps and values that are recorded."""
    begun, drawn, named = now(), random(), uuid4()
    await sleep("1s")
    done = await attempt(charge(reference))
    return {"begun": begun.isoformat(), "drawn": drawn, "named": str(named), "done": done}


@workflow(name="chaos.both")
async def both(reference: str, till: str) -> dict[str, Any]:
    """Two gates at once; the second needs a key that one wait at a time may hold."""
    left, right = await gather(
        request_approval("left", {"reference": reference}, timeout=PATIENCE),
        request_approval("right", {"reference": reference}, timeout="6s", token=till),
    )
    return {"left": left.status, "right": right.status, "conflict": right.conflict}


@workflow(name="chaos.consult")
async def consult(reference: str, message: str) -> dict[str, Any]:
    """An agent's run, between two steps."""
    before = await attempt(look_up(f"{reference} before"))
    try:
        said = await run_agent("patient", message)
    except AgentFailed:
        said = "failed"
    return {"before": before, "said": said, "after": await attempt(charge(f"{reference} after"))}


@workflow(name="chaos.brittle")
async def brittle(reference: str) -> str:
    """A run that fails, until somebody lets it go on."""
    done: str = await crack(reference)
    return done


@workflow(name="chaos.poisoned")
async def poisoned(reference: str) -> str:
    """A run that ends whatever worker takes its step."""
    return await attempt(poison(reference))


@workflow(name="chaos.errand")
async def errand(before: int, after: int) -> dict[str, Any]:
    """What an agent's tool starts: a step on each side of a short sleep, and perhaps a gate."""
    first = await attempt(look_up(f"errand {before}"))
    await sleep("500ms")
    decision = await request_approval("errand", {"before": before}, timeout=RUNG_SECONDS)
    return {"first": first, "allowed": decision.status, "last": await attempt(stamp(str(after)))}


@workflow(name="chaos.mail")
async def mail(thread: str, event: str) -> dict[str, Any]:
    """Letters of one thread: each is answered, until none has come for a while."""
    answers = {event: await attempt(charge(event))}
    hook = letter_hook.create(token=thread)

    async def next_letter() -> Any:
        return await anext(hook)

    for _ in range(LETTERS_MAX):
        winner = await race(next_letter(), sleep("2s"))
        if winner.index == 1:
            break
        came = winner.value["event"]
        answers[came] = await attempt(charge(came))
    hook.close()
    await attempt(stamp(f"{thread} closed"))  # what came until here can still be read
    async for came in hook:
        if came["event"] not in answers:
            answers[came["event"]] = await attempt(charge(came["event"]))
    return answers
