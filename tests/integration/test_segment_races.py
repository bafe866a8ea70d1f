"""Segments that meet: two of one run, a worker that wakes up too late, a cut connection.

Real threads on real PostgreSQL, staged at fault points and at the server's own word that one waits.
"""

import logging
from collections.abc import Iterator
from functools import partial

import pytest
from django.db import OperationalError, close_old_connections, connection

from agents import conf, keeper, outages, threads
from agents.lease import Lease
from agents.models import Run, Step, ToolCall
from hitl import clock, faults, parks, sweeping
from hitl.models import Park
from tests import invariants, tiers
from tests.integration import racing
from tests.integration.racing import answer, finish, park_of, parked, rows, segment, started
from tests.integration.staging import Crew, Hand, Hold, backend, crew

pytestmark = [pytest.mark.services, pytest.mark.timeout(300)]

OUTSIDE = (
    "segment:taken",
    "model:replied",
    "reply:judged",
    "reply:saved",
    "tool:claimed",
    "tool:returned",
    "result:kept",
    "segment:boundary",
)
"""Points of a segment outside of its transactions: there a worker may be asleep for any time."""


@pytest.fixture(autouse=True)
def _agent(transactional_db: None) -> Iterator[None]:
    racing.needs_postgresql()
    racing.enrol()
    yield
    clock.reset()


@pytest.fixture
def hands() -> Iterator[Crew]:
    with crew() as made:
        yield made


def lapse() -> None:
    """Let every lease lapse."""
    clock.advance(seconds=conf.duration("LEASE").total_seconds() + 1)


# Two segments of one run.


@pytest.mark.promise("P5", "P6")
def test_of_twenty_segments_at_once_one_runs(hands: Crew) -> None:
    """Field reports RUN-04 and CEL-03: the same message delivered again and again."""
    run = started("look send")
    took = hands.together(*[partial(segment, run.id)] * 20)
    assert took.count(True) == 1
    assert len(racing.requests) == Step.objects.count() == 1
    assert len(racing.effects) == 1
    invariants.check()


@pytest.mark.promise("P6")
def test_a_segment_that_waits_for_the_lease_returns_without_it(hands: Crew) -> None:
    run, hold = started("send"), Hold("lease:taken")
    one = hands.start(segment, run.id, holds=[hold])
    hold.wait_for_it()
    other = hands.start(segment, run.id)
    assert hands.until_blocked(other) == {one.backend}
    hold.let_go()
    assert one.result() is True
    assert other.result() is False
    assert len(racing.requests) == 1
    invariants.check()


# A worker that wakes up after its lease lapsed.


def asleep_at(hands: Crew, run: Run, point: str) -> tuple[Hand, Hold]:
    """Return a worker of this run that fell asleep at this point, its lease lapsed."""
    hold = Hold(point)
    hand = hands.start(segment, run.id, holds=[hold])
    hold.wait_for_it()
    lapse()
    return hand, hold


def sleeper_writes_nothing(hand: Hand, hold: Hold, caplog: pytest.LogCaptureFixture) -> None:
    """Wake the worker up and check that it ends quietly and leaves every row as it is."""
    before = rows()
    with caplog.at_level(logging.INFO, logger="agents.segments"):
        hold.let_go()
        assert hand.result() is True
    assert "another worker has taken over" in caplog.text
    assert rows() == before
    invariants.check()


@pytest.mark.promise("P6", "P5", "A5", "A6")
@pytest.mark.parametrize("point", OUTSIDE)
def test_a_worker_that_wakes_up_after_another_took_over_writes_nothing(
    hands: Crew, caplog: pytest.LogCaptureFixture, point: str
) -> None:
    """Field reports CEL-13 and RUN-04, at every point outside of a transaction."""
    run = started("look send")
    hand, hold = asleep_at(hands, run, point)
    finish()
    run.refresh_from_db()
    assert run.status == "WAITING_FOR_INPUT", "the other got to where the question is open"
    sleeper_writes_nothing(hand, hold, caplog)
    assert answer(park_of(run), True).delivered
    finish()
    run.refresh_from_db()
    assert run.status == "COMPLETED"
    assert set(ToolCall.objects.values_list("outcome", flat=True)) == {"ok"}
    gated = ToolCall.objects.get(gated=True)
    assert racing.effects.count(str(gated.id)) == 1
    invariants.check()


@pytest.mark.promise("P6", "A5", "A6")
def test_the_output_of_a_worker_that_lost_its_run_is_refused(
    hands: Crew, caplog: pytest.LogCaptureFixture
) -> None:
    """A free tool ran twice, and what was kept first stands."""
    run = started("look")
    hand, hold = asleep_at(hands, run, "tool:returned")
    finish()
    sleeper_writes_nothing(hand, hold, caplog)
    call = ToolCall.objects.get()
    assert racing.effects == [str(call.id)] * 2
    assert (call.outcome, call.result) == ("ok", "seen 2")


