"""Stations for the tests in real processes: one per broker, made when a test first asks for it."""

import subprocess
from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest

from tests import tiers
from tests.acceptance.brokers import Broker, RabbitBroker, RedisBroker
from tests.acceptance.processes import ROOT, Process, python
from tests.acceptance.stations import (
    Station,
    create_database,
    database_name,
    drop_database,
    environment_of,
)

BROKERS: dict[str, Callable[[int], Broker]] = {"redis": RedisBroker, "rabbitmq": RabbitBroker}


LOCK = 0x5A750
SLOTS = 6


@pytest.fixture(scope="session")
def slot() -> Iterator[int]:
    """A number that no other test process has now; it tells databases and virtual hosts apart."""
    with tiers.postgres() as connection:
        for number in range(1, SLOTS + 1):
            row = connection.execute("SELECT pg_try_advisory_lock(%s, %s)", [LOCK, number])
            if row.fetchone() == (True,):
                yield number
                return
    pytest.fail(f"{SLOTS} test processes use the services already")


@pytest.fixture(scope="session")
def migrated(slot: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the name of a migrated database to copy: migrating costs seconds, a copy does not."""
    name = database_name(slot, "template")
    create_database(name)
    environment = environment_of(name, "memory://localhost/", tmp_path_factory.mktemp("migrate"))
    command = python("manage.py", "migrate", "--no-input", "--verbosity", "0")
    subprocess.run(command, cwd=ROOT, env=environment, check=True)
    yield name
    drop_database(name)


@pytest.fixture(
    scope="session",
    # The tests of one broker stay together, so that they share its processes.
    params=[pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in BROKERS],
)
def made_station(
    request: pytest.FixtureRequest,
    slot: int,
    migrated: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Station]:
    name = request.param
    folder = tmp_path_factory.mktemp(name)
    database = database_name(slot, name)
    station = Station(BROKERS[name](slot), folder, database=database, template=migrated)
    yield station
    station.close()


@pytest.fixture
def station(made_station: Station) -> Iterator[Station]:
    """A station without any worker, and none left behind; its shared worker is ended first."""
    made_station.clear()
    yield made_station
    made_station.clear()


@pytest.fixture
def busy_station(made_station: Station) -> Station:
    """A station with the worker that tests share, and no beat."""
    made_station.standing_worker()
    return made_station


@pytest.fixture
def beat(made_station: Station) -> Iterator[Callable[[], Process]]:
    """A function that starts beat; without it nothing asks for a sweep."""
    started: list[Process] = []

    def start() -> Process:
        started.append(made_station.beat())
        return started[-1]

    yield start
    for one in started:
        one.kill()


@pytest.fixture
def reference() -> str:
    """What the run of this test is about; its effects are found by it."""
    return f"order-{uuid4().hex[:12]}"
