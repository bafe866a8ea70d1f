"""Processes that really end: killed at a point, with no clean-up of any kind, and others go on.

The same scenarios, invariants and counts as in `test_crash_loop.py`, at fewer points, since each
costs the start of a process.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.db import connection

from hitl import faults
from tests import invariants
from tests.simulation.scenarios import Scenario, named
from tests.simulation.test_crash_loop import fresh, judge, restart, said

STRIDE = 6

pytestmark = [
    pytest.mark.usefixtures("everything_is_as_before"),
    pytest.mark.timeout(300),
]


def database_url() -> str:
    """Return the address of this test's own database, for another process."""
    at = connection.settings_dict
    if connection.vendor == "sqlite":
        return f"sqlite:///{at['NAME']}"
    login = f"{at['USER']}:{at['PASSWORD']}" if at["PASSWORD"] else at["USER"]
    return f"postgres://{login}@{at['HOST']}:{at['PORT'] or 5432}/{at['NAME']}"


def play_apart(scenario: Scenario, journal: Path, *more: str, **told: str) -> int:
    """Play in a process of its own; return its exit status."""
    environment = os.environ | {
        "DATABASE_URL": database_url(),
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        **told,
    }
    command = [sys.executable, "-m", "tests.simulation.victim", scenario.name, str(journal), *more]
    return subprocess.run(command, env=environment, timeout=60, check=False).returncode


def play_and_die(scenario: Scenario, journal: Path, nth: int) -> int:
    """Play in a process of its own that dies at the n-th point; return its exit status."""
    return play_apart(scenario, journal, SAYSO_FAULT=f"*:{nth}")


def points_of(scenario: Scenario, journal: Path) -> list[str]:
    """Return the points that a process passes which nobody kills."""
    passed: list[str] = []
    stage = fresh(scenario, journal)
    with faults.armed(passed.append):
        scenario.play(stage)
    return passed


@pytest.mark.promise("P2", "P5", "A3", "A5", "A6")
def test_a_killed_process_loses_nothing_and_repeats_nothing(tmp_path: Path) -> None:
    """Field reports RUN-03 and CEL-02: the exit is that of a power cut, at every sixth point."""
    scenario = named("two calls, one gated")
    points = points_of(scenario, tmp_path / "journal")
    assert len(points) > 40
    for nth in range(1, len(points) + 1, STRIDE):
        stage = fresh(scenario, tmp_path / "journal")
        status = play_and_die(scenario, stage.journal.path, nth)
        with said(f"killed at point {nth}, {points[nth - 1]}"):
            assert status == faults.EXIT_STATUS
            invariants.check()
            restart(stage)
            scenario.play(stage)
            judge(scenario, stage, [points[nth - 1]])
    stage = fresh(scenario, tmp_path / "journal")
    assert play_and_die(scenario, stage.journal.path, len(points) + 1) == 0
    judge(scenario, stage, [])


@pytest.mark.promise("N2", "A4")
def test_a_tree_goes_on_when_each_act_is_played_by_another_process(tmp_path: Path) -> None:
    """Field report NEST-03: nothing of a subagent that waits is in anybody's memory."""
    scenario = named("three levels deep, approve")
    stage = fresh(scenario, tmp_path / "journal")
    for act in range(len(scenario.acts)):
        assert play_apart(scenario, stage.journal.path, str(act)) == 0
    judge(scenario, stage, [])
