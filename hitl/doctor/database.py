"""Checks of the database: does it answer, has it every table, does its clock agree with ours."""

from datetime import UTC, datetime, timedelta

from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor

from hitl import clock, durations
from hitl.doctor.examination import Verdict, check, fail, ok, skip, warn

SKEW_OK = timedelta(seconds=2)
SKEW_MAX = timedelta(seconds=30)
SHOWN_MAX = 3

CLOCKS = {
    "postgresql": "SELECT clock_timestamp()",
    "sqlite": "SELECT strftime('%Y-%m-%dT%H:%M:%f+00:00', 'now')",
}


@check("database")
def database() -> Verdict:
    """The default database answers and every migration is applied."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        executor = MigrationExecutor(connection)
        plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    except DatabaseError as error:
        return fail(f"The database does not answer: {error} Look at its server and DATABASES.")
    if plan:
        names = ", ".join(f"{step.app_label}.{step.name}" for step, _ in plan[:SHOWN_MAX])
        more = ", …" if len(plan) > SHOWN_MAX else ""
        return fail(f"Migrations to apply: {len(plan)} ({names}{more}). Run `manage.py migrate`.")
    return ok(f"{connection.display_name} answers and every migration is applied.")


@check("database clock", needs=("database",))
def database_clock() -> Verdict:
    """Each machine judges deadlines by its own clock; the database's is the common witness."""
    query = CLOCKS.get(connection.vendor)
    if query is None:
        return skip(f"{connection.display_name} is not asked for its time.")
    before = clock.now()
    with connection.cursor() as cursor:
        cursor.execute(query)
        [there] = cursor.fetchone()
    after = clock.now()
    return judge_skew(_aware(there) - (before + (after - before) / 2))


def judge_skew(skew: timedelta) -> Verdict:
    """Judge by how much the database's clock is ahead of this machine's."""
    shown = durations.spell(abs(skew))
    if abs(skew) < SKEW_OK:
        return ok(f"The database's clock and this machine's differ by {shown}.")
    ahead = "ahead of" if skew > timedelta() else "behind"
    judge = warn if abs(skew) < SKEW_MAX else fail
    return judge(
        f"The database's clock is {shown} {ahead} this machine's, so requests expire at the wrong "
        f"time. Run a time service (NTP) on both."
    )


def _aware(at: datetime | str) -> datetime:
    at = datetime.fromisoformat(at) if isinstance(at, str) else at
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)
