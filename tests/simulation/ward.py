"""One thread with everything that may happen to it, and what must hold whatever happens.

Messages are delivered late, twice, in any order or never; people answer, cancel, stop, edit and
supersede; jobs finish before, while or after they are waited for; agents leave the code; time
passes; workers die at any fault point. Everything is drawn from one `Random`, so a seed, or
Hypothesis, decides it all.

After each act what is cheap to look at is looked at; everything is looked at after so many acts,
and in the end.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from random import Random
from typing import Any
from uuid import UUID

from django.db import connection, transaction

import hitl
from agents import ToolContext, agent, park_for_input, threads
from agents import segments as worker
from agents.models import Run, Step, Thread, ToolCall
from agents.states import FINAL, Phase
from agents.testing import run_worker
from hitl import answers, clock, deadlines, faults, hints, parks, resuming, sweeping
from hitl.audit import Actor
from hitl.models import EarlyAnswer, Park
from hitl.states import Reason
from tests import invariants, stream
from tests.simulation import cast, glance

FAULTS_MAX = 16
ACTS_MAX = 25
ROUNDS_MAX = 80


class Ward:
    """One thread, one fake broker, and what was seen of the world outside the database."""

    def __init__(self, random: Random, broker: list[tuple[str, str]]) -> None:
        self.random = random
        self.broker = broker
        self.trail: list[str] = []
        self.ran: Counter[str] = Counter()
        self.again: Counter[str] = Counter()
        self.failed: set[str] = set()
        self.accepted: dict[UUID, str] = {}
        self.addresses: dict[str, str] = {}
        self.kept: dict[str, Any] = {}
        self.view = stream.View()
        self.guest = cast.enter(self)
        with self.sending():
            self.thread = threads.start("ward", json.dumps(cast.script(random)))

    # ── What tools do, and what must hold when they do it ────────────────────────────────────────

    def did(self, ctx: ToolContext) -> str:
        """Count one effect; it may not come while the run waits, nor without a yes (A4, S1)."""
        key = str(ctx.tool_call_id)
        row = ToolCall.objects.get(id=key)
        assert row.phase == Phase.CLAIMED
        assert not Park.objects.pending().filter(waiter_id=row.run_id).exists(), "it ran too early"
        if row.gated:
            assert ctx.approval is not None, f"{row.tool_name} ran without a yes"
        self.ran[key] += 1
        if row.gated and row.on_doubt == "ask":
            assert self.ran[key] <= 1 + self.again[key], f"{row.tool_name} ran twice"
        return row.tool_name

    def did_job(self, ctx: ToolContext, *, is_quick: bool = False) -> Any:
        """Begin a job once, and resume with the one answer that counted (J1, J2, J5)."""
        key = str(ctx.tool_call_id)
        asked = ToolCall.objects.get(id=key).asked
        assert ctx.resumed == (asked is not None), "a job is begun once, then resumed"
        if ctx.resumed:
            [park] = [park for park in Park.objects.filter(key=key) if park.is_job]
            expired = park.status == "timed_out"
            assert (ctx.approval is None) == expired, f"resumed with {ctx.approval}, {park.status}"
            if key in self.kept:
                assert ctx.approval is not None, "an answer that was taken was dropped"
                assert ctx.approval.payload == self.kept[key]
            return "late" if ctx.approval is None else ctx.approval.payload
        self.did(ctx)
        self.addresses[key] = ctx.resume_url.rstrip("/").rsplit("/", 1)[-1]
        if is_quick:
            self._post(key, "quick")
        raise park_for_input(payload={"n": self.ran[key]}, ttl="30m")

    def _post(self, key: str, payload: str) -> None:
        """Do what the webhook does with a job's address."""
        meant = resuming.read(self.addresses[key])
        assert meant is not None
        was_open = Park.objects.pending().filter(key=key).first()
        given = answers.read(True, Actor("farm", "webhook"), payload=payload)
        answer = parks.resume(*meant, given)
        if not answer.delivered:
            return
        if was_open is not None:
            self.note(was_open, answer, "approved", again=False)
        if was_open is None or was_open.is_job:
            assert key not in self.kept, "two results were taken for one job"
            self.kept[key] = payload

    # ── Helpers ──────────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def sending(self) -> Iterator[None]:
        """Run what would run on commit, with the broker a list."""
        queued = len(connection.run_on_commit)
        yield
        callbacks = connection.run_on_commit[queued:]
        del connection.run_on_commit[queued:]
        for entry in callbacks:
            entry[1]()

    def current(self) -> Run:
        fresh = Thread.objects.select_related("current_run").get(id=self.thread.id)
        assert fresh.current_run is not None
        return fresh.current_run

    def open(self) -> list[Park]:
        return list(Park.objects.pending().cards().order_by("id"))

    def handle(self, message: tuple[str, str]) -> None:
        task, argument = message
        if task == "agents.segment":
            worker.run_segment(UUID(argument), keep_alive=False)
        elif task == deadlines.EXPIRE:
            sweeping.expire(UUID(argument))

    def note(self, park: Park, answer: hitl.Answer, status: str, *, again: bool) -> None:
        if answer.delivered:
            assert park.id not in self.accepted, "two answers were accepted for one request"
            self.accepted[park.id] = status
            if again and park.reason == Reason.IN_DOUBT:
                self.again[park.subject] += 1

    # ── Acts ─────────────────────────────────────────────────────────────────────────────────────

    def deliver(self) -> None:
        """Deliver any message, and perhaps leave it there to come again."""
        place = self.random.randrange(len(self.broker))
        keep = self.random.randint(0, 3) == 0
        message = self.broker[place] if keep else self.broker.pop(place)
        with self.sending():
            self.handle(message)

    def die(self) -> None:
        """Deliver a message to a worker that dies at the n-th fault point it passes."""
        message = self.random.choice(self.broker)
        nth = self.random.randint(1, FAULTS_MAX)
        queued = len(connection.run_on_commit)
        with faults.armed(faults.CrashAt(nth)), suppress(faults.Crash):
            self.handle(message)
        del connection.run_on_commit[queued:]  # what was to be sent died with the process

    def lose(self) -> None:
        self.broker.clear()

    def respond(self) -> None:
        park = self.random.choice(self.open())
        approved = self.random.randint(0, 2) > 0
        payload = self.random.choice([parks.UNSET, parks.UNSET, "by hand"])
        with self.sending():
            answer = hitl.respond(self.thread.id, park.key, approved, payload=payload, actor="ana")
        runs_again = approved and payload is parks.UNSET
        self.note(park, answer, "approved" if approved else "rejected", again=runs_again)

    def post(self) -> None:
        """Let a job finish that was begun: awaited already, not yet, or not any more."""
        with self.sending():
            self._post(self.random.choice(list(self.addresses)), f"post {len(self.trail)}")

    def respond_again(self) -> None:
        request_id = self.random.choice(list(self.accepted))
        assert not hitl.decide(request_id, self.random.randint(0, 1) == 1).delivered

    def cancel(self) -> None:
        park = self.random.choice(self.open())
        with self.sending():
            answer = parks.cancel(park.id, actor="ana", channel="python")
        self.note(park, answer, "cancelled", again=False)

    def stop(self) -> None:
        with self.sending():
            threads.stop(self.thread)

    def send(self) -> None:
        text, supersede = json.dumps(cast.script(self.random)), self.random.randint(0, 1) == 1
        with self.sending(), suppress(threads.ThreadBusy):
            threads.send(self.thread, text, supersede=supersede)

    def edit(self) -> None:
        kept = list(Run.objects.filter(dropped_at__isnull=True).order_by("number"))
        run, text = self.random.choice(kept), json.dumps(cast.script(self.random))
        with self.sending(), suppress(threads.ThreadBusy):
            threads.edit(self.thread, run.id, text)

    def tick(self) -> None:
        clock.advance(seconds=self.random.choice([1, 7, 60, 1000]))

    def sweep(self) -> None:
        with self.sending():
            sweeping.sweep()

    def reclaim(self) -> None:
        with self.sending():
            hitl.reclaim_if_orphaned(self.thread)

    def deploy(self) -> None:
        """Let the guest leave the code, or come back."""
        if agent._agents.pop("guest", None) is None:
            agent._agents["guest"] = self.guest

    def possible(self) -> list[tuple[Callable[[], None], int]]:
        """Return the acts that make sense now, each with its weight."""
        acts: list[tuple[Callable[[], None], int]] = [
            *((self.tick, 3), (self.sweep, 2), (self.reclaim, 1), (self.deploy, 1)),
            *((self.stop, 1), (self.edit, 1), (self.send, 1)),
        ]
        if self.broker:
            acts += [(self.deliver, 8), (self.die, 3), (self.lose, 1)]
        if Park.objects.pending().cards().exists():
            acts += [(self.respond, 8), (self.cancel, 1)]
        if self.accepted:
            acts.append((self.respond_again, 1))
        if self.addresses:
            acts.append((self.post, 3))
        return acts

    # ── What holds after each act ────────────────────────────────────────────────────────────────

    def look(self) -> None:
        """Look at what one statement tells, and at what the log has told since last time."""
        glance.check()
        if glance.events() == self.view.seq:
            return
        self.view = stream.apply(self.view, threads.events(self.thread, after=self.view.seq))

    def look_closely(self) -> None:
        """Look at everything."""
        self.look()
        invariants.check()
        for park in Park.objects.filter(id__in=self.accepted):
            assert park.status == self.accepted[park.id], "the first answer stands"
        yes = {park.key for park in Park.objects.filter(status="approved", reason=Reason.APPROVAL)}
        for made in ToolCall.objects.filter(id__in=list(self.ran), gated=True):
            assert str(made.id) in yes, f"{made.tool_name} ran without a yes"
        assert self.view == stream.read(self.thread), "the events tell another story than the rows"

    def play(self, each: int) -> None:
        """Do up to ACTS_MAX acts, look at everything after `each` of them, and come to rest."""
        try:
            for number in range(1, self.random.randint(1, ACTS_MAX) + 1):
                acts, weights = zip(*self.possible(), strict=True)
                [act] = self.random.choices(acts, weights)
                self.trail.append(act.__name__)
                before = glance.written()
                act()
                if number % each == 0:
                    self.look_closely()
                elif glance.written() != before:
                    self.look()
            self.come_to_rest()
        except Exception as error:
            error.add_note(f"after {' '.join(self.trail)}")
            raise

    def come_to_rest(self) -> None:
        """Nothing is ever stuck: with a patient person everything ends."""
        for _ in range(ROUNDS_MAX):
            went_on, asked = run_worker(), self.open()
            for park in asked:
                hitl.decide(park.id, False)
            if self.current().status in FINAL:
                break
            if not went_on and not asked:
                clock.advance(minutes=6)
                sweeping.sweep()
        assert self.current().status in FINAL, "it never came to rest"
        assert self.open() == []
        if EarlyAnswer.objects.exists():
            sweeping.sweep()
        assert not EarlyAnswer.objects.exists(), "an answer is kept that nobody will ever want"
        self.look_closely()
        assert Step.objects.count() == sum(Run.objects.values_list("steps", flat=True))


class Broker:
    """Stands in for Celery: what is sent stays in a list."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, str]] = []

    def send_task(self, task: str, args: tuple[str, ...] = (), **_: Any) -> None:
        self.messages.append((task, args[0] if args else ""))


def play(random: Random, each: int = 1) -> Ward:
    """Play one history in a transaction that is rolled back; everything is as before afterwards.

    `each` is the number of acts after which everything is looked at.
    """
    broker, real = Broker(), hints.current_app
    atomic = transaction.atomic()
    atomic._from_testcase = True  # type: ignore[attr-defined]  # allows durable ones inside
    hints.current_app = broker  # type: ignore[assignment]
    atomic.__enter__()
    try:
        ward = Ward(random, broker.messages)
        ward.play(each)
    finally:
        hints.current_app = real
        clock.reset()
        transaction.set_rollback(True)
        atomic.__exit__(None, None, None)
    return ward
