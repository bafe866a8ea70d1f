"""What many parked runs hold in the worker, the broker and the database: nothing each."""

from typing import Any

import pytest

from tests.acceptance.processes import wait_until
from tests.acceptance.stations import Station

pytestmark = [pytest.mark.services, pytest.mark.timeout(180)]

# As in production; a deadline of half a minute gets its countdown when the run parks.
SWEPT_SELDOM = {"SWEEP_EVERY": "30s"}
PARKED = 200
NEAR = 5
# The two children of the worker and its main process, and the caller of this test.
PROCESSES = 4


@pytest.mark.promise("P4", "E3")
def test_parked_runs_hold_no_connection_and_only_near_deadlines_a_message(
    station: Station, reference: str
) -> None:
    """Field report CEL-04."""
    station.worker("own", **SWEPT_SELDOM)
    station.started("patient", f"{reference}-first")
    started = [
        station.call("start", agent="patient", message=f"{reference}-{number}")
        for number in range(PARKED)
    ]
    all_have_parked(station, started)
    wait_until(
        lambda: station.connections() <= PROCESSES, "no process has more than one connection"
    )
    # Last, since their deadlines are half a minute away.
    all_have_parked(
        station,
        [
            station.call("start", agent="soon", message=f"{reference}-near-{number}")
            for number in range(NEAR)
        ],
    )
    # RabbitMQ keeps what is for later itself; from Redis the worker takes it. Some may share one.
    scheduled = range(1, NEAR + 1) if station.broker.name == "redis" else range(1)
    wait_until(
        lambda: (held := station.call("held"))["reserved"] == 0 and held["scheduled"] in scheduled,
        f"the worker holds as many as {scheduled} for later",
    )
    assert station.broker.waiting("agents") == station.broker.waiting("deadlines") == 0


def all_have_parked(station: Station, threads: list[Any]) -> None:
    wait_until(
        lambda: station.call("statuses", threads=threads) == ["WAITING_FOR_INPUT"],
        "all have parked",
    )
