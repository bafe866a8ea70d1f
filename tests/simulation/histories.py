"""Thousands of random histories: `python -m tests.simulation.histories SEED COUNT`.

History n of a seed is the same each time, so a failure is played again by its number:
`… SEED COUNT FIRST`. Each of SIM_JOBS processes (one per core) has a database in its memory;
SIM_SECONDS bounds the time. One history in EVERY is looked at closely on its way, the others in the
end; one that failed is played again with a close look after each act, which names the first that
broke something.
"""

import gc
import logging
import multiprocessing
import os
import random
import sys
import traceback
import warnings
from functools import partial
from time import monotonic

EVERY = 4
CLOSELY_EACH = 6
"""Acts between two close looks on the way."""
AT_ONCE = 4


def seeded(seed: str, number: int) -> random.Random:
    """Return the source of everything that is drawn in one history."""
    random.seed(f"{seed}:{number}")  # the backoff's jitter draws from here
    return random.Random(f"{seed}:{number}")


def open_database() -> None:
    """Make this process ready to play, on a database of its own."""
    os.environ["DATABASE_URL"] = "sqlite://:memory:"
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    warnings.simplefilter("error")
    import django

    django.setup()
    from django.core.management import call_command

    logging.disable(logging.CRITICAL)
    call_command("migrate", verbosity=0)
    gc.freeze()
    gc.set_threshold(50_000)


def play(seed: str, number: int) -> tuple[int, int, str]:
    """Play one history; returns its number, how many acts it had, and what failed or nothing."""
    from tests.simulation import ward

    try:
        each = CLOSELY_EACH if number % EVERY == 0 else ward.ACTS_MAX + 1
        return number, len(ward.play(seeded(seed, number), each).trail), ""
    except Exception:
        failure = traceback.format_exc()
    try:
        ward.play(seeded(seed, number), 1)
    except Exception:
        failure = traceback.format_exc()
    return number, 0, failure


def main(seed: str, count: int, first: int) -> int:
    """Play so many histories, and show how far it has come; the first failure ends it."""
    bound = float(os.environ.get("SIM_SECONDS", "inf"))
    jobs = int(os.environ.get("SIM_JOBS", os.cpu_count() or 1))
    began, done, acts = monotonic(), 0, 0
    numbers = range(first, first + count)
    with multiprocessing.get_context("spawn").Pool(jobs, open_database) as pool:
        for number, played, failure in pool.imap_unordered(partial(play, seed), numbers, AT_ONCE):
            if failure:
                sys.stderr.write(f"\nhistory {number} of seed {seed} failed\n{failure}")
                return 1
            done, acts, seconds = done + 1, acts + played, monotonic() - began
            if seconds > bound:
                break
            if sys.stderr.isatty() or done % 100 == 0:
                sys.stderr.write(f"\r{done} of {count} histories, {seconds:.0f} s")
    seconds = monotonic() - began
    sys.stdout.write(f"\nseed {seed}: {done} histories, {acts} acts, {seconds:.0f} s, all held\n")
    return 0


if __name__ == "__main__":
    chosen = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    sys.exit(main(sys.argv[1], int(sys.argv[2]), chosen))
