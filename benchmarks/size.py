"""A million requests, a hundred thousand of them pending: do lists, answers and sweeps notice?

    python -m benchmarks.size --rows 1000000 --pending 100000 --rounds 60

Two databases on one server, one with a handful of requests and one with a million, are looked at in
turn by two processes. Writes the plans of the queries beside the results.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import psycopg

from benchmarks import results
from benchmarks.peers import measuring
from benchmarks.results import median, percentile, say

ROOT = Path(__file__).resolve().parent.parent
FEW, MANY = "few", "many"
GOAL_PAGE_MS = 50
GOAL_SWEEP_MS = 5
GOAL_ANSWER = 1.2
PAGES = (
    "inbox",
    "inbox, a late page",
    "approved",
    "cancelled (rare, old)",
    "all",
    "a tool that is rare",
    "settled, a tool that is rare",
    "an asker that nobody is",
    "search, found",
    "search, found nowhere",
    "search in all, found nowhere",
    "threads",
)
LISTS = ("pending", "cancelled", "all")


class Visitor:
    """A `benchmarks.visitor` on a database of its own."""

    def __init__(self, name: str, *, keep: bool) -> None:
        database = f"bench_size_{name}"
        self.url = measuring.dsn(database) if keep else measuring.fresh_db(database)
        redis = f"redis://127.0.0.1:{os.environ.get('PEERS_REDIS_PORT', '6379')}/4"
        env = {**os.environ, "DATABASE_URL": self.url, "BROKER_URL": redis}
        migrate = [sys.executable, "manage.py", "migrate", "-v", "0"]
        env["DJANGO_SETTINGS_MODULE"] = "benchmarks.settings"
        env.setdefault("SECRET_KEY", "benchmark")
        subprocess.run(migrate, cwd=ROOT, env=env, check=True)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.visitor"],
            cwd=ROOT,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, *words: object) -> dict[str, Any]:
        """Give one command and return what came of it."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(words) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the visitor ended at {words}")
        return dict(json.loads(line))

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(30)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=1_000_000)
    options.add_argument("--pending", type=int, default=100_000)
    options.add_argument("--rounds", type=int, default=60)
    options.add_argument("--keep", action="store_true", help="the databases of the run before")
    args = options.parse_args()
    visitors = {name: Visitor(name, keep=args.keep) for name in (FEW, MANY)}
    for name, visitor in visitors.items():
        say(f"{name}: {visitor.ask('prepare', args.rounds + 40)}")
    if not args.keep:
        say(str(visitors[MANY].ask("gather", args.rows, args.pending)))
    legs = [("look", page) for page in PAGES] + [("list", status) for status in LISTS]
    found = take_times(visitors, [*legs, ("badge",), ("answer",), ("sweep",)], args.rounds)
    plans = "\n".join(plans_of(visitors[MANY], leg) for leg in (*PAGES, "sweep"))
    found["sweep"]["server_ms"] = {name: server_ms(each) for name, each in visitors.items()}
    for visitor in visitors.values():
        visitor.close()
    with psycopg.connect(measuring.dsn("postgres")) as connection:
        [server] = connection.execute("SELECT version()").fetchone() or ["unknown"]
    whole = {"machine": results.machine(server), "options": vars(args), "legs": found}
    results.write("size", whole, page_of(found, args), plans=plans)
    return 0


def take_times(
    visitors: dict[str, Visitor], legs: list[tuple[str, ...]], rounds: int
) -> dict[str, Any]:
    """Ask both visitors for each leg in turn, round by round; the first rounds warm up."""
    times: dict[str, dict[str, list[dict[str, float]]]] = defaultdict(lambda: defaultdict(list))
    warm = 5
    for number in range(rounds + warm):
        if number % 10 == 0:
            say(f"round {number} of {rounds + warm}")
        for leg in legs:
            for name, visitor in visitors.items():
                one = visitor.ask(*leg)
                if number >= warm:
                    times[" ".join(leg)][name].append(one)
    return {leg: {name: summary(each) for name, each in by.items()} for leg, by in times.items()}


def summary(times: list[dict[str, float]]) -> dict[str, float]:
    """Return medians and 95th percentiles, in milliseconds."""
    whole, database = [one["ms"] for one in times], [one["db_ms"] for one in times]
    return {
        "least_ms": round(min(whole), 2),
        "p50_ms": round(median(whole), 2),
        "p95_ms": round(percentile(whole, 0.95), 2),
        "db_least_ms": round(min(database), 2),
        "db_p50_ms": round(median(database), 2),
        "db_p95_ms": round(percentile(database, 0.95), 2),
        "queries": median([one["queries"] for one in times]),
    }


def plans_of(visitor: Visitor, page: str) -> str:
    plans = visitor.ask("explain", page)["plans"]
    return "\n".join(f"── {page}\n{sql}\n\n{plan}\n" for sql, plan in plans)


def server_ms(visitor: Visitor) -> float:
    """Return what PostgreSQL itself says a sweep costs it: planning and execution, milliseconds."""
    took = 0.0
    for _, plan in visitor.ask("explain", "sweep")["plans"]:
        took += sum(float(ms) for ms in re.findall(r"(?:Planning|Execution) Time: ([\d.]+)", plan))
    return round(took, 2)


def page_of(found: dict[str, Any], args: argparse.Namespace) -> str:
    """Return the table: each leg with few rows and with many."""
    rows = []
    for leg, by in found.items():
        few, many = by[FEW], by[MANY]
        ratio = many["p50_ms"] / few["p50_ms"]
        rows.append(
            [
                leg.removeprefix("look ").replace("list ", "`hitl list`, "),
                _shown(few, ""),
                _shown(many, ""),
                f"{ratio:.2f}×",
                _shown(few, "db_"),
                _shown(many, "db_"),
            ]
        )
    head = [
        "least / p50 / p95 ms",
        "few",
        f"{args.rows:,}",
        "p50",
        "database, few",
        f"database, {args.rows:,}",
    ]
    server = found["sweep"]["server_ms"]
    return results.table(head, rows) + (
        f"\nA sweep with nothing due costs PostgreSQL itself {server[MANY]} ms, planning included"
        f" ({server[FEW]} ms with few requests).\n"
    )


def _shown(times: dict[str, float], prefix: str) -> str:
    return " / ".join(f"{times[f'{prefix}{name}_ms']:.3g}" for name in ("least", "p50", "p95"))


if __name__ == "__main__":
    sys.exit(main())
