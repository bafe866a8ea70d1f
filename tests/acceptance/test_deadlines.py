"""Deadlines that pass while nobody looks: by countdown, by the sweep, and at a worker's start."""

import pytest

from tests.acceptance.processes import wait_until
from tests.acceptance.stations import Station

pytestmark = pytest.mark.services

NO_COUNTDOWN = {"HORIZON": "1ms"}
ON_TIME_SECONDS = 1.5
SWEEP_SECONDS = 1.0
EXPIRED = "user had no response, action cancelled. The action was NOT performed."


def expired(station: Station, thread: str, reference: str) -> dict[str, object]:
    """Return the park of a run that went on because its deadline passed, once it is complete."""
    station.wait_for_status(thread, "COMPLETED")
    assert station.effects(reference) == []
    [park] = station.call("parks", thread=thread)
    assert park["status"] == "timed_out"
    [result] = station.call("results", thread=thread)
    assert result["result"]["message"] == EXPIRED
    assert station.call("audit", thread=thread)[-1] == ["expired", "system", True]
    return dict(park)


@pytest.mark.promise("E2", "E3", "E5")
def test_a_short_deadline_passes_on_time_by_its_countdown_without_beat(
    busy_station: Station, reference: str
) -> None:
    """Field reports EXP-01 and EXP-06."""
    thread = busy_station.started("hasty", reference)
    park = expired(busy_station, thread, reference)
    assert park["channel"] == "countdown"
    assert 0 <= park["late"] < ON_TIME_SECONDS  # type: ignore[operator]


@pytest.mark.promise("E4", "E5")
def test_with_its_countdown_lost_a_deadline_is_met_by_the_sweep_that_beat_asks_for_by_itself(
    station: Station, reference: str
) -> None:
    """Field report EXP-01."""
    station.call("forget_schedule")
    station.beat()
    [sweep] = wait_until(lambda: station.call("schedule"), "the sweep is in beat's schedule")
    assert sweep == ["hitl.sweep", True, 1, "seconds"]
    station.worker("sweeper", **NO_COUNTDOWN)
    thread = station.started("hasty", reference)
    station.broker.flush()
    park = expired(station, thread, reference)
    assert park["channel"] == "sweep"
    assert 0 <= park["late"] < SWEEP_SECONDS + ON_TIME_SECONDS  # type: ignore[operator]


@pytest.mark.promise("E4", "P4")
def test_a_worker_that_starts_sweeps_what_fell_due_while_none_ran(
    busy_station: Station, reference: str
) -> None:
    thread = busy_station.started("hasty", reference)
    busy_station.clear()

    def is_overdue() -> bool:
        return bool(busy_station.call("parks", thread=thread)[0]["is_overdue"])

    wait_until(is_overdue, "the deadline has passed")
    busy_station.standing_worker()
    assert expired(busy_station, thread, reference)["channel"] == "sweep"
