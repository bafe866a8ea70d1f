"""Inserts that travel together, and the plain reads: what goes in comes back, or nothing does."""

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from agents.models import Event, Run, Thread
from hitl import clock
from hitl.reads import Select, fields_of
from hitl.rows import insert

pytestmark = pytest.mark.django_db(transaction=True)

AWKWARD = "100 %, %s and %(name)s; 'quoted' \"twice\" \\ back;\nINSERT INTO nothing VALUES (1) -- é"


def conversation(title: str = AWKWARD) -> tuple[Thread, Run]:
    """Return a thread and its run, not yet stored."""
    now = clock.now()
    thread = Thread(agent="desk", title=title, metadata={"said": title}, created_at=now)
    run = Run(
        thread=thread,
        target="desk",
        number=1,
        input={"message": title, "numbers": [1, 2.5, None, True]},
        created_at=now,
        queued_at=now,
    )
    return thread, run


def events(thread: Thread, *numbers: int) -> list[Event]:
    return [
        Event(thread_id=thread.id, seq=seq, type="CUSTOM", data={"at": AWKWARD}, at=clock.now())
        for seq in numbers
    ]


def values_of(row: Thread | Run) -> dict[str, object]:
    return {field.attname: getattr(row, field.attname) for field in row._meta.concrete_fields}


def test_rows_of_several_tables_come_back_as_they_went_in() -> None:
    thread, run = conversation()
    with transaction.atomic():
        insert([thread], [run], [], events(thread, 1, 2))
    assert not thread._state.adding
    for row in (thread, run):
        assert values_of(type(row).objects.get(id=row.id)) == values_of(row)
    assert [event.data["at"] for event in Event.objects.order_by("seq")] == [AWKWARD, AWKWARD]


def test_rows_of_several_tables_are_stored_together_or_not_at_all() -> None:
    thread, run = conversation()
    with pytest.raises(IntegrityError), transaction.atomic():
        insert([thread], [run], events(thread, 1, 1))
    assert not Thread.objects.exists()
    assert not Run.objects.exists()


@pytest.mark.services
@pytest.mark.parametrize(("on_the_server", "messages"), [(False, 1), (True, 3)])
def test_statements_travel_alone_where_the_server_binds_their_values(
    monkeypatch: pytest.MonkeyPatch, on_the_server: bool, messages: int
) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite takes one statement at a time")
    monkeypatch.setitem(connection.settings_dict["OPTIONS"], "server_side_binding", on_the_server)
    thread, run = conversation("plain")
    with transaction.atomic(), CaptureQueriesContext(connection) as captured:
        insert([thread], [run], events(thread, 1))
    assert len(captured) == messages


def test_a_plain_read_gives_instances_and_fetches_what_it_left_out() -> None:
    thread, run = conversation()
    with transaction.atomic():
        insert([thread], [run])
    by_thread = Select(
        fields_of(Run, "input", "id", "number"),
        "FROM agents_run WHERE thread_id = %s",
        given=fields_of(Run, "thread_id"),
    )
    [found] = by_thread.instances(by_thread(thread.id))
    assert (found.id, found.number, found.input) == (run.id, 1, run.input)
    assert found.target == "desk"
