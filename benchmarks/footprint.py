"""What a parked run costs: bytes in the database, memory and timers in the workers.

    python -m benchmarks.footprint --parked 2000 --filled 100000

Runs of an agent and then of a workflow are parked by real workers, started as by default; then the
database is filled up to 100,000 parked runs whose deadlines spread over a week, and the workers
sweep them for two periods.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "peers"))

import harness
import measuring
import peer_sayso

from agents.models import Run
from benchmarks import crowd, results
from benchmarks.results import say
from hitl import parks
from hitl.models import Park
from project.celery import app

Sizes = dict[str, tuple[int, int]]
SWEEPS_S = 70
WEEK_S = 600_000
TABLES = """SELECT relname, pg_total_relation_size(oid), pg_indexes_size(oid) FROM pg_class
 WHERE relkind = 'r' AND (relname LIKE 'hitl%%' OR relname LIKE 'agents%%')"""


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--parked", type=int, default=2000, help="parked by real workers")
    options.add_argument("--filled", type=int, default=100_000, help="parked runs in the end")
    args = options.parse_args()
    peer = peer_sayso.Sayso(argparse.Namespace(mode="", **vars(args)))
    peer.setup()
    peer.start_workers()
    try:
        harness.warm(peer, 20)
        found = look_at(peer, args)
        [server] = peer.conn.execute("SELECT version()").fetchone()
    finally:
        peer.close()
    whole = {"machine": results.machine(server), "options": vars(args), **found}
    results.write("footprint", whole, page_of(found))
    return 0


def look_at(peer: Any, args: argparse.Namespace) -> dict[str, Any]:
    """Measure with nothing parked, with runs parked by the workers, and with many more."""
    time.sleep(2)
    stages = {"0": stage(peer)}
    before = sizes(peer)
    rows_before = rows_of(peer)
    began = 0
    for count in (args.parked // 2, args.parked):
        peer.start([f"c{number:06d}" for number in range(began, count)], harness.LONG)
        if not measuring.wait_for(lambda c=count: peer.parked("c") >= c, 900, 0.25):
            raise RuntimeError("the runs did not park")
        began = count
        time.sleep(3)
        stages[f"{count:,}"] = stage(peer)
        say(f"{count} parked: {stages[f'{count:,}']}")
    agents = growth(peer, args.parked, before, rows_before)
    workflows = of_workflows(peer, args.parked)
    pending, other = Run.objects.filter(status="WAITING_FOR_INPUT", kind="agent").order_by("-id")[
        :2
    ]
    parks.cancel(Park.objects.get(waiter_id=other.id).id, actor="bench", channel="python")
    measuring.wait_for(lambda: Run.objects.filter(id=other.id, status="COMPLETED").exists(), 60)
    crowd.gather(pending, other, total=args.filled, waiting=args.filled - 1)
    say("two sweeps")
    time.sleep(SWEEPS_S)
    stages[f"{args.filled:,}"] = stage(peer)
    return {"stages": stages, "agents": agents, "workflows": workflows}


def of_workflows(peer: Any, count: int) -> dict[str, Any]:
    """Let the same workers park runs of a workflow; what one of them takes."""
    flows = peer_sayso.SaysoWorkflow(peer.args)
    flows.conn, flows.url, flows.runs = peer.conn, peer.url, {}
    before, rows_before = sizes(peer), rows_of(peer)
    flows.start([f"v{number:06d}" for number in range(count)], harness.LONG)
    if not measuring.wait_for(lambda: flows.parked("v") >= count, 900, 0.25):
        raise RuntimeError("the runs of the workflow did not park")
    time.sleep(3)
    return growth(peer, count, before, rows_before)


def growth(peer: Any, count: int, before: Sizes, rows_before: dict[str, int]) -> dict[str, Any]:
    """Return what each table has grown by for one run: bytes, those of indexes, and rows."""
    after, rows = sizes(peer), rows_of(peer)
    return {
        name: [
            round((whole - before[name][0]) / count),
            round((indexes - before[name][1]) / count),
            round((rows[name] - rows_before[name]) / count, 1),
        ]
        for name, (whole, indexes) in after.items()
    }


def stage(peer: Any) -> dict[str, Any]:
    """Return memory, threads and timers of the workers now."""
    pids = peer.pids()
    held = sum(map(len, (app.control.inspect(timeout=5).scheduled() or {}).values()))
    with app.pool.acquire(block=True) as broker:
        client = broker.default_channel.client
        waiting = sum(client.llen(queue) for queue in ("agents", "deadlines"))
    return {
        "rss_mb": round(measuring.rss(pids) / 1e6, 1),
        "threads": measuring.threads(pids),
        "timers": held,
        "messages": waiting,
    }


def sizes(peer: Any) -> Sizes:
    """Return bytes with indexes, and of the indexes alone, of each table."""
    peer.conn.execute("CHECKPOINT")
    return {name: (whole, indexes) for name, whole, indexes in peer.conn.execute(TABLES).fetchall()}


def rows_of(peer: Any) -> dict[str, int]:
    """Return how many rows each table has."""
    names = [name for name, *_ in peer.conn.execute(TABLES).fetchall()]
    counted = "SELECT count(*) FROM {}"
    return {name: peer.conn.execute(counted.format(name)).fetchone()[0] for name in names}


def page_of(found: dict[str, Any]) -> str:
    """Return the two tables."""
    head = ["parked runs", "workers' memory MB", "threads", "timers held", "messages waiting"]
    rows = [
        [count, one["rss_mb"], one["threads"], one["timers"], one["messages"]]
        for count, one in found["stages"].items()
    ]
    text = results.table(head, rows)
    for kind, said in (("agents", "run of an agent"), ("workflows", "run of a workflow")):
        grown = {name: cells for name, cells in found[kind].items() if cells[0]}
        rows = [[f"`{name}`", *one] for name, one in sorted(grown.items(), key=lambda x: -x[1][0])]
        rows.append(
            ["**all**", *(round(sum(column), 1) for column in zip(*grown.values(), strict=True))]
        )
        head = [f"bytes per parked {said}", "in all", "of these indexes", "rows"]
        text += "\n" + results.table(head, rows)
    return text


if __name__ == "__main__":
    sys.exit(main())
