"""A worker that is killed with everything in its hands, and the next one that takes it up."""

from collections.abc import Callable

import pytest

from tests.acceptance.processes import Process, wait_until
from tests.acceptance.stations import Station

pytestmark = [pytest.mark.services, pytest.mark.timeout(180)]


@pytest.mark.promise("P4", "P6", "A6", "O1")
def test_after_a_kill_parked_runs_wait_free_tools_run_again_and_gated_ones_are_asked_about(
    busy_station: Station, beat: Callable[[], Process], reference: str
) -> None:
    """Field reports CEL-02 and RUN-03."""
    parked, free, gated = (f"{reference}-{name}" for name in ("parked", "free", "gated"))
    station = busy_station
    parked_thread = station.started("patient", parked)
    free_thread = station.call("start", agent="holder", message=free)
    station.wait_for_effect(free, "hold begins")
    gated_thread = station.started("slow-payer", gated)
    station.answer(gated_thread)
    station.wait_for_effect(gated, "pay begins")
    station.standing_worker().kill()

    for one in (parked, free, gated):
        station.release(one)
    beat()
    station.standing_worker()

    station.wait_for_status(free_thread, "COMPLETED")
    assert station.effects(free) == ["hold begins", "hold begins", "hold ends"]

    station.wait_for_status(gated_thread, "WAITING_FOR_INPUT")
    [question] = station.call("pending", thread=gated_thread)
    assert question["reason"] == "in_doubt"
    assert station.effects(gated) == ["pay begins"]
    station.answer(gated_thread, payload={"receipt": 17})
    station.wait_for_status(gated_thread, "COMPLETED")
    assert station.effects(gated) == ["pay begins"]
    [result] = station.call("results", thread=gated_thread)
    assert (result["outcome"], result["result"]) == ("answered", {"receipt": 17})

    assert station.call("status", thread=parked_thread) == "WAITING_FOR_INPUT"
    station.answer(parked_thread)
    station.wait_for_status(parked_thread, "COMPLETED")
    assert station.effects(parked) == ["pay"]


@pytest.mark.promise("A6")
def test_a_tool_that_kills_its_worker_ends_its_run_and_nobody_elses(
    busy_station: Station, beat: Callable[[], Process], reference: str
) -> None:
    """Field report CEL-03."""
    station = busy_station
    beat()
    poison = station.call("start", agent="poison", message=reference)
    other = station.started("payer", reference + "-other")
    wait_until(lambda: len(station.effects(reference)) >= 2, "it has killed twice")
    station.answer(other)
    station.wait_for_status(other, "COMPLETED")
    station.wait_for_status(poison, "FAILED")
    assert "Given up" in station.call("run", thread=poison)["error"]
