"""Random histories of one thread: whatever comes in whatever order, the rows keep their word.

`ward.py` says what may happen and what holds. Hypothesis draws histories that are new each time and
shortens one that fails; a fixed seed plays the same ones each time. `make sim` plays thousands.
"""

import os
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.simulation import ward
from tests.simulation.histories import seeded

EXAMPLES = int(os.environ.get("SIM_EXAMPLES", "12"))
FIXED = 12

pytestmark = [
    pytest.mark.promise("P2", "P5", "P6", "A2", "A4", "A5", "A6", "A7", "E4", "E6", "H1", "H2"),
    pytest.mark.promise("H5", "J1", "J2", "J3", "J5", "S1", "S2", "N1", "N2", "N3", "N4", "N5"),
    pytest.mark.timeout(300),
]


def test_any_history_keeps_the_invariants_and_comes_to_rest(db: None) -> None:
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.randoms(use_true_random=False))
    def any_history(random: Random) -> None:
        ward.play(random)

    any_history()


def test_the_histories_of_a_seed_keep_the_invariants_and_come_to_rest(db: None) -> None:
    for number in range(1, FIXED + 1):
        ward.play(seeded("sayso", number))
