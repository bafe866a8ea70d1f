"""One driver in a process of its own: `python -m tests.chaos.driver NAME CHANNEL SEED`.

`author` starts and changes conversations, `starter` runs of workflows, `asker` requests of its own;
`farm` works off the jobs they lead to, `courier` brings what comes from outside. Any other channel
answers what is open, racing the other drivers for the oldest requests. Ends when the file `stop`
appears in the run's folder.
"""

import os
import random
import sys
import time
from functools import partial
from itertools import count
from pathlib import Path

import django

STOP = "stop"
PAUSES = {
    "author": 0.12,
    "farm": 0.1,
    "starter": 0.6,
    "courier": 0.3,
    "asker": 1.0,
    "python": 0.25,
    "admin": 0.35,
    "cli": 2.5,
}
"""Longest pause between two acts, in seconds, on two busy cores."""
AFTER_TROUBLE = 0.3
OLDEST = 8
PRESSED_TWICE = 0.1


def main(name: str, channel: str, seed: str) -> None:
    django.setup()
    from django.db import connection

    from tests.chaos import ledger

    journal, rng = ledger.journal(), random.Random(f"{seed} {name}")
    named = {
        "author": _author,
        "farm": _farm,
        "starter": _starter,
        "courier": _courier,
        "asker": _asker,
    }
    act = named.get(channel, partial(_answerer, name, channel))(rng)
    stop = Path(os.environ["CHAOS_FOLDER"]) / STOP
    while not stop.exists():
        try:
            act()
        except Exception as error:  # the database is away, a terminal hangs: try the next
            journal.write("stumbled", driver=name, over=type(error).__name__, said=str(error))
            connection.close()
            time.sleep(AFTER_TROUBLE)
        time.sleep(rng.uniform(0, PAUSES[channel]))


def _author(rng: random.Random):
    from tests.chaos.author import Author

    return Author(rng).act


def _farm(rng: random.Random):
    from tests.chaos.farm import Farm

    return Farm(rng).act


def _starter(rng: random.Random):
    from tests.chaos.starter import Starter

    return Starter(rng).act


def _courier(rng: random.Random):
    from tests.chaos.courier import Courier

    return Courier(rng).act


def _asker(rng: random.Random):
    from tests.chaos.asker import Asker

    return Asker(rng).act


def _answerer(name: str, channel: str, rng: random.Random):
    from hitl.models import Park
    from tests.chaos import channels, ledger, wishes

    answer, journal, numbers = channels.of(channel, rng, name), ledger.journal(), count(1)

    def act() -> None:
        open_now = Park.objects.pending().cards().order_by("id")[: 10 * OLDEST]
        asked = [park for park in open_now if wishes.is_for_people(park)]
        if channel == "cli":  # whoever starts it is nobody of the group
            asked = [park for park in asked if not park.policy]
        # A terminal takes seconds to start: among the oldest it would never be first.
        asked = asked[-OLDEST:] if channel == "cli" else asked[:OLDEST]
        if not asked:
            return
        park = rng.choice(asked)
        wish = wishes.about(park, rng)
        for _ in range(2 if rng.random() < PRESSED_TWICE else 1):
            give(park, wish)

    def give(park: Park, wish: wishes.Wish) -> None:
        word = f"{name}-{os.getpid()}-{next(numbers)}"
        told = {"word": word, "request": str(park.id), "channel": channel}
        journal.write("answering", **told, wants=wish.status, doubt=park.reason == "in_doubt")
        try:
            outcome = answer(park, wish, word)
        except Exception as error:
            journal.write("answered", **told, delivered=None, code=type(error).__name__, took="")
            raise
        journal.write(
            "answered",
            **told,
            delivered=outcome.delivered,
            code=outcome.code,
            took=outcome.request_id,
        )

    return act


NAMED = {
    "author": _author,
    "farm": _farm,
    "starter": _starter,
    "courier": _courier,
    "asker": _asker,
}


if __name__ == "__main__":
    main(*sys.argv[1:])
