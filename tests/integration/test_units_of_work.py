"""A unit of work is a transaction: all of it or nothing, whatever waits to be sent."""

import gc
import weakref
from collections.abc import Callable, Iterator

import pytest
from django.db import (
    DataError,
    IntegrityError,
    NotSupportedError,
    OperationalError,
    connection,
    transaction,
)
from psycopg import IsolationLevel

from agents.models import Event, Run, Thread
from hitl import clock
from hitl.ids import new_id
from hitl.rows import Change, CountedBack, change_later, compare_and_set_each, insert, new
from hitl.transactions import unit_of_work
from tests.integration import racing, wire

pytestmark = pytest.mark.django_db(transaction=True)

AWKWARD = "100 %, %s and %(name)s; 'quoted' \\ back;\nCOMMIT"


class Lost(BaseException):
    """A write reached no row."""


def a_thread(title: str = AWKWARD) -> Thread:
    return new(Thread, agent="desk", title=title, created_at=clock.now())


def titled(thread: Thread, title: str) -> Change[Thread]:
    return Change(Thread, {"id": thread.id}, set={"title": title}, returning=("id", "title"))


def titles() -> list[str]:
    return list(Thread.objects.order_by("title").values_list("title", flat=True))


@pytest.fixture(autouse=True)
def _left_as_it_was() -> Iterator[None]:
    """Whatever became of the unit, the connection commits each statement by itself afterwards."""
    yield
    assert connection.get_autocommit()
    assert not connection.in_atomic_block
    thread = a_thread("afterwards")
    insert([thread])
    connection.close()
    assert "afterwards" in titles()


def test_what_was_written_is_seen_within_and_kept() -> None:
    with unit_of_work():
        insert([a_thread()])
        assert titles() == [AWKWARD]
        Thread.objects.update(title="renamed %")
        insert([a_thread("second")])
    assert titles() == ["renamed %", "second"]


def test_a_unit_that_fails_leaves_nothing() -> None:
    for look in (False, True):
        with pytest.raises(ZeroDivisionError), unit_of_work():
            insert([a_thread()])
            assert not look or titles()
            insert([a_thread()])
            1 / 0  # noqa: B018
        assert titles() == []


def test_a_statement_that_is_refused_undoes_those_before_it() -> None:
    """It is sent at the end here: the error comes from there, and nothing is committed."""
    thread = a_thread()
    with pytest.raises(IntegrityError), unit_of_work():
        insert([a_thread("before")])
        insert([thread])
        insert([thread])
    assert titles() == []


def test_a_constraint_that_is_looked_at_on_commit_undoes_all_of_it() -> None:
    now, done = clock.now(), []
    with pytest.raises(IntegrityError), unit_of_work():
        transaction.on_commit(lambda: done.append(True))
        insert([a_thread()])
        insert([new(Run, thread_id=new_id(), target="desk", created_at=now, queued_at=now)])
    assert (titles(), done) == ([], [])


def test_what_follows_a_commit_follows_it() -> None:
    seen: list[list[str]] = []
    with unit_of_work():
        transaction.on_commit(lambda: seen.append(titles()))
        insert([a_thread("kept")])
        assert seen == []
    assert seen == [["kept"]]


def test_a_savepoint_inside_holds_what_waited_within_it() -> None:
    with unit_of_work():
        insert([a_thread("outside")])
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            insert([a_thread("inside")])
            1 / 0  # noqa: B018
        insert([a_thread("after")])
    assert titles() == ["after", "outside"]


def test_a_refusal_inside_a_savepoint_is_raised_where_it_ends() -> None:
    thread = a_thread("once")
    with unit_of_work():
        insert([thread])
        with pytest.raises(IntegrityError), transaction.atomic():
            insert([thread])
        insert([a_thread("after")])
    assert titles() == ["after", "once"]


def test_a_unit_inside_another_transaction_belongs_to_that() -> None:
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        with unit_of_work():
            insert([a_thread()])
        assert titles() == [AWKWARD]
        1 / 0  # noqa: B018
    assert titles() == []


@pytest.mark.services
def test_a_unit_where_the_caller_commits_by_hand_leaves_that_to_the_caller() -> None:
    racing.needs_postgresql()
    transaction.set_autocommit(False)
    try:
        with unit_of_work():
            insert([a_thread()])
        assert titles() == [AWKWARD]
        transaction.rollback()
        assert titles() == []
        transaction.rollback()
    finally:
        transaction.set_autocommit(True)


def test_a_unit_that_is_to_be_durable_insists_on_being_the_outermost() -> None:
    with pytest.raises(RuntimeError), unit_of_work(), unit_of_work(durable=True):
        pass


def test_a_unit_that_is_set_to_roll_back_does() -> None:
    with unit_of_work():
        insert([a_thread()])
        transaction.set_rollback(True)
    assert titles() == []


def test_guarded_writes_that_travel_together_tell_each_what_became_of_it() -> None:
    first, second = a_thread("a"), a_thread("b")
    with unit_of_work():
        insert([first])
        found = compare_and_set_each(
            [titled(first, "A %s"), titled(second, "B"), titled(first, "C")]
        )
    assert [row and row.title for row in found] == ["A %s", None, "C"]
    assert titles() == ["C"]


