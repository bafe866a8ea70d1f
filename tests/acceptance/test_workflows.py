"""Workflows in real workers: steps side by side, gates, hooks, sleeps, and a kill in between."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.acceptance.processes import Process, wait_until
from tests.acceptance.stations import Station

pytestmark = [pytest.mark.services, pytest.mark.timeout(180)]


def reaches(station: Station, run: str, *statuses: str) -> dict[str, Any]:
    """Return how the run stands once it has one of these statuses."""

    def reached() -> dict[str, Any] | None:
        found: dict[str, Any] = station.call("workflow_run", run_id=run)
        return found if found["status"] in statuses else None

    return wait_until(reached, f"a workflow becomes {statuses}") or {}


@pytest.mark.promise("W1", "W2", "W6", "W9", "O1", "E5")
def test_a_workflow_goes_through_steps_gates_and_hooks(
    busy_station: Station, reference: str
) -> None:
    """On a worker alone, without beat: every hint reaches it, the pause of the retry included."""
    station = busy_station
    run = station.call("start_workflow", name="acceptance.passage", reference=reference)
    nap = station.call("start_workflow", name="acceptance.nap", reference=f"{reference}-nap")
    reaches(station, run, "WAITING_FOR_INPUT")
    assert Counter(station.effects(reference)) == Counter(
        ["first", "left", "right", "attempt 1", "attempt 2"]
    )
    [gate] = station.call("pending", thread=run)
    station.call("respond", thread=run, tool_call_id=gate["tool_call_id"], approved=True)
    wait_until(
        lambda: [one["reason"] for one in station.call("pending", thread=run)] == ["hook"],
        "it waits for its hook",
    )
    assert station.call("resume", token=reference, payload={"text": "yes"})
    over = reaches(station, run, "COMPLETED", "FAILED")
    assert over["output"] == ["first", ["left", "right", 2], "approved", 0, {"text": "yes"}]
    assert reaches(station, nap, "COMPLETED")["output"] == "awake"


@pytest.mark.promise("W1", "W9", "A6", "P6")
def test_steps_whose_worker_is_killed_are_taken_over_and_finished_ones_are_not(
    busy_station: Station, beat: Callable[[], Process], reference: str
) -> None:
    station = busy_station
    run = station.call("start_workflow", name="acceptance.holding", reference=reference)
    for what in ("left begins", "right begins"):
        station.wait_for_effect(reference, what)
    station.standing_worker().kill()
    station.release(reference)
    beat()
    station.standing_worker()
    assert reaches(station, run, "COMPLETED", "FAILED")["output"] == ["before", ["left", "right"]]
    assert Counter(station.effects(reference)) == Counter(
        {"before": 1, "left begins": 2, "right begins": 2, "left ends": 1, "right ends": 1}
    )
