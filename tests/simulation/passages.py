"""Passages through workflows from the start to the end, in acts that may be repeated.

Each act looks at the rows for what is left to do, as people and programs do that got no reply. What
the steps did is kept outside of the database, where no crash takes it back.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db import connection

import hitl
from agents import Agent, ToolContext, requires_confirmation, threads, tool
from agents.models import JournalEntry, Run, Thread, Trigger, TriggerDelivery
from agents.states import EntryState
from agents.testing import ScriptedModel, call, run_worker
from agents.workflows import (
    FatalError,
    RetryableError,
    StepContext,
    cancel,
    define_hook,
    gather,
    race,
    request_approval,
    retry,
    run_agent,
    sleep,
    step,
    workflow,
)
from hitl import clock, faults, sweeping
from hitl.models import CallbackDelivery, Decision, Park, Pulse, Seal
from hitl.states import Reason
from hitl.trail import append_only

did: Counter[str] = Counter()
done_before: list[str] = []
mended: list[bool] = []
deaths: list[str] = []
DEATH = "in the step"
reply = define_hook("passage.reply")


def act(ctx: StepContext) -> None:
    """Do what cannot be taken back, and note if its output was kept already."""
    key = ctx.idempotency_key
    entry = JournalEntry.objects.get(id=UUID(key.removeprefix("sayso:")))
    if entry.state == EntryState.DONE:
        done_before.append(entry.name)
    faults.point("effect:begun")
    did[key] += 1
    faults.point("effect:happened")


@step(name="passage.do", retries=1)
def do(ctx: StepContext, what: str) -> str:
    act(ctx)
    return f"{what} done"


@step(name="passage.once", on_doubt="ask")
def once(ctx: StepContext) -> str:
    act(ctx)
    return "done once"


@step(name="passage.deadly", on_doubt="ask")
def deadly(ctx: StepContext) -> str:
    act(ctx)
    if not deaths:
        deaths.append(DEATH)
        raise faults.Crash(DEATH)
    return "survived"


@step(name="passage.flaky", retries=5)
def flaky(ctx: StepContext) -> str:
    act(ctx)
    if did[ctx.idempotency_key] < 2:
        raise RetryableError("not yet", retry_after="10s")
    return "in the end"


@step(name="passage.broken")
def broken(ctx: StepContext) -> str:
    act(ctx)
    if not mended:
        raise FatalError("broken")
    return "mended"


@workflow(name="passage.refund")
async def refund() -> Any:
    decision = await request_approval("refund", {"amount": 9.5}, timeout="24h")
    if not decision.approved:
        return decision.status
    return [await do("refund"), await once()]


@workflow(name="passage.ask")
async def ask() -> Any:
    hook = reply.create(token="mail")
    await do("ask")
    winner = await race(hook, sleep("72h"), request_approval("answer for them"))
    return [winner.index, getattr(winner.value, "status", winner.value)]


@workflow(name="passage.chat")
async def chat() -> Any:
    said = []
    async for word in reply.create(token="room"):
        said.append(await do(word))
        if word == "bye":
            break
    return said


@workflow(name="passage.dies")
async def dies() -> Any:
    return await deadly()


@workflow(name="passage.several")
async def several() -> Any:
    return await gather(flaky(), once())


@workflow(name="passage.waits")
async def waits() -> Any:
    first = await flaky()
    await sleep("1h")
    return first


@workflow(name="passage.fails")
async def fails() -> Any:
    winner = await race(request_approval("never", token="held"), broken())
    return winner.value


@workflow(name="passage.parent")
async def parent() -> Any:
    return await run_agent("passage-clerk", "one gated")


@workflow(name="passage.child")
async def child(amount: float) -> Any:
    """Pay this amount."""
    decision = await request_approval("pay", {"amount": amount})
    return {"paid": decision.approved}


@requires_confirmation(on_doubt="retry")
@tool
def send(ctx: ToolContext, to: str) -> str:
    """Send a letter."""
    return f"sent to {to}"


def enrol() -> None:
    """Define the agents of the passages, as a new process does."""
    Agent(
        "passage-clerk",
        model=ScriptedModel(lambda request: _says(request, call("send", to="ana"))),
        tools=[send],
    )
    Agent(
        "passage-cashier",
        model=ScriptedModel(lambda request: _says(request, call("passage_child", amount=9.5))),
        tools=[child.as_tool(name="passage_child")],
    )


def _says(request: Any, first: Any) -> Any:
    return "Done." if len(request.messages) > 1 else [first]


# ── Acts ─────────────────────────────────────────────────────────────────────────────────────────


def work() -> None:
    """Do what is owed; whoever is asked about a step in doubt says what happened."""
    run_worker(always_replay=False)
    while doubts := list(Park.objects.pending().filter(reason=Reason.IN_DOUBT)):
        for park in doubts:
            happened = did[f"sayso:{park.metadata['entry']}"]
            answer = {"payload": "done once"} if happened else {}
            hitl.decide(park.id, True, actor="ana", **answer)
        run_worker(always_replay=False)


def work_until_death() -> None:
    """Do what is owed, in a worker that dies in the middle of a step."""
    try:
        work()
    except faults.Crash as crash:
        if crash.args != (DEATH,):
            raise
        connection.close()
        clock.advance(seconds=7)


def approve(topic: str) -> Callable[[], None]:
    def approving() -> None:
        for park in Park.objects.pending().filter(topic=topic, reason=Reason.APPROVAL):
            hitl.decide(park.id, True, actor="ana")

    return approving


def say(token: str, word: str) -> Callable[[], None]:
    """Resume a hook with a word; whoever got no reply looks whether it came."""

    def saying() -> None:
        if not JournalEntry.objects.filter(kind="hook", result=word).exists():
            assert reply.resume(token, word).delivered

    return saying


def wait(**by: float) -> Callable[[], None]:
    def waiting() -> None:
        clock.advance(**by)
        sweeping.sweep()

    return waiting


def start(flow: Any, **given: Any) -> Callable[[], None]:
    return lambda: flow.start(**given, idempotency_key="passage") and None


def start_cashier() -> None:
    if not Thread.objects.exists():
        threads.start("passage-cashier", "Pay 9.5")


def mend() -> None:
    mended.append(True)
    run = Run.objects.get(target="passage.fails")
    if run.status == "FAILED":
        retry(run)


def cancel_it() -> None:
    cancel(Run.objects.get(kind="workflow"), reason="enough")


@dataclass
class Passage:
    """What is played, and what has come of it: the status and output of the workflow's run."""

    name: str
    acts: Sequence[Callable[[], None]]
    output: Any
    status: str = "COMPLETED"
    effects: int = 0
    others: dict[str, str] = field(default_factory=dict)

    def play(self) -> None:
        """Do all of it; what is done already does nothing."""
        for one in self.acts:
            one()

    def judge(self, crashes: int) -> None:
        """It came to its end, and nothing ran again whose output was kept."""
        run = Run.objects.get(kind="workflow")
        assert (run.status, run.output) == (self.status, self.output), run.error
        assert not done_before, f"ran again although it was kept: {done_before}"
        assert self.effects <= did.total() <= self.effects + crashes
        for target, status in self.others.items():
            assert Run.objects.get(target=target).status == status
        assert not Park.objects.pending().exists()
        for entry in JournalEntry.objects.filter(name__in=["passage.once", "passage.deadly"]):
            assert did[f"sayso:{entry.id}"] == 1, "asked about, and done again"

    def __str__(self) -> str:
        return self.name


