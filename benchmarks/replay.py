"""How long a replay takes: journals of 10, 100, 1,000 and 10,000 entries, read from rows.

    python -m benchmarks.replay            # SQLite; with DATABASE_URL on PostgreSQL

Prints a Markdown table of medians of processor time: reading the rows, replaying the body over them,
"""

import os
import statistics
import sys
from time import process_time
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")

SIZES = (10, 100, 1_000, 10_000)
ROUNDS = 5


def main() -> None:
    import django

    django.setup()
    from django.test.utils import setup_databases, teardown_databases

    old = setup_databases(verbosity=0, interactive=False)
    try:
        print("| entries | read ms | replay ms | both ms |\n| --- | --- | --- | --- |")
        for size in SIZES:
            sys.stderr.write(f"{size} entries …\n")
            read, replayed = measure(size)
            print(f"| {size:,} | {read:.1f} | {replayed:.1f} | {read + replayed:.1f} |", flush=True)
    finally:
        teardown_databases(old, verbosity=0)


def measure(size: int) -> tuple[float, float]:
    """Return the medians of reading a journal of so many steps and of replaying it, in ms."""
    from agents.models import JournalEntry
    from agents.workflows import bodies, journal, step, workflow
    from agents.workflows.replay import Blocked
    from hitl import clock, values

    @step(name="bench.charge")
    def charge(order_id: str, amount: float) -> dict[str, Any]:
        raise AssertionError("nothing runs here")

    @workflow(name="bench.long")
    async def long(count: int) -> int:
        for number in range(count + 1):
            await charge(f"order-{number}", amount=number / 4)
        return count

    run = long.start(count=size)
    now = clock.now()
    rows = []
    for number in range(size):
        given = {"order_id": f"order-{number}", "amount": number / 4}
        rows.append(
            JournalEntry(
                run=run,
                position=number,
                kind="step",
                name="bench.charge",
                input=given,
                digest=values.digest(given),
                state="done",
                delivered=number + 1,
                result={"receipt": f"r-{number}", "amount": number / 4},
                created_at=now,
            )
        )
    JournalEntry.objects.bulk_create(rows, batch_size=500)
    reads, replays = [], []
    for _ in range(ROUNDS):
        begun = process_time()
        held = journal.load(run.id)
        read = process_time()
        session = bodies.session_of(held)
        outcome = bodies.replay(session, bodies.body_of(run), held)
        replayed = process_time()
        session.close()
        assert outcome == Blocked(size), outcome
        reads.append((read - begun) * 1000)
        replays.append((replayed - read) * 1000)
    return statistics.median(reads), statistics.median(replays)


if __name__ == "__main__":
    main()
