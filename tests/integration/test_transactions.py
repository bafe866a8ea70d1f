"""Verbs inside a caller's transaction, and the order in which all of them lock.

Real threads on real PostgreSQL: what is not committed is looked for from another connection, and
who waits for whom is what the server says.
"""

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from django.db import connection, transaction

import hitl
from agents import threads
from agents.models import Run
from agents.threads import ThreadBusy
from hitl import clock, parks, sweeping
from hitl.models import Decision, Park
from project.celery import app
from tests import invariants
from tests.integration import racing
from tests.integration.racing import Hints, answer, finish, park_of, parked, rows, segment
from tests.integration.staging import Crew, Hold, crew

pytestmark = [pytest.mark.services, pytest.mark.timeout(300)]

VERBS: dict[str, Callable[[Run], Any]] = {
    "start": lambda run: threads.start(racing.AGENT, "nothing"),
    "send": lambda run: threads.send(run.thread_id, "nothing", supersede=True),
    "edit": lambda run: threads.edit(run.thread_id, run.id, "nothing"),
    "stop": lambda run: threads.stop(run.thread_id),
    "delete": lambda run: threads.delete(run.thread_id),
    "respond": lambda run: answer(park_of(run), True),
    "cancel": lambda run: parks.cancel(park_of(run).id, actor="ana", channel="python"),
    "reclaim": lambda run: hitl.reclaim_if_orphaned(run.thread_id),
}


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


@pytest.mark.promise("A13")
@pytest.mark.parametrize("verb", VERBS)
def test_nothing_of_a_verb_is_seen_or_sent_before_its_caller_commits(
    hands: Crew, hints: Hints, verb: str
) -> None:
    """Field report CEL-10."""
    run = parked("send")
    if verb == "reclaim":
        clock.advance(minutes=16)
    hints.sent.clear()
    before = rows()
    with transaction.atomic():
        VERBS[verb](run)
        assert rows() != before
        assert hands.start(rows).result() == before, "another connection sees nothing"
        assert hints.sent == []
        transaction.set_rollback(True)
    assert rows() == before
    assert hints.sent == []
    with transaction.atomic():
        VERBS[verb](run)
    assert rows() != before
    assert bool(hints.sent) is (verb not in ("stop", "delete"))
    finish()
    invariants.check()


def deadlocks() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
        return int(cursor.fetchone()[0])


def superseded(run: Run) -> str:
    try:
        return str(threads.send(run.thread_id, "nothing", supersede=True).id)
    except ThreadBusy as error:
        return error.code


def everything(run: Run) -> list[partial[Any]]:
    """Return all that can happen to a parked run with two open requests."""
    first, second = park_of(run, 0), park_of(run, 1)
    return [
        partial(answer, first, True),
        partial(answer, second, False),
        partial(threads.stop, run.thread_id),
        partial(parks.expire, first.id, channel="countdown", durable=True),
        partial(parks.expire, second.id, channel="sweep", durable=True),
        partial(parks.cancel, second.id, actor="ben", channel="admin"),
        partial(superseded, run),
        partial(segment, run.id),
        partial(hitl.reclaim_if_orphaned, run.thread_id),
    ]


@pytest.mark.promise("A2", "E4", "H8", "N5")
def test_whoever_wants_a_run_waits_for_the_run_and_holds_no_request_meanwhile(hands: Crew) -> None:
    """Lock order: the run, then its parks. One circle in it, and the server would end somebody."""
    run = parked("send send")
    first, hold = park_of(run, 0), Hold("settle:locked")
    holder = hands.start(answer, first, True, holds=[hold])
    hold.wait_for_it()
    clock.advance(minutes=16)  # so that the expiries join in
    waiting = [hands.start(do) for do in everything(run) if do.func is not segment]
    queue = {holder.backend, *(hand.backend for hand in waiting)}
    for hand in waiting:
        assert hands.until_blocked(hand) <= queue
    assert free_parks() == 2, "no one that waits has locked a request"
    hold.let_go()
    for hand in [holder, *waiting]:
        hand.result()
    finish()
    invariants.check()


def free_parks() -> int:
    """Return how many requests nobody has locked."""
    with transaction.atomic():
        return len(Park.objects.select_for_update(skip_locked=True))


@pytest.mark.promise("A2", "E4", "H8", "N5")
def test_everything_at_once_never_deadlocks(hands: Crew, caplog: pytest.LogCaptureFixture) -> None:
    """Thirty times: two answers, two expiries, a cancel, a stop, a message, a worker, a sweep."""
    before = deadlocks()
    with caplog.at_level(logging.WARNING):
        for _ in range(30):
            run = parked("send send")
            Park.objects.filter(waiter_id=run.id).update(expires_at=clock.now())
            hands.together(*everything(run), sweeping.sweep)
            finish()
    assert deadlocks() == before
    assert "deadlock" not in caplog.text
    assert "the database is away" not in caplog.text
    invariants.check()
    assert not Park.objects.pending().exists()
    assert Decision.objects.filter(verb="opened").count() == Park.objects.count() == 60