PASSAGES = (
    Passage(
        "refund",
        (start(refund), work, approve("refund"), work),
        ["refund done", "done once"],
        effects=2,
    ),
    Passage(
        "ask, and an answer wins the race",
        (start(ask), work, say("mail", "yes"), work, wait(hours=80), work),
        [0, "yes"],
        effects=1,
    ),
    Passage(
        "ask, and the time wins the race",
        (start(ask), work, wait(hours=80), work),
        [2, "rejected"],
        effects=1,
    ),
    Passage(
        "chat",
        (start(chat), work, say("room", "a"), say("room", "b"), work, say("room", "bye"), work),
        ["a done", "b done", "bye done"],
        effects=3,
    ),
    Passage(
        "a worker that dies in a step",
        (start(dies), work_until_death, work),
        "done once",
        effects=1,
    ),
    Passage(
        "several steps apart",
        (start(several), work, wait(minutes=2), work),
        ["in the end", "done once"],
        effects=3,
    ),
    Passage(
        "a step tried again, and a sleep",
        (start(waits), work, wait(minutes=1), work, wait(hours=2), work),
        "in the end",
        effects=2,
    ),
    Passage(
        "a failure, mended and retried",
        (start(fails), work, mend, work),
        "mended",
        effects=2,
    ),
    Passage(
        "an agent for a workflow",
        (start(parent), work, approve("send"), work),
        "Done.",
        others={"passage-clerk": "COMPLETED"},
    ),
    Passage(
        "cancelled, with its agent",
        (start(parent), work, cancel_it, work),
        None,
        status="CANCELLED",
        others={"passage-clerk": "CANCELLED"},
    ),
    Passage(
        "a workflow for an agent",
        (start_cashier, work, approve("pay"), work),
        {"paid": True},
        others={"passage-cashier": "COMPLETED"},
    ),
)


def fresh() -> None:
    """Empty the database and what is known outside of it."""
    with append_only.lifted():
        Decision.objects.all().delete()
        Seal.objects.all().delete()
    CallbackDelivery.objects.all().delete()
    Park.objects.all().delete()
    Pulse.objects.all().delete()
    TriggerDelivery.objects.all().delete()
    Trigger.objects.all().delete()
    Run.objects.filter(kind="workflow").delete()
    Thread.objects.all().delete()
    did.clear()
    done_before.clear()
    mended.clear()
    deaths.clear()
    enrol()


def restart() -> None:
    """Come back as a new process does, once the lease of the dead one has lapsed."""
    enrol()
    clock.advance(seconds=7)
    sweeping.sweep()
    work_until_death()
    work()
