"""Workers killed with SIGKILL while a thousand runs are parked, and again while they are resumed.

    python -m benchmarks.kill --rounds 3 --peers floor celery sayso dbos langgraph

1,000 runs are parked; every worker is killed and started again, with settings as they come, and all
are answered. Then 1,000 more are parked and answered, and the workers are killed when 30 % are
done; a client sends again what has no result two seconds after the restart. An effect is a row.
"""

import argparse
import sys

from benchmarks import beside, results
from benchmarks.beside import median_of, sum_of

KILL = "kill"


def main() -> int:
    args = beside.options(__doc__, ["floor", "celery", "sayso", "sayso-workflow"]).parse_args()
    found = beside.play(args, {KILL: ("e", ["-n", str(args.n)])})
    beside.keep("kill", args, found, page_of(found, args))
    return 0


def page_of(found: dict[str, beside.Rounds], args: argparse.Namespace) -> str:
    """Return the table: how long until all was done, and what was done twice or lost."""
    head = [
        f"medians of {args.rounds} rounds, n = {args.n:,}",
        "restart → first done, s",
        "→ the rest done, s",
        "killed midway: restart → all done, s",
        "to Celery by hand",
        "effects lost / twice",
        "in doubt",
    ]
    rounds = found[KILL]
    base = median_of(rounds.get("celery", []), "midkill", "restart_to_all_done_s")
    rows = []
    for peer in args.peers:
        mine = rounds[peer]
        done = median_of(mine, "midkill", "restart_to_all_done_s")
        doubts = sum_of(mine, "midkill", "in_doubt")
        lost = sum_of(mine, "lost") + sum_of(mine, "midkill", "lost")
        twice = sum_of(mine, "twice") + sum_of(mine, "midkill", "twice")
        row = [
            beside.NAMES[peer],
            _shown(median_of(mine, "restart_to_first_done_s")),
            _shown(median_of(mine, "rest_done_s")),
            _shown(done),
            f"{done / base:.2f}×" if done and base else "–",
            f"{lost} / {twice}",
            str(doubts),
        ]
        rows.append(row)
    return results.table(head, rows) + "\n" + beside.load_of(found)


def _shown(seconds: float | None) -> str:
    return "–" if seconds is None else f"{seconds:.1f}"


if __name__ == "__main__":
    sys.exit(main())
