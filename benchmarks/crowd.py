"""A million requests in minutes: rows copied inside the database from a few that the code made.

What the code writes stays the pattern, whatever columns it has. Ids are in the order of time, all
of them older than those of the rows that the code makes now.
"""

from collections.abc import Iterable
from typing import Any

from django.db import connection, models

from agents.models import Event, Run, Step, Thread, ToolCall
from benchmarks.results import say
from hitl.models import Decision, Park

CHUNK = 100_000
RARE = 10

ID_SQL = """
CREATE OR REPLACE FUNCTION bench_id(kind int, g bigint) RETURNS uuid IMMUTABLE LANGUAGE sql AS $$
  SELECT (lpad(to_hex(1700000000000 + g), 12, '0') || '7' || lpad(to_hex(kind), 3, '0')
          || '8' || substr(md5(g::text), 1, 15))::uuid $$
"""
# The oldest requests are the rare ones, so a list of them that looks from the newest on finds none.
STATUS = f"""
CASE WHEN g <= {RARE} THEN 'cancelled' WHEN g %% 20 = 0 THEN 'timed_out'
     WHEN g %% 5 = 0 THEN 'rejected' ELSE 'approved' END
"""
OPENED = "now() - interval '90 days' + g * (interval '89 days' / {total})"
DUE = "now() + interval '2 hours' + (g - {first}) * (interval '7 days' / {pending})"
TOPIC = "CASE WHEN g %% 50000 = 7 THEN 'seldom' ELSE 'act' END"
TITLE = "'act ' || substr(md5(g::text), 1, 8)"


def gather(pending: Run, settled: Run, *, total: int, waiting: int) -> None:
    """Add `total` requests like those of these two runs; `waiting` of them are pending.

    The pending ones, the newest, come with their threads, runs, steps, calls and events.
    """
    first = total - waiting + 1
    _settled(settled, total, first - 1)
    add_pending(pending, total, first)
    say("vacuum and analyze")
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")
        cursor.execute("CHECKPOINT")


def _settled(run: Run, total: int, last: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute(ID_SQL)
    [park] = Park.objects.filter(waiter_id=run.id)
    opened = OPENED.format(total=total)
    ids = {"id": "bench_id(5, g)", "waiter_id": "bench_id(2, g)", "scope": "bench_id(1, g)"}
    own = ids | {
        "key": "bench_id(4, g)::text",
        "status": STATUS,
        "topic": TOPIC,
        "title": TITLE,
        "opened_at": opened,
        "expires_at": f"{opened} + interval '1 hour'",
        "settled_at": f"{opened} + interval '5 minutes'",
    }
    copy(Park, [park.id], own, 1, last)
    for kind, row in enumerate(Decision.objects.filter(park=park).order_by("id"), start=10):
        own = {"id": f"bench_id({kind}, g)", "park_id": "bench_id(5, g)", "at": opened}
        copy(Decision, [row.id], own, 1, last)


def add_pending(run: Run, total: int, first: int) -> None:
    """Add parked runs like this one, numbered from `first` to `total`."""
    with connection.cursor() as cursor:
        cursor.execute(ID_SQL)
    [park], [step] = Park.objects.filter(waiter_id=run.id), Step.objects.filter(run=run)
    [call] = ToolCall.objects.filter(run=run)
    opened = OPENED.format(total=total)
    run_id, thread_id = "bench_id(2, g)", "bench_id(1, g)"
    span = (first, total)
    copy(Thread, [run.thread_id], {"id": thread_id, "current_run_id": "NULL"}, *span)
    copy(Run, [run.id], {"id": run_id, "thread_id": thread_id}, *span)
    copy(Step, [step.id], {"id": "bench_id(3, g)", "run_id": run_id}, *span)
    own = {"id": "bench_id(4, g)", "run_id": run_id, "step_id": "bench_id(3, g)"}
    copy(ToolCall, [call.id], own, *span)
    log = Event.objects.filter(thread_id=run.scope).values_list("id", flat=True)
    copy(Event, log, {"id": "nextval('agents_event_id_seq')", "thread_id": thread_id}, *span)
    own = {
        "id": "bench_id(5, g)",
        "waiter_id": run_id,
        "scope": thread_id,
        "key": "bench_id(4, g)::text",
        "topic": TOPIC,
        "title": TITLE,
        "opened_at": opened,
        "expires_at": DUE.format(first=first, pending=total - first + 1),
    }
    copy(Park, [park.id], own, *span)
    [row] = Decision.objects.filter(park=park)
    own = {"id": "bench_id(10, g)", "park_id": "bench_id(5, g)", "at": opened}
    copy(Decision, [row.id], own, *span)
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE agents_thread t SET current_run_id = r.id FROM agents_run r"
            " WHERE r.thread_id = t.id AND t.current_run_id IS NULL"
        )


def copy(
    model: type[models.Model], ids: Iterable[Any], own: dict[str, str], first: int, last: int
) -> None:
    """Insert the rows of these ids again for each g from `first` to `last`.

    `own` maps columns to what they hold in place of the pattern's value: SQL over g.
    """
    columns = [str(field.column) for field in model._meta.concrete_fields]
    values = [own.get(column, f't."{column}"') for column in columns]
    name = model._meta.db_table
    names = ", ".join(f'"{column}"' for column in columns)
    sql = (
        f"INSERT INTO {name} ({names}) SELECT {', '.join(values)} FROM {name} t,"
        " generate_series(%s::bigint, %s::bigint) g WHERE t.id::text = ANY(%s)"
    )
    for begin in range(first, last + 1, CHUNK):
        end = min(begin + CHUNK - 1, last)
        say(f"{name}: {end:,} of {last:,}")
        with connection.cursor() as cursor:
            cursor.execute(sql, [begin, end, [str(row_id) for row_id in ids]])
