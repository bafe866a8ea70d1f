"""From a start to an end with a person in between, in real processes on each broker."""

import pytest

from tests.acceptance.processes import wait_until
from tests.acceptance.stations import Station

pytestmark = pytest.mark.services


@pytest.fixture
def threaded_station(station: Station) -> Station:
    """A station whose one worker runs its tasks in threads."""
    station.worker("threaded", "--pool", "threads", "--concurrency", "4")
    return station


def goes_through(station: Station, reference: str) -> None:
    thread = station.started("payer", reference)
    assert station.effects(reference) == []
    assert station.answer(thread)["delivered"]
    assert station.wait_for_status(thread, "COMPLETED", "FAILED") == "COMPLETED"
    assert station.effects(reference) == ["pay"]
    assert station.call("audit", thread=thread) == [
        ["opened", "system", True],
        ["approved", "ana", False],
    ]


@pytest.mark.promise("O1", "P1", "A3")
def test_a_run_parks_in_a_worker_and_goes_on_after_an_answer_from_another_process(
    busy_station: Station, reference: str
) -> None:
    goes_through(busy_station, reference)


@pytest.mark.promise("O1", "P1", "A3")
def test_a_worker_that_runs_its_tasks_in_threads_does_the_same(
    threaded_station: Station, reference: str
) -> None:
    goes_through(threaded_station, reference)


@pytest.mark.promise("O1", "A7")
def test_a_denied_call_does_not_run_and_the_run_goes_on(
    busy_station: Station, reference: str
) -> None:
    thread = busy_station.started("payer", reference)
    busy_station.answer(thread, approved=False, reason="not this one")
    busy_station.wait_for_status(thread, "COMPLETED")
    assert busy_station.effects(reference) == []
    [denied] = busy_station.call("results", thread=thread)
    assert denied["outcome"] == "denied"
    assert denied["result"]["reason"] == "not this one"


@pytest.mark.promise("A3", "U6")
def test_an_answer_in_the_admin_counts_and_the_addresses_of_answers_do_nothing_when_fetched(
    busy_station: Station, reference: str
) -> None:
    """Field report DEC-11: a scanner opens every link of a message before its reader does."""
    thread = busy_station.started("payer", reference)
    addresses = busy_station.call("addresses", thread=thread)
    for address in addresses["acts"].values():
        for method in ("GET", "HEAD", "OPTIONS"):
            assert busy_station.call("visit", method=method, path=address)["status"] == 405
    assert len(busy_station.call("pending", thread=thread)) == 1
    page = busy_station.call("visit", method="GET", path=addresses["thread"])
    assert "Waiting for input" in page["text"]
    answer = busy_station.call("visit", method="POST", path=addresses["acts"]["approve"])
    assert answer["status"] == 302
    busy_station.wait_for_status(thread, "COMPLETED")
    assert busy_station.effects(reference) == ["pay"]
    page = busy_station.call("visit", method="GET", path=addresses["thread"])
    assert "Completed" in page["text"]
    assert "Waiting for input" not in page["text"]


@pytest.mark.promise("H6")
def test_a_model_that_asks_for_patience_gets_it_while_nobody_holds_the_run(
    busy_station: Station, reference: str
) -> None:
    thread = busy_station.started("turned-away", reference, until="WAITING")
    assert not busy_station.call("run", thread=thread)["is_leased"]
    assert busy_station.call("pending", thread=thread) == []
    busy_station.wait_for_status(thread, "COMPLETED")
    assert busy_station.effects(reference) == ["ask", "ask"]
    [wait] = busy_station.call("parks", thread=thread)
    assert (wait["reason"], wait["status"]) == ("retry", "timed_out")
    assert 0 <= wait["late"] < 2


@pytest.mark.promise("O4")
def test_a_task_of_an_unknown_name_is_dropped_and_harms_nobody(
    busy_station: Station, reference: str
) -> None:
    """Field report CEL-09."""
    worker = busy_station.standing_worker()
    busy_station.call("send_task", name="agents.of_a_later_release", args=[reference])
    wait_until(lambda: "agents.of_a_later_release" in worker.output(), "the worker has seen it")
    goes_through(busy_station, reference)
    assert worker.is_alive