def test_a_write_that_waits_and_reaches_no_row_raises_what_it_was_told_to() -> None:
    thread = a_thread("a")
    with unit_of_work():
        insert([thread])
        change_later(titled(thread, "b"), otherwise=Lost)
    assert titles() == ["b"]
    with pytest.raises(Lost), unit_of_work():
        change_later(titled(a_thread(), "c"), otherwise=Lost)
        assert titles() == ["b"]
    with pytest.raises(Lost), unit_of_work():
        change_later(titled(a_thread(), "c"), otherwise=Lost)
    assert titles() == ["b"]


def test_a_write_that_waits_and_reaches_no_row_takes_its_whole_unit_back() -> None:
    thread = a_thread("a")
    insert([thread])
    with pytest.raises(Lost), unit_of_work():
        change_later(titled(thread, "b"), otherwise=lambda: None)
        insert([a_thread("before")])
        change_later(titled(a_thread(), "c"), otherwise=Lost)
        insert([a_thread("behind")])
    assert titles() == ["a"]


def test_the_first_reason_there_is_is_raised() -> None:
    thread = a_thread("a")
    insert([thread])
    with pytest.raises(Lost), unit_of_work():
        change_later(titled(thread, "b"), otherwise=lambda: None)
        change_later(titled(a_thread(), "c"), otherwise=Lost)
        change_later(titled(thread, "d"), otherwise=AssertionError)
    assert titles() == ["a"]


@pytest.mark.services
def test_why_a_write_reached_no_row_is_asked_once_all_is_undone() -> None:
    racing.needs_postgresql()
    seen: list[object] = []

    def look() -> BaseException:
        seen.append((connection.in_atomic_block, titles()))
        return Lost()

    with pytest.raises(Lost), unit_of_work():
        insert([a_thread("before")])
        change_later(titled(a_thread(), "c"), otherwise=look)
    assert seen == [(False, [])]


@pytest.mark.services
def test_a_division_by_zero_of_somebody_else_is_no_lost_write() -> None:
    racing.needs_postgresql()
    thread = a_thread("a")
    insert([thread])
    with pytest.raises(DataError, match="zero"), unit_of_work():
        change_later(titled(thread, "b"), otherwise=lambda: None)
        connection.cursor().execute("SELECT 1 / 0")
    assert titles() == ["a"]


def test_rows_that_count_back_from_a_counter_count_from_what_it_is_by_then() -> None:
    thread, now = a_thread(), clock.now()
    run = new(
        Run,
        id=new_id(),
        target="desk",
        thread_id=thread.id,
        number=1,
        event_seq=5,
        created_at=now,
        queued_at=now,
    )
    events = [
        new(Event, thread_id=thread.id, seq=behind, type=str(behind), at=now) for behind in (1, 0)
    ]
    with unit_of_work():
        insert([thread], [run])
        Run.objects.filter(id=run.id).update(event_seq=7)
        insert(CountedBack(events, "seq", Run, "event_seq", run.id))
    assert list(Event.objects.order_by("seq").values_list("seq", "type")) == [(6, "1"), (7, "0")]


@pytest.fixture
def preparing() -> Iterator[None]:
    """A connection that prepares a statement when it sends it for the second time."""
    racing.needs_postgresql()
    connection.close()
    connection.ensure_connection()
    connection.connection.prepare_threshold = 1
    yield
    connection.close()


