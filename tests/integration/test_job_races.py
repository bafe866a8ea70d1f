"""Jobs and trees on real PostgreSQL: the address of a job against its deadline, against itself and
against the park that opens; a stop against an answer that unwinds.
"""

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.db import transaction
from django.test import Client

from agents import Agent, ToolContext, park_for_input, requires_confirmation, threads, tool
from agents.llm.messages import Request
from agents.models import Run, Step, ToolCall
from agents.testing import ScriptedModel, call
from hitl import answers, clock, faults, parks
from hitl.audit import Actor
from hitl.models import EarlyAnswer, Park
from tests import invariants
from tests.integration import racing
from tests.integration.racing import finish, park_of, segment, verbs
from tests.integration.staging import Crew, Hold, crew

pytestmark = [pytest.mark.services, pytest.mark.timeout(300)]

DEPTH = 3


class Yard:
    """An agent with a job, and a chain of agents with a gate at its end; what they did."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.resumed: list[Any] = []
        self.sent: list[str] = []
        self.address = ""

        @tool
        def render(ctx: ToolContext) -> Any:
            """Render."""
            if ctx.resumed:
                self.resumed.append(ctx.approval.payload if ctx.approval else None)
                return self.resumed[-1]
            self.begun.append(str(ctx.tool_call_id))
            self.address = urlsplit(ctx.resume_url).path
            raise park_for_input(ttl="30m")

        @requires_confirmation
        @tool
        def send(ctx: ToolContext) -> str:
            """Send."""
            self.sent.append(str(ctx.tool_call_id))
            return "sent"

        Agent("farmer", model=ScriptedModel(_once(call("render"))), tools=[render])
        for level in range(DEPTH, -1, -1):
            below = call(f"delegate_to_level{level + 1}", instructions="Go down.")
            Agent(
                f"level{level}",
                model=ScriptedModel(_once(call("send") if level == DEPTH else below)),
                tools=[send],
                subagents=[f"level{level + 1}"] if level < DEPTH else [],
            )

    def start(self, name: str) -> Run:
        self.begun.clear()
        self.resumed.clear()
        self.sent.clear()
        return Run.objects.get(thread=threads.start(name, "Go"))

    def parked(self, name: str) -> Run:
        run = self.start(name)
        assert segment(run.id)
        run.refresh_from_db()
        assert run.status == "WAITING_FOR_INPUT"
        return run

    def post(self, result: str = "built") -> int:
        """Post a result to the address of the job that was begun; return the status."""
        data = f'"{result}"'
        return Client().post(self.address, data=data, content_type="application/json").status_code


def _once(made: Any) -> Any:
    """Return a model that makes one call and says what came of it."""

    def reply(request: Request) -> Any:
        return [made] if len(request.messages) == 1 else "Done."

    return reply


@pytest.fixture
def yard(transactional_db: None) -> Iterator[Yard]:
    racing.needs_postgresql()
    yield Yard()
    clock.reset()


@pytest.fixture
def hands() -> Iterator[Crew]:
    with crew() as made:
        yield made


def due(run: Run, seconds: float) -> Park:
    """Return the request of a run, whose deadline is so far away from now."""
    Park.objects.filter(waiter_id=run.id).update(
        expires_at=clock.now() + timedelta(seconds=seconds)
    )
    return park_of(run)


def expire(park: Park) -> bool:
    return parks.expire(park.id, channel="countdown", durable=True)


# The address of a job.


@pytest.mark.promise("J2", "A1", "A2")
def test_of_ten_posts_at_once_one_is_taken_each_time(yard: Yard, hands: Crew) -> None:
    for _ in range(10):
        run = yard.parked("farmer")
        posts = [partial(yard.post, f"r{n}") for n in range(10)]
        statuses = hands.together(*posts)
        assert Counter(statuses) == {200: 1, 409: 9}
        finish()
        assert yard.resumed == [f"r{statuses.index(200)}"]
        assert len(yard.begun) == 1
        assert verbs(park_of(run)) == {"opened": 1, "approved": 1, "refused": 9}
    invariants.check()


@pytest.mark.promise("J2", "J5", "A2", "E4", "E6")
def test_a_post_against_the_deadline_is_taken_or_too_late(yard: Yard, hands: Crew) -> None:
    """Thirty times around the very moment: whoever wins, the tool resumes once and accordingly."""
    won: Counter[str] = Counter()
    for n in range(30):
        run = yard.parked("farmer")
        park = due(run, seconds=(n % 3) * 0.004)
        status, expired = hands.together(yard.post, partial(expire, park))
        park.refresh_from_db()
        assert (status == 200) == (park.status == "approved")
        assert not (expired and status == 200)
        won[park.status] += 1
        if park.is_pending:  # too early for the deadline, too late for nobody
            clock.advance(seconds=1)
            expire(park)
        finish()
        assert yard.resumed == (["built"] if status == 200 else [None])
        run.refresh_from_db()
        assert run.status == "COMPLETED"
    invariants.check(f"won: {dict(won)}")


@pytest.mark.promise("J2", "J5", "A1")
def test_a_post_that_waits_for_the_deadline_is_told_that_it_is_too_late(
    yard: Yard, hands: Crew
) -> None:
    run = yard.parked("farmer")
    park, hold = due(run, seconds=0), Hold("settle:locked")
    worker = hands.start(expire, park, holds=[hold])
    hold.wait_for_it()
    farm = hands.start(yard.post)
    assert hands.until_blocked(farm) == {worker.backend}
    hold.let_go()
    assert (worker.result(), farm.result()) == (True, 409)
    finish()
    assert yard.resumed == [None]
    invariants.check()


# An answer that comes early, against the park that opens.


@pytest.mark.promise("J3", "J1")
def test_a_post_before_the_park_is_kept_and_the_park_opens_answered(
    yard: Yard, hands: Crew
) -> None:
    run, hold = yard.start("farmer"), Hold("asked:kept")
    worker = hands.start(segment, run.id, holds=[hold])
    hold.wait_for_it()
    assert (yard.post("fast"), yard.post("faster")) == (200, 409)
    assert EarlyAnswer.objects.count() == 1
    hold.let_go()
    worker.result()
    finish()
    judge_early(yard, run, "fast")


@pytest.mark.promise("J3", "J1")
def test_a_post_while_the_park_opens_waits_for_it_and_settles_it(yard: Yard, hands: Crew) -> None:
    """Field report WAKE-03: the wait opens at the moment it is answered."""
    run, hold = yard.start("farmer"), Hold("park:opened")
    worker = hands.start(segment, run.id, holds=[hold])
    hold.wait_for_it()
    farm = hands.start(yard.post, "in time")
    assert hands.until_blocked(farm) == {worker.backend}
    hold.let_go()
    worker.result()
    assert farm.result() == 200
    finish()
    judge_early(yard, run, "in time")


@pytest.mark.promise("J3", "J1")
def test_a_park_that_waits_for_a_post_opens_answered(yard: Yard, hands: Crew) -> None:
    run, asked, kept = yard.start("farmer"), Hold("asked:kept"), Hold("test:kept")

    def answer_slowly() -> bool:
        with transaction.atomic():
            given = answers.read(True, Actor("farm", "webhook"), payload="first")
            answer = parks.resume("run", run.id, yard.begun[0], given)
            faults.point("test:kept")
        return answer.delivered

    worker = hands.start(segment, run.id, holds=[asked])
    asked.wait_for_it()
    farm = hands.start(answer_slowly, holds=[kept])
    kept.wait_for_it()
    asked.let_go()
    assert hands.until_blocked(worker) == {farm.backend}
    kept.let_go()
    assert farm.result() is True
    worker.result()
    finish()
    judge_early(yard, run, "first")


@pytest.mark.promise("J3", "A2")
def test_posts_while_the_tool_runs_and_parks_are_taken_once(yard: Yard, hands: Crew) -> None:
    """Twenty times, with nothing staged but the tool, which has begun. Field report WAKE-07."""
    for _ in range(20):
        run, hold = yard.start("farmer"), Hold("tool:returned")
        worker = hands.start(segment, run.id, holds=[hold])
        hold.wait_for_it()
        hold.let_go()
        statuses = hands.together(partial(yard.post, "a"), partial(yard.post, "b"))
        worker.result()
        assert Counter(statuses) == {200: 1, 409: 1}
        finish()
        judge_early(yard, run, "ab"[statuses.index(200)])


def judge_early(yard: Yard, run: Run, result: str) -> None:
    run.refresh_from_db()
    assert run.status == "COMPLETED"
    assert len(yard.begun) == 1
    assert yard.resumed == [result]
    assert ToolCall.objects.get(run=run).result == result
    assert not EarlyAnswer.objects.exists()
    invariants.check()


# A stop against an answer that unwinds.


@pytest.mark.promise("H8", "N4", "N5")
@pytest.mark.parametrize(
    "point",
    [
        "segment:taken",
        "tool:returned",
        "result:kept",
        "model:replied",
        "reply:judged",
        "reply:saved",
    ],
)
def test_a_stop_while_an_answer_unwinds_closes_every_level(
    yard: Yard, hands: Crew, point: str
) -> None:
    """Whatever was done is kept, whatever was not is not begun."""
    run, hold = yard.parked("level0"), Hold(point)
    assert racing.answer(park_of(run), True).delivered
    worker = hands.start(segment, run.id, holds=[hold])
    hold.wait_for_it()
    steps = Run.objects.get(id=run.id).steps
    assert threads.stop(run.thread_id, actor="ben") is True
    hold.let_go()
    worker.result()
    finish()
    run.refresh_from_db()
    assert run.status == "CANCELLED"
    assert Step.objects.filter(run=run).count() == run.steps <= steps + 1
    assert len(yard.sent) == 1, "its claim was made before the stop came"
    assert not ToolCall.objects.filter(run=run).exclude(phase="done").exists()
    invariants.check()


@pytest.mark.promise("H8", "N4", "N5")
def test_a_stop_that_waits_for_a_level_stops_before_the_next(yard: Yard, hands: Crew) -> None:
    run, hold = yard.parked("level0"), Hold("reply:saving")
    assert racing.answer(park_of(run), True).delivered
    worker = hands.start(segment, run.id, holds=[hold])
    hold.wait_for_it()
    stopper = hands.start(threads.stop, run.thread_id)
    assert hands.until_blocked(stopper) == {worker.backend}
    hold.let_go()
    assert stopper.result() is True
    worker.result()
    finish()
    run.refresh_from_db()
    assert (run.status, yard.sent) == ("CANCELLED", [str(send_call(run).id)])
    assert send_call(run).outcome == "ok"
    outcomes = ToolCall.objects.filter(run=run, tool_name__startswith="delegate")
    assert set(outcomes.values_list("outcome", flat=True)) == {"ok", "stopped"}
    invariants.check()


def send_call(run: Run) -> ToolCall:
    return ToolCall.objects.get(run=run, tool_name="send")


@pytest.mark.promise("H8", "N4", "N5")
def test_a_stop_against_an_unwind_ends_every_level_each_time(yard: Yard, hands: Crew) -> None:
    """Twenty times, nothing staged."""
    ends: Counter[str] = Counter()
    for _ in range(20):
        run = yard.parked("level0")
        assert racing.answer(park_of(run), True).delivered
        hands.together(partial(segment, run.id), partial(threads.stop, run.thread_id))
        finish()
        run.refresh_from_db()
        ends[str(run.status)] += 1
        assert len(yard.sent) == (send_call(run).outcome == "ok")
    assert set(ends) <= {"COMPLETED", "CANCELLED"}
    invariants.check(f"ends: {dict(ends)}")
