"""Crash at point 1, 2, 3 … of extending, warning, voting, editing, sealing and blanking.

Each act is repeated after the crash, as people and sweeps do. What may not happen: an edit without
its yes, a vote that counts twice, a call that runs with other arguments than were approved, a trail
that does not verify.
"""

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from agents.testing import run_worker
from hitl import clock
from hitl.models import Decision, Park, Verb
from hitl.trail import sealing, verifying
from tests import invariants
from tests.simulation.filing import Filing
from tests.simulation.test_crash_loop import POINTS_MAX, every_point, every_write, said

pytestmark = [
    pytest.mark.usefixtures("everything_is_as_before"),
    pytest.mark.timeout(300),
]


def crash_everywhere(at: Callable[..., Any]) -> int:
    """Crash at 1, 2, 3 … until nothing crashes; return how often."""
    for nth in itertools.count(1):
        assert nth < POINTS_MAX, "the filing never ends"
        clock.reset()
        filing = Filing()
        with at(nth) as crashing:
            filing.play()
        if crashing.fired is not None:
            connection.close()
            with said(f"crash number {nth}: {crashing.fired}"):
                invariants.check(f"at the crash at {crashing.fired}")
                filing.restart()
                filing.play()
                run_worker()
        with said(f"crash number {nth}: {crashing.fired}"):
            invariants.check(f"after a crash at {crashing.fired}")
            filing.judge()
        if crashing.fired is None:
            return nth
    raise AssertionError


@pytest.mark.promise("A9", "I2", "I8", "I12", "E10")
def test_a_crash_at_any_point_leaves_one_edit_each_vote_once_and_a_sound_trail() -> None:
    assert crash_everywhere(every_point) > 30


@pytest.mark.promise("A9", "I2", "I8", "I12", "E10")
def test_a_crash_between_any_two_writes_does_so_too() -> None:
    assert crash_everywhere(every_write) > 15


@pytest.mark.promise("O5", "I12")
def test_blanking_that_was_cut_off_goes_on() -> None:
    for nth in itertools.count(1):
        clock.reset()
        filing = Filing()
        filing.play()
        with every_point(nth) as crashing:
            filing.age()
        if crashing.fired is not None:
            connection.close()
            filing.blank()
        sealing.seal_loose()
        assert verifying.verify().is_sound
        assert Park.objects.filter(blanked_at=None).count() == 0
        assert Decision.objects.filter(verb=Verb.BLANKED).count() == 2
        if crashing.fired is None:
            return
