"""When what goes wrong, from the seed alone. Pure.

The kinds are dealt like cards from a pack that is shuffled anew when it is empty, so that a short
run sees nearly all of them and a long one each about as often as it stands in the pack.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat

FIRST_SECONDS = 6.0
GAP_SECONDS = (0.8, 3.2)
LAST_SECONDS = 4.0
"""So long before the end nothing begins any more."""

WORKERS = ("prefork", "threads", "deadlines")
FORKING = ("prefork", "deadlines")

PACK = {
    "kill worker": 3,
    "kill child": 3,
    "kill parent": 1,
    "terminate worker": 2,
    "quit worker": 2,
    "freeze worker": 4,
    "freeze child": 2,
    "kill beat": 1,
    "terminate beat": 1,
    "freeze beat": 1,
    "kill web": 1,
    "cut database": 3,
    "restart database": 1,
    "crash database": 1,
    "flood of sweeps": 2,
    "deliver late and twice": 3,
    "deliver old messages": 2,
    "lose messages": 2,
    "drop broker connections": 2,
    "broker vanishes": 2,
    "broker hangs": 2,
}
PACK_OF = {"redis": {"restart broker": 1, "flush broker": 2}, "rabbitmq": {}}
TARGETS = {
    "kill worker": WORKERS,
    "kill child": FORKING,
    "kill parent": FORKING,
    "terminate worker": WORKERS,
    "quit worker": WORKERS,
    "freeze worker": WORKERS,
    "freeze child": FORKING,
    "kill beat": ("beat",),
    "terminate beat": ("beat",),
    "freeze beat": ("beat",),
    "kill web": ("web",),
}
SECONDS = {
    # Longer than a lease, so that another worker takes over what the frozen one holds.
    "freeze worker": (4.0, 8.0),
    "freeze child": (4.0, 8.0),
    "freeze beat": (3.0, 6.0),
    "broker vanishes": (0.5, 4.0),
    "broker hangs": (2.0, 6.0),
    "deliver late and twice": (1.0, 8.0),
}


@dataclass(frozen=True, slots=True)
class Mishap:
    """One thing that goes wrong: `at` and for how many `seconds`, both from the start.

    `target` is a process's name or empty, `number` picks among whatever there is to pick from.
    """

    at: float
    kind: str
    target: str
    number: int
    seconds: float

    def __str__(self) -> str:
        return f"{self.kind} {self.target}".strip()


def draw(seed: int, *, seconds: float, broker: str) -> list[Mishap]:
    """Return the mishaps of a run, in order."""
    rng = random.Random(f"{seed} {broker}")
    return list(_mishaps(rng, seconds, _dealt(rng, PACK | PACK_OF[broker])))


def _mishaps(rng: random.Random, seconds: float, kinds: Iterator[str]) -> Iterator[Mishap]:
    at = FIRST_SECONDS
    while at < seconds - LAST_SECONDS:
        kind = next(kinds)
        yield Mishap(
            at=at,
            kind=kind,
            target=rng.choice(TARGETS.get(kind, ("",))),
            number=rng.randrange(1000),
            seconds=rng.uniform(*SECONDS.get(kind, (0.0, 0.0))),
        )
        at += rng.uniform(*GAP_SECONDS)


def _dealt(rng: random.Random, pack: dict[str, int]) -> Iterator[str]:
    cards = [kind for kind, count in pack.items() for kind in repeat(kind, count)]
    while True:
        rng.shuffle(cards)
        yield from cards
