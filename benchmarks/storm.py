"""The expiry storm: many deadlines at once and nobody answers. How late does each run go on?

    python -m benchmarks.storm --rounds 3 --peers floor celery sayso procrastinate dbos absurd

1,000 parks whose deadlines spread over 3 s, and a light load of 100 over 10 s. Lateness runs from
the deadline that each product recorded to the effect of the run's second step.
"""

import argparse
import sys

from benchmarks import beside, results
from benchmarks.beside import median_of, sum_of

STORM, LIGHT = "storm", "light load"


def main() -> int:
    parser = beside.options(__doc__, ["floor", "celery", "sayso", "sayso-workflow"])
    parser.add_argument("--lead", type=float, default=40, help="seconds before the first deadline")
    args = parser.parse_args()
    lead = ["--lead", str(args.lead)]
    plays = {
        STORM: ("d", ["-n", str(args.n), "--spread", "3", *lead]),
        LIGHT: ("d", ["-n", "100", "--spread", "10", "--lead", "10"]),
    }
    found = beside.play(args, plays)
    beside.keep("storm", args, found, page_of(found, args))
    return 0


def page_of(found: dict[str, beside.Rounds], args: argparse.Namespace) -> str:
    """Return the table of lateness, beside the floor of the same run."""
    head = [
        f"lateness, p50 / p99 s (median of {args.rounds} rounds)",
        f"{args.n:,} in 3 s",
        "to the floor",
        "100 in 10 s",
        "once / lost / twice / early",
    ]
    base = median_of(found[STORM].get("floor", []), "late_p99_ms")
    rows = []
    for peer in args.peers:
        storm, light = found[STORM][peer], found[LIGHT][peer]
        p99 = median_of(storm, "late_p99_ms")
        ratio = f"{p99 / base:.1f}×" if p99 and base else "–"
        counts = [sum_of(storm, key) for key in ("once", "lost", "twice", "early")]
        counted = " / ".join(f"{count:,}" for count in counts)
        rows.append([beside.NAMES[peer], _late(storm), ratio, _late(light), counted])
    closed = _late(found[STORM].get("sayso", []), "closed")
    told = f"Sayso's requests themselves were closed {closed} s late in the storm. "
    return results.table(head, rows) + "\n" + told + beside.load_of(found)


def _late(rounds: list[dict[str, object]], what: str = "late") -> str:
    p50, p99 = median_of(rounds, f"{what}_p50_ms"), median_of(rounds, f"{what}_p99_ms")
    return "–" if p50 is None or p99 is None else f"{p50 / 1000:.3g} / {p99 / 1000:.3g}"


if __name__ == "__main__":
    sys.exit(main())
