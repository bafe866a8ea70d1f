"""Answers that meet each other, the deadline, a stop, a new message: one wins, the others are told.

Real threads on real PostgreSQL. What is staged waits at a fault point, or until the server shows
it waiting for a lock; what is not staged starts at one barrier and is repeated.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from agents import threads
from agents.models import Run, ToolCall
from agents.threads import ThreadBusy
from hitl import clock, parks, sweeping
from hitl.models import Decision, Park
from hitl.parks import Answer
from project.celery import app
from tests import invariants
from tests.integration import racing
from tests.integration.racing import Hints, Skew, answer, finish, park_of, parked, verbs
from tests.integration.staging import Crew, Hold, crew

pytestmark = [pytest.mark.services, pytest.mark.timeout(300)]


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


@pytest.fixture
def hints(monkeypatch: pytest.MonkeyPatch) -> Hints:
    made = Hints()
    monkeypatch.setattr(app, "send_task", made.send_task)
    return made


@pytest.fixture
def skew(monkeypatch: pytest.MonkeyPatch) -> Skew:
    return Skew(monkeypatch)


def outcome(run: Run) -> str:
    run.refresh_from_db()
    return ToolCall.objects.get(run=run).outcome


# Answer against answer.


def settle_by_one_of(answers: list[Answer], park: Park) -> bool:
    """Check that exactly one of these answers counted; return whether it said yes."""
    assert [found.delivered for found in answers].count(True) == 1
    assert {found.code for found in answers if not found.delivered} == {"already_answered"}
    park.refresh_from_db()
    found = verbs(park)
    assert found["approved"] + found["rejected"] == 1
    assert found["refused"] == len(answers) - 1
    return park.status == "approved"


@pytest.mark.promise("A1", "A2", "I1")
def test_of_twenty_answers_at_once_one_counts(hands: Crew, hints: Hints) -> None:
    """Field report DEC-01."""
    run = parked()
    park, before = park_of(run), hints.for_run(run)
    answers = hands.together(*[partial(answer, park, n % 2 == 0) for n in range(20)])
    said_yes = settle_by_one_of(answers, park)
    assert hints.for_run(run) == before + 1, "one wake"
    invariants.check()
    finish()
    assert len(racing.effects) == int(said_yes)
    assert outcome(run) == ("ok" if said_yes else "denied")
    invariants.check()


@pytest.mark.promise("A1", "A2")
def test_of_two_answers_at_once_one_counts_each_time(hands: Crew, hints: Hints) -> None:
    """Field reports DEC-01 and RUN-07, fifty times."""
    won: Counter[bool] = Counter()
    for _ in range(50):
        run = parked()
        park, before = park_of(run), hints.for_run(run)
        racing.effects.clear()
        answers = hands.together(partial(answer, park, True), partial(answer, park, False))
        won[settle_by_one_of(answers, park)] += 1
        assert hints.for_run(run) == before + 1
        finish()
        assert len(racing.effects) == int(park.status == "approved")
    invariants.check(f"yes and no won {dict(won)}")


@pytest.mark.promise("A1", "A2")
@pytest.mark.parametrize("first", [True, False])
def test_the_answer_that_has_the_run_wins_and_the_other_waits_for_it(
    hands: Crew, first: bool
) -> None:
    park = park_of(parked())
    hold = Hold("settle:locked")
    one = hands.start(answer, park, first, holds=[hold])
    hold.wait_for_it()
    other = hands.start(answer, park, not first)
    assert hands.until_blocked(other) == {one.backend}
    hold.let_go()
    assert one.result().delivered
    assert other.result().code == "already_answered"
    finish()
    assert len(racing.effects) == int(first)
    invariants.check()


# Answer against the deadline.


def due(run: Run) -> Park:
    """Return the request of a parked run, whose deadline is this very moment."""
    Park.objects.filter(waiter_id=run.id).update(expires_at=clock.now())
    return park_of(run)


def answer_in_time(skew: Skew, park: Park) -> Answer:
    """Say yes on a machine whose clock is a little slow, so that the deadline is not over there."""
    with skew.by(seconds=-5):
        return answer(park, True)


def expire_now(park: Park) -> bool:
    return parks.expire(park.id, channel="countdown", durable=True)


@pytest.mark.promise("A2", "E4", "E6")
def test_an_answer_at_the_moment_of_the_deadline_wins_or_is_too_late(
    hands: Crew, hints: Hints, skew: Skew
) -> None:
    """Field report EXP-02, a hundred times; the clocks of web and worker differ."""
    won: Counter[str] = Counter()
    for _ in range(100):
        run = parked()
        park, before = due(run), hints.for_run(run)
        answered, expired = hands.together(
            partial(answer_in_time, skew, park), partial(expire_now, park)
        )
        assert answered.delivered is not expired
        assert answered.code == ("expired" if expired else None)
        park.refresh_from_db()
        assert park.status == ("timed_out" if expired else "approved")
        assert hints.for_run(run) == before + 1
        won[park.status] += 1
        finish()
        assert outcome(run) == ("timed_out" if expired else "ok")
        assert run.status == "COMPLETED"
    invariants.check(f"won: {dict(won)}")
    assert len(racing.effects) == won["approved"]


@pytest.mark.promise("A2", "E4")
def test_an_answer_that_has_the_run_at_the_deadline_wins(hands: Crew, skew: Skew) -> None:
    run = parked()
    park, hold = due(run), Hold("settle:locked")
    person = hands.start(answer_in_time, skew, park, holds=[hold])
    hold.wait_for_it()
    worker = hands.start(expire_now, park)
    assert hands.until_blocked(worker) == {person.backend}
    hold.let_go()
    assert person.result().delivered
    assert worker.result() is False
    finish()
    assert outcome(run) == "ok"
    invariants.check()


@pytest.mark.promise("A1", "E2", "E6")
def test_an_answer_that_comes_while_the_deadline_is_acted_on_is_too_late(
    hands: Crew, skew: Skew
) -> None:
    run = parked()
    park, hold = due(run), Hold("settle:locked")
    worker = hands.start(expire_now, park, holds=[hold])
    hold.wait_for_it()
    person = hands.start(answer_in_time, skew, park)
    assert hands.until_blocked(person) == {worker.backend}
    hold.let_go()
    assert worker.result() is True
    assert (person.result().delivered, person.result().code) == (False, "expired")
    finish()
    assert (outcome(run), racing.effects) == ("timed_out", [])
    assert verbs(park) == {"opened": 1, "expired": 1, "refused": 1}
    invariants.check()


# Sweep against sweep.


@pytest.mark.promise("E4", "S1")
def test_several_sweeps_at_once_expire_each_request_once(
    hands: Crew, hints: Hints, settings: Any
) -> None:
    """Field report CEL-17: two hundred due requests of ten runs, four sweeps in small batches."""
    settings.HITL = settings.HITL | {"SWEEP_BATCH": 64}
    waiting = [parked("send " * 20) for _ in range(10)]
    assert Park.objects.pending().count() == 200
    hints.sent.clear()
    clock.advance(minutes=16)
    counts = hands.together(*[sweeping.settle_due] * 4)
    assert sum(counts) == 200, counts
    assert Decision.objects.filter(verb="expired", system=True).count() == 200
    assert not Park.objects.pending().exists()
    assert [hints.for_run(run) for run in waiting] == [1] * 10, "the last sibling wakes, once"
    invariants.check()
    finish()
    assert set(Run.objects.values_list("status", flat=True)) == {"COMPLETED"}
    assert racing.effects == []
    invariants.check()


@pytest.mark.promise("E4")
def test_two_sweeps_that_read_the_same_request_settle_it_once(hands: Crew) -> None:
    run = parked()
    park, read = due(run), [Hold("expire:read"), Hold("expire:read")]
    both = [hands.start(expire_now, park, holds=[hold]) for hold in read]
    for hold in read:
        hold.wait_for_it()
    for hold in read:
        hold.let_go()
    assert sorted(hand.result() for hand in both) == [False, True]
    assert verbs(park) == {"opened": 1, "expired": 1}
    invariants.check()


@pytest.mark.promise("E4", "A2")
def test_many_deadlines_closed_together_wait_for_no_answer_in_between(hands: Crew) -> None:
    """The one that somebody is answering is left alone, and the rest are closed meanwhile."""
    ids = [due(parked()).id for _ in range(5)]
    settled = Hold("respond:settled")
    Park.objects.filter(id=ids[2]).update(expires_at=clock.now() + timedelta(minutes=1))
    answering = hands.start(answer, Park.objects.get(id=ids[2]), True, holds=[settled])
    settled.wait_for_it()
    clock.advance(minutes=2)
    closing = hands.start(partial(parks.expire_together, ids, channel="sweep"))
    assert set(closing.result()) == set(ids) - {ids[2]}
    settled.let_go()
    assert answering.result().delivered
    assert Park.objects.get(id=ids[2]).status == "approved"
    invariants.check()


# Answer against stop.


@pytest.mark.promise("A2", "P3", "N5")
def test_a_stop_against_an_answer_runs_the_tool_or_never(hands: Crew) -> None:
    """Field report EXP-10, fifty times, with a worker that is quick."""
    ends: Counter[tuple[str, str]] = Counter()
    for _ in range(50):
        run = parked()
        park = park_of(run)
        racing.effects.clear()
        answered, stopped, _ = hands.together(
            partial(answer, park, True),
            partial(threads.stop, run.thread_id, actor="ben"),
            partial(racing.segment, run.id),
        )
        finish()
        ends[run_ends(run, answered, stopped)] += 1
    invariants.check(f"ends: {dict(ends)}")


def run_ends(run: Run, answered: Answer, stopped: bool) -> tuple[str, str]:
    end = outcome(run), str(run.status)
    assert len(racing.effects) == int(end[0] == "ok")
    assert answered.code in (None, "moved_on")
    if not answered.delivered:
        assert end == ("stopped", "CANCELLED")
    assert stopped or end == ("ok", "COMPLETED")
    return end


@pytest.mark.promise("P3", "A1", "A12", "N5")
def test_a_stop_that_has_the_run_first_keeps_the_tool_from_running(hands: Crew) -> None:
    run = parked()
    park, hold = park_of(run), Hold("run:closed")
    stopper = hands.start(threads.stop, run.thread_id, holds=[hold])
    hold.wait_for_it()
    person = hands.start(answer, park, True)
    assert hands.until_blocked(person) == {stopper.backend}
    hold.let_go()
    assert stopper.result() is True
    assert (person.result().delivered, person.result().code) == (False, "moved_on")
    finish()
    assert (outcome(run), racing.effects) == ("stopped", [])
    invariants.check()


@pytest.mark.promise("H8", "N5")
def test_a_stop_that_waits_for_an_answer_stops_the_run_before_its_tool(hands: Crew) -> None:
    run = parked()
    park, hold = park_of(run), Hold("respond:settled")
    person = hands.start(answer, park, True, holds=[hold])
    hold.wait_for_it()
    stopper = hands.start(threads.stop, run.thread_id)
    assert hands.until_blocked(stopper) == {person.backend}
    hold.let_go()
    assert person.result().delivered
    assert stopper.result() is True
    finish()
    assert (outcome(run), run.status, racing.effects) == ("stopped", "CANCELLED", [])
    invariants.check()


# Siblings.


@pytest.mark.promise("S1", "S2", "A3")
def test_two_siblings_answered_at_once_wake_the_run_once(hands: Crew, hints: Hints) -> None:
    """Field reports WAKE-01 and PAR-05, fifty times."""
    for _ in range(50):
        run = parked("send send")
        first, second = park_of(run, 0), park_of(run, 1)
        hints.sent.clear()
        answers = hands.together(partial(answer, first, True), partial(answer, second, True))
        assert [found.delivered for found in answers] == [True, True]
        run.refresh_from_db()
        assert run.status == "QUEUED"
        assert hints.for_run(run) == 1
    finish()
    assert set(Counter(racing.effects).values()) == {1}
    assert len(racing.effects) == 100
    invariants.check()


@pytest.mark.promise("S1", "S2")
def test_the_sibling_that_waits_its_turn_is_the_one_that_wakes_the_run(
    hands: Crew, hints: Hints
) -> None:
    run = parked("send send")
    hints.sent.clear()
    hold = Hold("respond:settled")
    one = hands.start(answer, park_of(run, 1), True, holds=[hold])
    hold.wait_for_it()
    other = hands.start(answer, park_of(run, 0), False)
    assert hands.until_blocked(other) == {one.backend}
    assert hints.for_run(run) == 0
    hold.let_go()
    assert one.result().delivered and other.result().delivered
    assert hints.for_run(run) == 1
    finish()
    assert len(racing.effects) == 1
    invariants.check()


# A new message.


def sent(run: Run, message: str, *, supersede: bool = False) -> str:
    """Send a message; return what became of it."""
    try:
        return str(threads.send(run.thread_id, message, supersede=supersede).id)
    except ThreadBusy as error:
        return error.code


@pytest.mark.promise("H1")
def test_of_two_messages_to_an_idle_thread_one_begins_a_run(hands: Crew, hints: Hints) -> None:
    """Field report COR-03, for threads; twenty times."""
    for _ in range(20):
        run = racing.started("nothing")
        finish()
        found = hands.together(partial(sent, run, "nothing"), partial(sent, run, "send"))
        assert found.count("thread_busy") == 1
        assert Run.objects.filter(thread=run.thread).count() == 2
    invariants.check()


@pytest.mark.promise("H1")
def test_a_message_that_waits_for_another_is_refused(hands: Crew) -> None:
    run = racing.started("nothing")
    finish()
    hold = Hold("run:created")
    one = hands.start(sent, run, "send", holds=[hold])
    hold.wait_for_it()
    other = hands.start(sent, run, "send")
    assert hands.until_blocked(other) == {one.backend}
    hold.let_go()
    assert one.result() != "thread_busy"
    assert other.result() == "thread_busy"
    invariants.check()


@pytest.mark.promise("H1", "N5", "A1")
@pytest.mark.parametrize("first", ["answer", "message"])
def test_a_message_that_supersedes_against_an_answer(hands: Crew, first: str) -> None:
    run = parked()
    park = park_of(run)
    doing: dict[str, Callable[[], Any]] = {
        "answer": partial(answer, park, True),
        "message": partial(sent, run, "nothing", supersede=True),
    }
    hold = Hold("respond:settled" if first == "answer" else "run:created")
    [second] = set(doing) - {first}
    one = hands.start(doing[first], holds=[hold])
    hold.wait_for_it()
    other = hands.start(doing[second])
    assert hands.until_blocked(other) == {one.backend}
    hold.let_go()
    results = {first: one.result(), second: other.result()}
    assert results["answer"].code == (None if first == "answer" else "moved_on")
    assert results["message"] != "thread_busy"
    finish()
    assert (outcome(run), run.status, racing.effects) == ("stopped", "CANCELLED", [])
    assert Run.objects.latest("number").status == "COMPLETED"
    invariants.check()


@pytest.mark.promise("H1", "H8")
def test_a_stop_that_waits_for_a_new_message_stops_the_new_run(hands: Crew) -> None:
    """Whoever stops a thread means what it does now, not the run that was superseded meanwhile."""
    run, hold = parked(), Hold("run:created")
    sender = hands.start(partial(sent, run, "send", supersede=True), holds=[hold])
    hold.wait_for_it()
    stopper = hands.start(threads.stop, run.thread_id)
    assert hands.until_blocked(stopper) == {sender.backend}
    hold.let_go()
    assert sender.result() != "thread_busy"
    assert stopper.result() is True
    statuses = Run.objects.order_by("number").values_list("status", flat=True)
    assert list(statuses) == ["CANCELLED", "CANCELLED"]
    finish()
    assert racing.effects == []
    invariants.check()
