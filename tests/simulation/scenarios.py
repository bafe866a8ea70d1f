"""The scenarios of the crash loop: acts that may be repeated, and what must have come of them.

After a crash the acts are played again from the first, as people and programs do that got no reply:
each looks at the rows for what is left to do, or is refused because it was done already.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import hitl
from agents import agent, threads
from agents.guardrails import rulebook
from agents.models import GuardrailRule, Run, Thread, ToolCall
from agents.states import FINAL, Outcome, RunStatus
from agents.testing import run_worker
from hitl import clock, sweeping
from hitl.models import EarlyAnswer, Park
from hitl.states import ParkStatus, Reason
from tests.simulation.journal import AGENT, Journal, tell_farm


@dataclass
class Stage:
    """One scenario being played: its thread, and how questions about a call in doubt are answered.

    With `truthful` whoever is asked looks into the journal and says what happened; without, they
    give the call up.
    """

    journal: Journal
    message: str
    truthful: bool = True
    doubts: list[str] = field(default_factory=list)

    @property
    def thread(self) -> Thread | None:
        return Thread.objects.order_by("id").last()

    def runs(self) -> list[Run]:
        return list(Run.objects.order_by("number"))

    def call(self, index: int = 0) -> ToolCall:
        """Return the gated call of this place in the newest run."""
        calls = ToolCall.objects.filter(run=self.runs()[-1], gated=True)
        return calls.order_by("step__number", "index")[index]

    def park(self, index: int = 0) -> Park:
        """Return the request about that call."""
        return Park.objects.get(key=str(self.call(index).id), reason=Reason.APPROVAL)

    def job(self) -> Park:
        """Return what the newest run waits for elsewhere, as it stands."""
        return Park.objects.get(waiter_id=self.runs()[-1].id, reason="job")

    def settle_doubts(self) -> bool:
        """Answer every open question about a call in doubt; True when there was one."""
        found = list(Park.objects.pending().filter(reason=Reason.IN_DOUBT))
        for park in found:
            self.doubts.append(park.subject)
            if not self.truthful:
                hitl.decide(park.id, False, actor="ana")
            elif self.journal.effects()[park.subject]:
                hitl.decide(park.id, True, payload="it happened", actor="ana")
            else:
                hitl.decide(park.id, True, actor="ana")
        return bool(found)


Act = Callable[[Stage], None]


def guard(where: str, action: str, words: str = "") -> Act:
    """Write a guardrail: on these words, or on addresses; once."""

    def act(stage: Stage) -> None:
        if not GuardrailRule.objects.filter(name=where).exists():
            rulebook.create(
                name=where,
                where=where,
                check="words" if words else "personal_data",
                settings={"words": [words]} if words else {"kinds": ["email"]},
                action=action,
            )

    return act


def release(approved: bool, index: int = 0) -> Act:
    """Decide about what a guardrail holds, and again if need be: only the first time counts."""

    def act(stage: Stage) -> None:
        before = Park.objects.filter(reason=Reason.GUARDRAIL).order_by("id")[index]
        result = hitl.decide(before.id, approved, actor="ana")
        assert result.delivered == before.is_pending

    return act


def start(stage: Stage) -> None:
    if stage.thread is None and not Park.objects.exists():
        threads.start(AGENT, stage.message)


def work(stage: Stage) -> None:
    """Do what is owed; whoever is asked about a call in doubt answers at once."""
    run_worker()
    while stage.settle_doubts():
        run_worker()


def answer(approved: bool, index: int = 0) -> Act:
    """Answer the request about one call, and again if need be: only the first time counts."""

    def act(stage: Stage) -> None:
        before = stage.park(index)
        result = hitl.respond(before.scope, before.key, approved, reason="because", actor="ana")
        after = stage.park(index)
        assert result.delivered == before.is_pending
        if not result.delivered:
            assert result.code in ("already_answered", "moved_on", "expired")
            assert (after.status, after.settled_at) == (before.status, before.settled_at)

    return act


def finish_job(stage: Stage) -> None:
    """Post to the address of the job, and again if need be: only the first time counts."""
    before = stage.job()
    assert tell_farm(before.arguments["notify"]) == before.is_pending
    after = stage.job()
    assert after.status == (ParkStatus.APPROVED if before.is_pending else before.status)


def let_the_job_expire(stage: Stage) -> None:
    if stage.job().is_pending:
        clock.advance(minutes=31)
        sweeping.sweep()


def let_it_expire(stage: Stage) -> None:
    if stage.park().is_pending:
        clock.advance(minutes=16)
        sweeping.sweep()


def sweep(stage: Stage) -> None:
    sweeping.sweep()
    assert not EarlyAnswer.objects.exists()


def let_it_expire_in_a_step(stage: Stage) -> None:
    if stage.park().is_pending:
        clock.advance(minutes=16)
        sweeping.settle_step()


def wait(stage: Stage) -> None:
    """Let the time pass after which a passing failure of the model is retried."""
    if stage.runs()[-1].status == RunStatus.WAITING:
        clock.advance(seconds=20)


def work_before_the_deploy(stage: Stage) -> None:
    """Do what is owed in a worker that does not know the agent yet, and let the pause pass."""
    known = agent._agents.pop(AGENT)
    try:
        run_worker()
    finally:
        agent._agents[AGENT] = known
    if stage.runs()[-1].status == RunStatus.WAITING:
        clock.advance(seconds=31)


def stop(stage: Stage) -> None:
    assert stage.thread is not None
    is_over = stage.runs()[-1].status in FINAL
    assert threads.stop(stage.thread, reason="enough", actor="ana") is not is_over


def delete(stage: Stage) -> None:
    if stage.thread is not None:
        threads.delete(stage.thread)


def edit(message: str) -> Act:
    def act(stage: Stage) -> None:
        [first, *later] = stage.runs()
        if not later:
            threads.edit(first.thread_id, first.id, message)

    return act


def supersede(message: str) -> Act:
    def act(stage: Stage) -> None:
        [first, *later] = stage.runs()
        if not later:
            threads.send(first.thread_id, message, supersede=True)

    return act


@dataclass(frozen=True)
class Scenario:
    """What is played, and what has come of it when nothing crashed.

    `ends` are the statuses of the runs, `outcomes` those of the calls in order, `effects` how often
    a tool acted, `asked` how often a model replied.
    """

    name: str
    message: str
    acts: Sequence[Act]
    ends: Sequence[str]
    outcomes: Sequence[Outcome]
    effects: int
    asked: int
    may_end: frozenset[str] = frozenset()
    """Statuses that the newest run may also end in when a crash has shifted the order of things."""
    crashes_in: tuple[int, int | None] = (0, None)
    """The acts in which something crashes; in the others it does in another scenario."""
    hands_back: bool = False
    """Whether the worker shuts down all the time, so that a segment ends at its first boundary."""

    def play(self, stage: Stage, first: int = 0, last: int | None = None) -> None:
        """Play the acts from `first` up to `last`; those that are done already do nothing."""
        for act in self.acts[first:last]:
            act(stage)

    def __str__(self) -> str:
        return self.name


OK, ERROR, DENIED, TIMED_OUT = Outcome.OK, Outcome.ERROR, Outcome.DENIED, Outcome.TIMED_OUT
STOPPED, UNKNOWN = Outcome.STOPPED, Outcome.UNKNOWN

SCENARIOS = (
    Scenario(
        "park, approve, finish",
        "one gated",
        (start, work, answer(True), work),
        ends=["COMPLETED"],
        outcomes=[OK],
        effects=1,
        asked=2,
    ),
    Scenario(
        "park, deny",
        "one gated",
        (start, work, answer(False), work),
        ends=["COMPLETED"],
        outcomes=[DENIED],
        effects=0,
        asked=2,
        crashes_in=(2, None),
    ),
    Scenario(
        "park, expire, finish",
        "one gated",
        (start, work, let_it_expire, work, answer(True), work),
        ends=["COMPLETED"],
        outcomes=[TIMED_OUT],
        effects=0,
        asked=2,
        crashes_in=(2, 4),
    ),
    Scenario(
        "two calls, one gated",
        "one gated, one free",
        (start, work, answer(True), work),
        ends=["COMPLETED"],
        outcomes=[OK, OK],
        effects=2,
        asked=2,
    ),
    Scenario(
        "two gated calls",
        "two gated",
        (start, work, answer(True, 1), work, answer(True, 0), work),
        ends=["COMPLETED"],
        outcomes=[OK, OK],
        effects=2,
        asked=2,
        crashes_in=(2, None),
    ),
    Scenario(
        "two gated calls, one denied",
        "two gated",
        (start, work, answer(False, 0), answer(True, 1), work),
        ends=["COMPLETED"],
        outcomes=[DENIED, OK],
        effects=1,
        asked=2,
        crashes_in=(2, 4),
    ),
    Scenario(
        "approve, then stop",
        "one gated",
        (start, work, answer(True), stop, work),
        ends=["CANCELLED"],
        outcomes=[STOPPED],
        effects=0,
        asked=1,
        crashes_in=(2, None),
        may_end=frozenset({"COMPLETED"}),
    ),
    Scenario(
        "stop, then approve",
        "one gated",
        (start, work, stop, answer(True), work),
        ends=["CANCELLED"],
        outcomes=[STOPPED],
        effects=0,
        asked=1,
        crashes_in=(2, None),
    ),
    Scenario(
        "stopped while a tool runs",
        "stopped in a tool",
        (start, work),
        ends=["CANCELLED"],
        outcomes=[OK, STOPPED],
        effects=1,
        asked=1,
    ),
    Scenario(
        "model fails with 429, retried",
        "busy",
        (start, work, wait, work, wait, work, answer(True), work),
        ends=["COMPLETED"],
        outcomes=[OK],
        effects=1,
        asked=2,
        crashes_in=(0, 5),
    ),
    Scenario(
        "park, expire in a step, finish",
        "one gated",
        (start, work, let_it_expire_in_a_step, work, answer(True), work),
        ends=["COMPLETED"],
        outcomes=[TIMED_OUT],
        effects=0,
        asked=2,
        crashes_in=(2, 3),
    ),
    Scenario(
        "taken by an old worker first",
        "one gated",
        (start, work_before_the_deploy, work, answer(True), work),
        ends=["COMPLETED"],
        outcomes=[OK],
        effects=1,
        asked=2,
        crashes_in=(1, 3),
    ),
    Scenario(
        "edit while parked",
        "one gated",
        (start, work, edit("one gated, one free"), work, answer(True), work),
        ends=["CANCELLED", "COMPLETED"],
        outcomes=[STOPPED, OK, OK],
        effects=2,
        asked=3,
        crashes_in=(2, 4),
    ),
    Scenario(
        "supersede",
        "two gated",
        (start, work, answer(True, 0), supersede("one gated"), work, answer(True), work),
        ends=["CANCELLED", "COMPLETED"],
        outcomes=[STOPPED, STOPPED, OK],
        effects=1,
        asked=3,
        crashes_in=(3, 5),
    ),
    Scenario(
        "delete while parked",
        "one gated",
        (start, work, delete, work),
        ends=[],
        outcomes=[],
        effects=0,
        asked=1,
        crashes_in=(2, None),
    ),
    Scenario(
        "handed back at each boundary",
        "a long way",
        (start, work, answer(True), work),
        ends=["COMPLETED"],
        outcomes=[OK, OK],
        effects=2,
        asked=3,
        crashes_in=(0, 2),
        hands_back=True,
    ),
    Scenario(
        "job, finished elsewhere",
        "a job",
        (start, work, finish_job, work),
        ends=["COMPLETED"],
        outcomes=[OK],
        effects=1,
        asked=2,
    ),
    Scenario(
        "job, outlives its deadline",
        "a job",
        (start, work, let_the_job_expire, work, finish_job, work),
        ends=["COMPLETED"],
        outcomes=[OK],
        effects=1,
        asked=2,
        crashes_in=(2, 5),
    ),
    Scenario(
        "job, finished before it parks",
        "a fast job",
        (start, work),
        ends=["COMPLETED"],
        outcomes=[OK],
        effects=1,
        asked=2,
        crashes_in=(1, None),
    ),
    Scenario(
        "job, finished by a farm that nobody awaits",
        "a job that nobody awaits",
        (start, work, sweep),
        ends=["COMPLETED"],
        outcomes=[OK],
        effects=1,
        asked=2,
        crashes_in=(1, None),
    ),
    Scenario(
        "three levels deep, approve",
        "a deep gate",
        (start, work, answer(True), work),
        ends=["COMPLETED"],
        outcomes=[OK, OK, OK, OK],
        effects=1,
        asked=8,
        crashes_in=(2, None),
    ),
    Scenario(
        "three levels deep, deny",
        "a deep gate",
        (start, work, answer(False), work),
        ends=["COMPLETED"],
        outcomes=[OK, OK, OK, DENIED],
        effects=0,
        asked=8,
        crashes_in=(2, 3),
    ),
    Scenario(
        "three levels deep, expire",
        "a deep gate",
        (start, work, let_it_expire, work),
        ends=["COMPLETED"],
        outcomes=[OK, OK, OK, TIMED_OUT],
        effects=0,
        asked=8,
        crashes_in=(2, 3),
    ),
    Scenario(
        "a gate, a job and a delegation in one step",
        "all kinds",
        (start, work, answer(True, 1), finish_job, work, answer(True, 0), work),
        ends=["COMPLETED"],
        outcomes=[OK, OK, OK, OK],
        effects=3,
        asked=4,
        crashes_in=(6, None),
    ),
    Scenario(
        "a gate, a job and a delegation, stopped",
        "all kinds",
        (start, work, answer(True, 1), stop, finish_job, work),
        ends=["CANCELLED"],
        outcomes=[STOPPED, UNKNOWN, STOPPED, STOPPED],
        effects=1,
        asked=2,
        crashes_in=(1, 4),
    ),
    Scenario(
        "a child's model fails for good during the unwind",
        "a child that fails",
        (start, work, answer(True), work),
        ends=["COMPLETED"],
        outcomes=[OK, ERROR, OK],
        effects=1,
        asked=6,
        crashes_in=(3, None),
    ),
    Scenario(
        "held turn, approve, finish",
        "wait for it",
        (
            *(
                guard("input", "require_approval", "wait"),
                guard("output", "require_approval", "wait"),
            ),
            *(start, work, release(True, 0), work, release(True, 1), work),
        ),
        ends=["COMPLETED"],
        outcomes=[OK],
        effects=1,
        asked=2,
    ),
    Scenario(
        "redacted message, gate in a held reply, held last word",
        "hear ana@example.com",
        (
            *(guard("input", "redact"), guard("output", "require_approval", "wait")),
            *(start, work, release(True, 0), work, answer(True), work, release(True, 1), work),
        ),
        ends=["COMPLETED"],
        outcomes=[OK],
        effects=1,
        asked=2,
    ),
    Scenario(
        "held turn, deny",
        "say no",
        (guard("output", "require_approval", "wait"), start, work, release(False), work),
        ends=["FAILED"],
        outcomes=[STOPPED],
        effects=0,
        asked=1,
    ),
    Scenario(
        "refused message",
        "say no",
        (guard("input", "block", "no"), start, work),
        ends=["FAILED"],
        outcomes=[],
        effects=0,
        asked=0,
    ),
)


def named(name: str) -> Scenario:
    [found] = [scenario for scenario in SCENARIOS if scenario.name == name]
    return found
