"""Which runs of workflows are begun, with what input: drawn at random. Pure."""

import random
from typing import Any, NamedTuple

from tests.chaos import scripts

PATIENCE = "1h"
IMPATIENCE = "3s"
TILLS = 3
WEIGHTS = {
    "refund": 20,
    "fan": 20,
    "reply": 25,
    "ladder": 10,
    "nap": 8,
    "both": 8,
    "consult": 8,
    "brittle": 6,
    "poisoned": 0.4,
}


class Plan(NamedTuple):
    """One run to be: the workflow's name, and its input."""

    workflow: str
    arguments: dict[str, Any]


def draw(reference: str, rng: random.Random) -> Plan:
    """Return a plan drawn at random; its input names the reference."""
    name = rng.choices(list(WEIGHTS), weights=list(WEIGHTS.values()))[0]
    more: dict[str, Any] = {}
    match name:
        case "refund":
            more = {"ttl": rng.choice([PATIENCE, PATIENCE, IMPATIENCE])}
        case "fan":
            more = {"width": rng.randint(2, 5)}
        case "ladder":
            more = {"rungs": rng.randint(1, 3)}
        case "both":
            more = {"till": f"till {rng.randrange(TILLS)}"}
        case "consult":
            more = {"message": scripts.draw(f"{reference}c", rng)}
    return Plan(name, {"reference": reference, **more})
