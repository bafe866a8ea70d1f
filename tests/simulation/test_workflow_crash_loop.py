"""Crash at point 1, 2, 3 … of a workflow: it comes to its end, and no finished step runs again."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from tests import invariants
from tests.simulation import passages
from tests.simulation.arrivals import ARRIVALS
from tests.simulation.passages import PASSAGES, Passage
from tests.simulation.test_crash_loop import every_point, every_write, said

POINTS_MAX = 400

pytestmark = [
    pytest.mark.usefixtures("everything_is_as_before"),
    pytest.mark.timeout(300),
]


def crash_everywhere(passage: Passage, at: Callable[..., Any], *, times: int = 1) -> int:
    """Crash at 1, 2, 3 … until nothing crashes, `times` in a row; return how often."""
    for nth in itertools.count(1):
        assert nth < POINTS_MAX, "the passage never ends"
        passages.fresh()
        fired: list[str] = []
        for again in range(times):
            with at(nth if again == 0 else 1 + nth * 5 % 11) as crashing:
                passage.play()
            if crashing.fired is None:
                break
            fired.append(crashing.fired)
            connection.close()
            with said(f"crash number {nth}: {fired}"):
                invariants.check(f"at the crash at {fired}")
                passages.restart()
        with said(f"crash number {nth}: {fired}"):
            passage.play()
            invariants.check(f"after crashes at {fired}")
            passage.judge(len(fired))
        if not fired:
            return nth
    raise AssertionError


@pytest.mark.promise("W1", "W2", "W8", "W9", "W10", "W11", "W12", "K1", "A3", "A5", "A6", "P4")
@pytest.mark.parametrize("passage", PASSAGES, ids=str)
def test_a_crash_at_any_point_loses_nothing_and_repeats_no_finished_step(passage: Passage) -> None:
    """Field reports WAKE-01, WAKE-06, RPL-06."""
    assert crash_everywhere(passage, every_point) > 10


@pytest.mark.promise("K2", "K3", "K4", "K5")
@pytest.mark.parametrize("passage", ARRIVALS, ids=str)
def test_a_crash_at_any_point_loses_no_event_and_handles_none_twice(passage: Passage) -> None:
    assert crash_everywhere(passage, every_point) > 10


@pytest.mark.promise("W1", "A3", "A5")
@pytest.mark.parametrize("passage", PASSAGES[:2], ids=str)
def test_a_crash_between_any_two_writes_loses_nothing(passage: Passage) -> None:
    """Field report WAKE-04."""
    assert crash_everywhere(passage, every_write) > 10


@pytest.mark.promise("W1", "A3", "A6")
@pytest.mark.parametrize("passage", PASSAGES[:1], ids=str)
def test_a_crash_during_the_recovery_is_recovered_from(passage: Passage) -> None:
    assert crash_everywhere(passage, every_point, times=3) > 10