@pytest.mark.promise("P6", "A6")
@pytest.mark.parametrize("point", ["tool:claimed", "tool:returned"])
def test_a_gated_call_of_a_worker_that_lost_its_run_is_asked_about(
    hands: Crew, caplog: pytest.LogCaptureFixture, point: str
) -> None:
    """Field reports CEL-13 and RUN-03: the tool may have run, and nobody runs it again unasked."""
    run = parked("send")
    answer(park_of(run), True)
    hand, hold = asleep_at(hands, run, point)
    finish()
    doubt = Park.objects.pending().get()
    assert doubt.reason == "in_doubt"
    sleeper_writes_nothing(hand, hold, caplog)
    assert len(racing.effects) == 1
    assert parks.decide(doubt.id, True, payload="it was sent", actor="ana").delivered
    finish()
    call = ToolCall.objects.get()
    assert (call.outcome, call.result) == ("answered", "it was sent")
    assert len(racing.effects) == 1
    invariants.check()


@pytest.mark.promise("P6", "H8")
def test_a_stop_after_the_lease_lapsed_is_not_undone_by_the_old_worker(
    hands: Crew, caplog: pytest.LogCaptureFixture
) -> None:
    run = started("look send")
    hand, hold = asleep_at(hands, run, "tool:returned")
    assert threads.stop(run.thread_id) is True
    run.refresh_from_db()
    assert run.status == "CANCELLED"
    sleeper_writes_nothing(hand, hold, caplog)
    calls = ToolCall.objects.order_by("index").values_list("outcome", flat=True)
    assert list(calls) == ["unknown", "stopped"]


@pytest.mark.promise("P6")
def test_a_lease_that_is_renewed_in_time_is_not_taken(hands: Crew) -> None:
    """The heartbeat and the one who takes over meet on the row; the second one sees the first."""
    run, hold = started("look"), Hold("tool:claimed")
    worker = hands.start(segment, run.id, holds=[hold])
    hold.wait_for_it()
    run.refresh_from_db()
    lapse()
    keeper.Keeper()._renew(Lease(run.id, run.lease_token))
    assert segment(run.id) is False
    hold.let_go()
    assert worker.result() is True
    assert len(racing.effects) == 1
    invariants.check()


# A connection that is cut in the middle.


def cut() -> None:
    """Let the server end this thread's connection, as a restart or a firewall does."""
    mine = backend()
    with tiers.postgres() as other:
        other.execute("SELECT pg_terminate_backend(%s, 5000)", [mine])


class CutAt:
    """Handler that cuts the connection at the n-th point that is passed."""

    def __init__(self, nth: int) -> None:
        self.left, self.at = nth, ""

    def __call__(self, name: str) -> None:
        self.left -= 1
        if self.left == 0:
            self.at = name
            cut()


@pytest.mark.promise("A3", "A5", "P5", "E4")
def test_a_connection_cut_at_any_point_ends_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Field report CEL-12: at point 1, 2, 3 …; the next task of the same worker goes on."""
    monkeypatch.setattr(outages, "PAUSE_S", 0)
    passed, cuts = 0, []
    while True:
        racing.enrol()
        run, handler = second_turn("look send"), CutAt(passed + 1)
        with faults.armed(handler):
            lost = not survives(partial(work_off, run))
        close_old_connections()  # as Celery does between two tasks
        if not handler.at:
            break
        passed += 1
        cuts.append((handler.at, lost))
        invariants.check(f"after a cut at {cuts[-1]}")
        lapse()
        sweeping.sweep()
        work_off(run)
        judge_cut(run, handler.at)
    assert passed > 20, cuts
    assert ("result:keeping", False) in cuts, "an output outlives a cut"
    assert ("reply:saving", False) in cuts, "and so does a reply"


def second_turn(message: str) -> Run:
    """Return the queued run of a thread that has a history to read."""
    first = started("nothing")
    finish()
    racing.enrol()
    return threads.send(first.thread_id, message)


def survives(do: partial[None]) -> bool:
    """Run this as a worker runs a task; False when the database's error came out of it."""
    try:
        do()
    except OperationalError:
        return False
    return True


def work_off(run: Run) -> None:
    """Work until it parks, say yes to everything and work until the end."""
    finish()
    for park in Park.objects.pending().filter(waiter_id=run.id):
        payload = {"payload": "it was sent"} if racing.effects.count(park.subject) else {}
        truth = payload if park.reason == "in_doubt" else {}
        parks.decide(park.id, True, actor="ana", **truth)
    finish()


def judge_cut(run: Run, at: str) -> None:
    for _ in range(3):  # one answer may lead to a question about a call in doubt
        work_off(run)
    run.refresh_from_db()
    assert (run.status, run.error) == ("COMPLETED", ""), f"cut at {at}"
    for call in ToolCall.objects.filter(run=run, gated=True):
        assert racing.effects.count(str(call.id)) == 1, f"cut at {at}"
    assert len(racing.requests) <= 3
    invariants.check(f"cut at {at}")


@pytest.mark.promise("P6")
def test_the_heartbeat_comes_back_after_its_connection_was_cut() -> None:
    """Field report CEL-12."""
    run = started("look")
    Run.objects.filter(id=run.id).update(
        status="RUNNING", lease_token=1, lease_until=clock.now(), attempts=1
    )
    heart, lease = keeper.Keeper(), Lease(run.id, 1)
    cut()
    heart._renew(lease)
    assert not lease.is_over(), "a cut tells nothing about the lease"
    heart._renew(lease)
    run.refresh_from_db()
    assert run.lease_until is not None
    assert run.lease_until > clock.now()
    assert connection.is_usable()
