"""A broker that forgets, is not there, or hangs. The rows go on where the messages are gone."""

from collections.abc import Callable, Iterator
from urllib.parse import urlsplit, urlunsplit

import pytest

from tests.acceptance.processes import Process, wait_until
from tests.acceptance.relay import Relay
from tests.acceptance.stations import Caller, Station

pytestmark = [pytest.mark.services, pytest.mark.timeout(180)]

# A hint that cannot be sent waits three times for at most `project.broker.SECONDS_MAX`.
ANSWER_SECONDS_MAX = 11


@pytest.mark.promise("P4", "A3", "E4")
def test_a_run_goes_on_although_the_broker_was_flushed_while_it_was_parked(
    busy_station: Station, reference: str
) -> None:
    """The processes live on: what they know of the broker is older than the flush."""
    thread = busy_station.started("payer", reference)
    busy_station.broker.flush()
    busy_station.answer(thread)
    busy_station.wait_for_status(thread, "COMPLETED")
    assert busy_station.effects(reference) == ["pay"]
    busy_station.started("payer", reference + "-next")


@pytest.mark.promise("A3", "E4")
def test_a_run_goes_on_although_the_hint_of_its_answer_was_flushed(
    busy_station: Station, beat: Callable[[], Process], reference: str
) -> None:
    """Field report WAKE-01."""
    thread = busy_station.started("payer", reference)
    busy_station.clear()
    assert busy_station.answer(thread)["delivered"]
    wait_until(lambda: busy_station.broker.waiting("agents") == 1, "the hint is in the broker")
    busy_station.broker.flush()
    assert busy_station.broker.waiting("agents") == 0
    beat()
    busy_station.standing_worker()
    busy_station.wait_for_status(thread, "COMPLETED")
    assert busy_station.effects(reference) == ["pay"]


@pytest.fixture
def relay(station: Station) -> Iterator[Relay]:
    url = urlsplit(station.broker.url)
    assert url.hostname is not None
    assert url.port is not None
    with Relay(url.hostname, url.port) as relay:
        yield relay


@pytest.fixture
def far_caller(station: Station, relay: Relay) -> Iterator[Caller]:
    """A caller, a worker and beat, all of which reach the broker over the relay."""
    parts = urlsplit(station.broker.url)
    netloc = parts.netloc.rpartition("@")
    login = f"{netloc[0]}@" if netloc[1] else ""
    url = urlunsplit(parts._replace(netloc=f"{login}127.0.0.1:{relay.port}"))
    caller = station.caller(BROKER_URL=url)
    station.worker("far", BROKER_URL=url)
    station.beat(BROKER_URL=url)
    yield caller
    caller.close()


@pytest.mark.promise("A3", "P4", "O1")
def test_answers_are_taken_in_time_while_the_broker_is_away_and_count_once_it_is_back(
    station: Station, relay: Relay, far_caller: Caller, reference: str
) -> None:
    """Field reports WAKE-01 and CEL-05."""
    threads = [station.started("payer", f"{reference}-{number}") for number in range(2)]
    station.call, near_caller = far_caller, station.call
    try:
        relay.freeze()
        hung = station.answer(threads[0])
        relay.cut()
        away = station.answer(threads[1])
    finally:
        station.call = near_caller
    assert hung["delivered"]
    assert away["delivered"]
    assert hung["seconds"] < ANSWER_SECONDS_MAX
    assert away["seconds"] < ANSWER_SECONDS_MAX
    assert [station.effects(f"{reference}-{number}") for number in range(2)] == [[], []]
    relay.mend()
    for number, thread in enumerate(threads):
        station.wait_for_status(thread, "COMPLETED")
        assert station.effects(f"{reference}-{number}") == ["pay"]
