"""Scenario P, park and resume, over Sayso and its peers in turn: the table of medians.

    python -m benchmarks.run --rounds 3 -n 300 --peers floor celery sayso dbos

Each peer runs in an environment of its own, `PEERS_VENVS`/<name> (`README.md` says which packages);
Sayso runs in the one that runs this. Rounds interleave the peers, so that a drift of the machine
meets all of them alike. With `--page` the table goes into `docs/explanation/performance.md`.
"""

import argparse
import sys
from typing import Any

from benchmarks import beside, results
from benchmarks.beside import median_of

PART = "ab"
YARDSTICK = "celery"
COLUMNS = (
    ("start→parked p50 ms", ("start_to_parked", "p50_ms")),
    ("answer→done p50 ms", ("answer_to_done", "p50_ms")),
    ("parked/s", ("park_per_s",)),
    ("resumed/s", ("resume_per_s",)),
    ("worker CPU ms: park", ("park_worker_cpu_ms_per_run",)),
    ("worker CPU ms: resume", ("resume_worker_cpu_ms_per_run",)),
    ("write transactions: park", ("park_db", "write_txns_per_run")),
    ("write transactions: resume", ("resume_db", "write_txns_per_run")),
)


def main() -> int:
    parser = beside.options(__doc__, ["floor", YARDSTICK, "sayso", "sayso-workflow"])
    parser.set_defaults(n=300)
    parser.add_argument("--singles", type=int, default=40, help="idle single runs")
    parser.add_argument("--page", action="store_true", help="put the table into the docs")
    args = parser.parse_args()
    more = ["-n", str(args.n), "--singles", str(args.singles)]
    found = beside.play(args, {PART: (PART, more)})
    text = page_of(found, args)
    on = beside.keep("run", args, found, text)
    if args.page:
        results.into_docs("run", f"{text}\n{on}\n")
    return 0 if all(len(found[PART][peer]) == args.rounds for peer in args.peers) else 1


def page_of(found: dict[str, beside.Rounds], args: argparse.Namespace) -> str:
    """Return the medians as a table, each with its ratio to Celery by hand."""
    head = ["", *(name for name, _ in COLUMNS)]
    rows = [_row(peer, found[PART]) for peer in args.peers if found[PART][peer]]
    said = (
        f"Medians of {args.rounds} interleaved rounds, {args.n} runs at once, {args.singles} alone."
    )
    return f"{results.table(head, rows)}\n{said} {beside.load_of(found)}"


def _row(peer: str, rounds: beside.Rounds) -> list[Any]:
    cells = [beside.NAMES[peer]]
    for name, path in COLUMNS:
        value, base = median_of(rounds[peer], *path), median_of(rounds.get(YARDSTICK, []), *path)
        if value is None:
            cells.append("–")
        elif base and "transactions" not in name:
            cells.append(f"{value:.3g} ({value / base:.2f}×)")
        else:
            cells.append(f"{value:.3g}")
    return cells


if __name__ == "__main__":
    sys.exit(main())
