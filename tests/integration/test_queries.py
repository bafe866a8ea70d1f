"""How many statements and write transactions each leg of a run costs: exact, so that growth shows.

Counted are the statements that read or write rows, not BEGIN, COMMIT and savepoints. A failure
lists them. The goals are at most 5 to start, 8 to park, 5 to answer and 10 to finish.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from uuid import UUID

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

import hitl
from agents import threads
from agents.models import Run, Thread
from agents.workflows import request_approval, step, workflow
from hitl import clock, sweeping
from hitl.models import Park
from hitl.transactions import JOINT
from tests.integration import racing, wire
from tests.integration.racing import answer, finish, park_of, parked, segment

READS = ("SELECT",)
WRITES = ("INSERT", "UPDATE", "DELETE")
PLAIN = r'^(EXECUTE ")?(WITH changed AS (\()?)?'
"""What stands before the verb of a statement that is prepared, or that insists on a row."""


@dataclass
class Cost:
    """What one leg has sent to the database."""

    statements: list[str] = field(default_factory=list)
    write_transactions: int = 0

    def __str__(self) -> str:
        return "\n  ".join([f"{len(self.statements)} statements:", *self.statements])


@contextmanager
def counted() -> Iterator[Cost]:
    """Count what the block sends."""
    cost, is_open, wrote = Cost(), False, False
    with CaptureQueriesContext(connection) as captured:
        yield cost
    sent = [query["sql"].strip() for query in captured.captured_queries]
    for part in (part for together in sent for part in together.split(JOINT)):
        sql = re.sub(PLAIN, "", part)
        if sql.startswith("BEGIN"):
            is_open, wrote = True, False
        elif sql.startswith(("COMMIT", "ROLLBACK")) and "SAVEPOINT" not in sql:
            cost.write_transactions += is_open and wrote
            is_open = False
        elif sql.startswith(READS + WRITES):
            cost.statements.append(sql[:140])
            writes = sql.startswith(WRITES) or "FOR UPDATE" in sql
            wrote = wrote or writes
            cost.write_transactions += writes and not is_open


@dataclass
class Legs:
    """The cost of each leg of one run: start, park, answer, finish."""

    start: Cost
    park: Cost
    answer: Cost
    finish: Cost

    def counts(self) -> dict[str, int]:
        return {name: len(cost.statements) for name, cost in vars(self).items()}

    def __str__(self) -> str:
        return "\n".join(f"{name}: {cost}" for name, cost in vars(self).items())


def walk(begin: Callable[[], UUID]) -> Legs:
    """Walk one run, which this begins, through all its legs."""
    with counted() as start:
        run_id = begin()
    with counted() as park:
        assert segment(run_id)
    request = Park.objects.get(waiter_id=run_id)
    with counted() as answering:
        assert answer(request, True).delivered
    with counted() as finishing:
        assert segment(run_id)
    assert Run.objects.get(id=run_id).status == "COMPLETED"
    return Legs(start, park, answering, finishing)


@dataclass
class Traffic:
    """What each leg sent to PostgreSQL."""

    messages: dict[str, int] = field(default_factory=dict)
    write_transactions: dict[str, int] = field(default_factory=dict)

    @contextmanager
    def of(self, leg: str) -> Iterator[None]:
        with wire.traced() as traffic:
            yield
        self.messages[leg] = traffic.messages
        self.write_transactions[leg] = traffic.write_transactions


def on_the_wire(begin: Callable[[], UUID]) -> Traffic:
    """Walk one run through all its legs, as `walk` does."""
    traffic = Traffic()
    with traffic.of("start"):
        run_id = begin()
    with traffic.of("park"):
        assert segment(run_id)
    request = Park.objects.get(waiter_id=run_id)
    with traffic.of("answer"):
        assert answer(request, True).delivered
    with traffic.of("finish"):
        assert segment(run_id)
    return traffic


def a_thread() -> UUID:
    run_id = threads.start(racing.AGENT, "send").current_run_id
    assert run_id is not None
    return run_id


def another_turn(thread: Thread) -> UUID:
    return threads.send(thread, "send").id


@pytest.fixture(autouse=True)
def _agent(transactional_db: None) -> None:
    racing.enrol()


FIRST = {"start": 3, "park": 7, "answer": 6, "finish": 10}
MESSAGES = {"start": 1, "park": 3, "answer": 4, "finish": 5}
BUDGET = {"start": 5, "park": 8, "answer": 6, "finish": 10}


def test_a_run_costs_exactly_so_many_statements() -> None:
    legs = walk(a_thread)
    assert legs.counts() == FIRST, str(legs)
    assert all(count <= BUDGET[name] for name, count in FIRST.items())


@pytest.mark.services
def test_statements_travel_together() -> None:
    """BEGIN with the first of a transaction, and COMMIT with what has nothing to tell."""
    racing.needs_postgresql()
    assert on_the_wire(a_thread).messages == MESSAGES


def test_a_run_writes_in_as_few_transactions_as_it_has_effects() -> None:
    """Started, taken, parked; answered, taken with the claim, output kept, finished."""
    legs = walk(a_thread)
    assert legs.start.write_transactions + legs.park.write_transactions == 3
    assert legs.answer.write_transactions + legs.finish.write_transactions == 4


def test_a_run_costs_the_same_however_much_else_waits() -> None:
    for _ in range(15):
        parked("send send")
    legs = walk(a_thread)
    assert legs.counts() == FIRST, str(legs)


def test_a_later_turn_costs_the_same_however_long_the_thread_is() -> None:
    """The turns before it are read in one statement, once for each model call's segment."""
    thread = Run.objects.get(id=a_thread()).thread
    finish()
    [request] = Park.objects.pending()
    answer(request, True)
    finish()
    costs = [walk(partial(another_turn, thread)) for _ in range(5)]
    for legs in costs:
        assert legs.counts() == {"start": 6, "park": 8, "answer": 6, "finish": 11}, str(legs)


