"""What many parked runs hold in the worker, the broker and the database: nothing each."""

import pytest

from tests.acceptance.processes import wait_until
from tests.acceptance.stations import Station

pytestmark = [pytest.mark.services, pytest.mark.timeout(180)]

PARKED = 200
NEAR = 5
# The two children of the worker and its main process, and the caller of this test.
PROCESSES = 4


@pytest.mark.promise("P4", "E3")
def test_parked_runs_hold_no_connection_and_only_near_deadlines_a_message(
    busy_station: Station, reference: str
) -> None:
    """Field report CEL-04."""
    station = busy_station
    station.started("patient", f"{reference}-first")
    started = [
        station.call("start", agent="patient", message=f"{reference}-{number}")
        for number in range(PARKED)
    ]
    near = [station.started("soon", f"{reference}-near-{number}") for number in range(NEAR)]
    wait_until(
        lambda: station.call("statuses", threads=started + near) == ["WAITING_FOR_INPUT"],
        "all have parked",
    )
    wait_until(
        lambda: station.connections() <= PROCESSES, "no process has more than one connection"
    )
    # RabbitMQ keeps what is for later itself; from Redis the worker takes it. Some may share one.
    scheduled = range(1, NEAR + 1) if station.broker.name == "redis" else range(1)
    wait_until(
        lambda: (held := station.call("held"))["reserved"] == 0 and held["scheduled"] in scheduled,
        f"the worker holds as many as {scheduled} for later",
    )
    assert station.broker.waiting("agents") == station.broker.waiting("deadlines") == 0