def prepared_names() -> set[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT name FROM pg_prepared_statements")
        return {name.rstrip(" 0123456789") for (name,) in cursor.fetchall()}


@pytest.mark.services
def test_what_is_sent_often_is_prepared_and_says_the_same(preparing: None) -> None:
    for title in ("first", AWKWARD, "third"):
        thread = a_thread("new")
        with unit_of_work():
            insert([thread])
            change_later(titled(thread, title), otherwise=Lost)
        [row] = compare_and_set_each([titled(thread, title)])
        assert row.title == title
    assert titles() == sorted(["first", AWKWARD, "third"])
    insert_, insisting, change = sorted(prepared_names(), key=lambda name: (name[:6], name))
    assert insert_.startswith("INSERT INTO agents_thread")
    assert change.startswith("WITH changed AS UPDATE agents_thread")
    assert insisting.startswith("UPDATE agents_thread")


@pytest.mark.services
def test_a_unit_that_fails_leaves_what_was_prepared_in_it(preparing: None) -> None:
    for _ in range(3):
        with pytest.raises(Lost), unit_of_work():
            insert([a_thread()])
            assert titles()
            change_later(titled(a_thread(), "c"), otherwise=Lost)
    with unit_of_work():
        insert([a_thread("kept")])
    assert titles() == ["kept"]
    assert len(prepared_names()) == 2


@pytest.mark.services
def test_a_new_connection_has_nothing_prepared_and_some_have_never(preparing: None) -> None:
    for _ in range(3):
        insert([a_thread()])
    assert len(prepared_names()) == 1
    connection.close()
    connection.ensure_connection()
    connection.connection.prepare_threshold = None
    for _ in range(7):
        insert([a_thread()])
    assert prepared_names() == set()


@pytest.mark.services
def test_a_closed_connection_is_not_kept_for_what_it_had_prepared(preparing: None) -> None:
    for _ in range(3):
        insert([a_thread()])
    raw = weakref.ref(connection.connection)
    connection.close()
    gc.collect()
    assert raw() is None


def at_once(thread: Thread, title: str) -> None:
    compare_and_set_each([titled(thread, title)])


def with_a_query(thread: Thread, title: str) -> None:
    with unit_of_work():
        insert([a_thread("new")])
        at_once(thread, title)


@pytest.mark.services
@pytest.mark.parametrize("change", [at_once, with_a_query])
def test_a_connection_whose_statements_a_migration_has_outdated_is_replaced(
    preparing: None, change: Callable[[Thread, str], None]
) -> None:
    thread = a_thread("a")
    insert([thread])
    for _ in range(2):
        change(thread, "b")
    retype = "ALTER TABLE agents_thread ALTER COLUMN title TYPE {}"
    length = Thread._meta.get_field("title").max_length
    connection.cursor().execute(retype.format("text"))
    try:
        with pytest.raises(NotSupportedError):
            change(thread, "c")
        connection.close_if_unusable_or_obsolete()
        change(thread, "c")
    finally:
        connection.cursor().execute(retype.format(f"varchar({length})"))
    assert "c" in titles()


def test_many_sets_of_values_go_behind_what_waited() -> None:
    thread = a_thread("first")
    with unit_of_work(), connection.cursor() as cursor:
        insert([thread])
        cursor.executemany(
            "UPDATE agents_thread SET title = title || %s WHERE agent = %s",
            [["-x", "desk"], ["-y", "desk"]],
        )
    assert titles() == ["first-x-y"]


def test_a_new_row_refuses_a_column_that_it_does_not_have() -> None:
    with pytest.raises(TypeError, match="titel"):
        new(Thread, titel="typo")


def test_a_new_row_has_the_defaults_of_its_model() -> None:
    now = clock.now()
    made, again = (new(Run, target="desk", created_at=now, queued_at=now) for _ in range(2))
    usual = Run(id=made.id, target="desk", created_at=now, queued_at=now)
    assert {name: value for name, value in vars(made).items() if name != "_state"} == {
        name: value for name, value in vars(usual).items() if name != "_state"
    }
    assert made.id != again.id
    assert made.input is not again.input
    assert made._state.adding


@pytest.mark.services
def test_a_unit_sends_few_messages_and_an_empty_one_none() -> None:
    racing.needs_postgresql()
    with wire.traced() as traffic, unit_of_work():
        pass
    assert traffic.messages == 0
    with wire.traced() as traffic, unit_of_work():
        insert([a_thread("a")])
        insert([a_thread("b")])
        assert len(titles()) == 2
        insert([a_thread("c")])
    assert (traffic.messages, traffic.write_transactions) == (2, 1)


@pytest.mark.services
@pytest.mark.parametrize("is_first", [True, False])
def test_a_statement_that_cannot_be_sent_takes_nothing_along(is_first: bool) -> None:
    """The driver refuses its value; what waited in front of it is kept, in one transaction."""
    racing.needs_postgresql()

    def work() -> None:
        if not is_first:
            insert([a_thread("before")])
        with connection.cursor() as cursor, pytest.raises(DataError):
            cursor.execute("SELECT %s", ["\0"])
        insert([a_thread("after")])
        assert "after" in titles()

    with pytest.raises(ZeroDivisionError), unit_of_work():
        work()
        1 / 0  # noqa: B018
    assert titles() == []
    with unit_of_work():
        work()
    assert titles() == (["after"] if is_first else ["after", "before"])


@pytest.mark.services
def test_a_unit_has_the_isolation_level_that_the_project_chose() -> None:
    racing.needs_postgresql()
    connection.ensure_connection()
    connection.connection.isolation_level = IsolationLevel.SERIALIZABLE
    try:
        with unit_of_work(), connection.cursor() as cursor:
            insert([a_thread()])
            cursor.execute("SHOW transaction_isolation")
            assert cursor.fetchall() == [("serializable",)]
    finally:
        connection.close()
    assert titles() == [AWKWARD]


@pytest.mark.services
def test_a_value_that_the_driver_refuses_is_an_error_of_django() -> None:
    racing.needs_postgresql()
    with pytest.raises(DataError), unit_of_work():
        insert([a_thread("\0")])
    assert titles() == []


@pytest.mark.services
def test_a_connection_that_breaks_in_the_middle_leaves_nothing() -> None:
    racing.needs_postgresql()
    with pytest.raises(OperationalError), unit_of_work():
        insert([a_thread()])
        assert titles()
        pid = connection.connection.info.backend_pid
        with connection.copy().cursor() as other:
            other.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
            other.connection.close()
        insert([a_thread()])
    connection.close()
    assert titles() == []