def test_a_late_answer_costs_no_more_than_one_that_counts() -> None:
    park = park_of(parked())
    assert answer(park, True).delivered
    with counted() as late:
        assert answer(park, False).code == "already_answered"
    assert len(late.statements) == 6, str(late)


def test_a_segment_that_is_not_owed_costs_one_statement() -> None:
    run = parked()
    with counted() as cost:
        assert not segment(run.id)
    assert len(cost.statements) == 1, str(cost)


def test_a_sweep_with_nothing_due_costs_the_same_however_much_waits() -> None:
    for _ in range(10):
        parked()
    sweeping.sweep()  # the first one has no pulse to renew
    with counted() as cost:
        sweeping.sweep()
    assert len(cost.statements) == 14, str(cost)
    assert cost.write_transactions == 1


@pytest.mark.promise("E4")
def test_deadlines_that_are_over_together_are_closed_in_a_few_statements() -> None:
    """Two reads, the runs, parks, trail, the runs again, the events: for two as for twenty."""
    costs = []
    for count in (2, 20):
        for _ in range(count):
            Park.objects.filter(waiter_id=parked().id).update(expires_at=clock.now())
        with counted() as cost:
            assert sweeping.settle_due() == count
        costs.append(cost)
    assert [len(cost.statements) for cost in costs] == [7, 7], str(costs[1])
    assert [cost.write_transactions for cost in costs] == [1, 1]


@pytest.mark.promise("E8")
def test_looking_after_a_thread_that_needs_nothing_reads_four_times_and_writes_nothing() -> None:
    run = parked()
    with counted() as cost:
        assert hitl.reclaim_if_orphaned(run.thread_id) is False
    assert len(cost.statements) == 4, str(cost)
    assert not any(sql.startswith(WRITES) for sql in cost.statements), str(cost)


@pytest.mark.services
def test_the_server_counts_as_many_write_transactions() -> None:
    racing.needs_postgresql()
    counted = on_the_wire(a_thread).write_transactions
    assert counted == {"start": 1, "park": 2, "answer": 1, "finish": 3}


@step(name="queries.act")
def act(what: str) -> str:
    return what


@workflow(name="queries.passage")
async def passage() -> str:
    await act("before")
    decision = await request_approval("go on")
    return await act(decision.status)


@workflow(name="queries.long_passage")
async def long_passage(count: int) -> str:
    for number in range(count):
        await act(str(number))
    decision = await request_approval("go on")
    return await act(decision.status)


def a_passage() -> UUID:
    return passage.start().id


WORKFLOW = {"start": 1, "park": 9, "answer": 6, "finish": 7}
WORKFLOW_MESSAGES = {"start": 1, "park": 5, "answer": 5, "finish": 6}


def test_a_workflow_costs_a_known_number_of_statements() -> None:
    """A step and a gate, and after the answer another step. The first segment reads no journal."""
    legs = walk(a_passage)
    assert legs.counts() == WORKFLOW, str(legs)
    assert all(count <= BUDGET[name] for name, count in WORKFLOW.items() if name != "park")


def test_a_workflow_writes_in_as_few_transactions_as_it_has_effects() -> None:
    """Taken, the step claimed, its result kept, parked; and after the answer the same, to the end.

    The body, which is a project's code, runs in none of them: so taking and claiming are two.
    """
    legs = walk(a_passage)
    commits = [leg.write_transactions for leg in vars(legs).values()]
    assert commits == [1, 4, 1, 4]


@pytest.mark.services
def test_what_a_workflow_asks_for_travels_with_its_park() -> None:
    racing.needs_postgresql()
    assert on_the_wire(a_passage).messages == WORKFLOW_MESSAGES


def test_a_workflow_costs_the_same_however_much_else_waits() -> None:
    for _ in range(15):
        segment(a_passage())
    assert walk(a_passage).counts() == WORKFLOW


def test_a_step_of_a_workflow_costs_four_statements_however_long_the_journal_is() -> None:
    """And an answer, and the segment that it begins, cost the same after thirty steps as one."""
    legs = walk(lambda: long_passage.start(30).id)
    assert legs.counts() == WORKFLOW | {"park": WORKFLOW["park"] + 29 * 4}, str(legs)
