"""Crash at point 1, 2, 3 … of a standalone request: its decision is told, at least once, as one."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from tests import invariants
from tests.simulation import errand
from tests.simulation.test_crash_loop import POINTS_MAX, every_point, every_write, said

pytestmark = [
    pytest.mark.usefixtures("everything_is_as_before"),
    pytest.mark.timeout(300),
]


def crash_everywhere(at: Callable[..., Any], times: int = 1) -> int:
    """Crash at 1, 2, 3 … until nothing crashes, `times` in a row; return how often."""
    for nth in itertools.count(1):
        assert nth < POINTS_MAX, "the errand never ends"
        one, fired = errand.fresh(), []
        for again in range(times):
            with at(nth if again == 0 else 1 + nth * 5 % 11) as crashing:
                one.play()
            if crashing.fired is None:
                break
            fired.append(crashing.fired)
            connection.close()
            with said(f"crash number {nth}: {fired}"):
                invariants.check(f"at the crash at {fired}")
                errand.restart()
        with said(f"crash number {nth}: {fired}"):
            one.play()
            invariants.check(f"after crashes at {fired}")
            one.judge(len(fired))
        if not fired:
            return nth
    raise AssertionError


@pytest.mark.promise("C1", "I2", "I6", "I7", "A2", "A3")
def test_a_crash_at_any_point_loses_no_decision() -> None:
    """Decided, owed, claimed, POSTed, noted: killed anywhere, it is told under one id."""
    assert crash_everywhere(every_point) > 20


@pytest.mark.promise("C1", "I2", "I6", "I7", "A3")
def test_a_crash_between_any_two_writes_loses_no_decision() -> None:
    assert crash_everywhere(every_write) > 10


@pytest.mark.promise("C1", "A3")
def test_a_crash_during_the_recovery_loses_no_decision() -> None:
    assert crash_everywhere(every_point, times=3) > 20
