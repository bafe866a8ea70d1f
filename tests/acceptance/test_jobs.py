"""Jobs in real processes: a farm that is no part of the project calls the site back by HTTP."""

from dataclasses import dataclass
from typing import Any

import pytest

from examples.render_farm.client import Client
from tests.acceptance.processes import wait_until
from tests.acceptance.stations import Station

# What is tried here does not depend on the broker.
pytestmark = [
    pytest.mark.services,
    pytest.mark.parametrize(
        "made_station",
        [pytest.param("redis", marks=pytest.mark.xdist_group("redis"))],
        indirect=True,
    ),
]


@dataclass(frozen=True)
class Studio:
    """A site and a farm that know each other, and workers who know both."""

    station: Station
    farm: Client
    environment: dict[str, str]

    def worker(self, name: str) -> Any:
        return self.station.worker(name, **self.environment)

    def finish(self, job_id: int) -> int:
        """Let a job be done, and return the status with which the site took the report."""
        self.farm.finish(job_id)
        replies = wait_until(lambda: self.farm.job(job_id)["replies"], "the farm has reported")
        return int(replies[-1]["status"])

    def reply(self, job_id: int) -> str:
        return str(self.farm.job(job_id)["replies"][-1]["said"])


@pytest.fixture
def studio(station: Station) -> Studio:
    site, farm = station.site(), station.farm()
    environment = {"BASE_URL": site, "RENDER_FARM_URL": farm}
    return Studio(station, Client(farm), environment)


def only_result(station: Station, thread: str) -> Any:
    [result] = station.call("results", thread=thread)
    return result["result"]


@pytest.mark.promise("J3")
def test_a_report_that_comes_before_the_park_is_committed_is_kept_and_applied(
    studio: Studio, reference: str
) -> None:
    station = studio.station
    studio.worker("early")
    thread = station.call("start", agent="slow-painter", message=reference)
    job_id = station.job_of(reference)
    assert studio.finish(job_id) == 200
    assert station.call("status", thread=thread) == "RUNNING"
    assert station.call("parks", thread=thread) == []
    station.release(reference)
    station.wait_for_status(thread, "COMPLETED")
    assert station.effects(reference) == [f"job {job_id}", "drawn"]
    assert only_result(station, thread)["job_id"] == job_id
    [park] = station.call("parks", thread=thread)
    assert (park["status"], park["channel"]) == ("approved", "webhook")


@pytest.mark.promise("J5", "A1")
def test_a_report_after_the_deadline_is_told_so_and_changes_nothing(
    studio: Studio, reference: str
) -> None:
    station = studio.station
    studio.worker("late")
    thread = station.call("start", agent="hasty-painter", message=reference)
    job_id = station.job_of(reference)
    station.wait_for_status(thread, "COMPLETED")
    assert station.effects(reference) == [f"job {job_id}", "not in time"]
    audit = station.call("audit", thread=thread)
    assert studio.finish(job_id) == 409
    assert '"code": "expired"' in studio.reply(job_id)
    assert only_result(station, thread) == "no picture in time"
    assert station.call("parks", thread=thread)[0]["status"] == "timed_out"
    # The late attempt is noted in the trail, as one that was refused.
    assert station.call("audit", thread=thread) == [
        *audit,
        ["refused", "resume address", False],
    ]


@pytest.mark.promise("J2", "N2", "P4", "S1")
def test_a_subagents_job_is_finished_while_no_worker_runs_and_the_run_goes_on_in_another(
    studio: Studio, reference: str
) -> None:
    station = studio.station
    first = studio.worker("first")
    thread = station.started("gallery", reference)
    job_id = station.job_of(reference)
    first.kill()
    assert studio.finish(job_id) == 200
    assert station.call("status", thread=thread) == "WAITING_FOR_INPUT"
    assert station.answer(thread)["delivered"]
    assert station.call("status", thread=thread) == "QUEUED"
    studio.worker("second")
    station.wait_for_status(thread, "COMPLETED")
    assert sorted(station.effects(reference)) == ["drawn", f"job {job_id}", "pay"]
    results = {one["tool_name"]: one["result"] for one in station.call("results", thread=thread)}
    assert results["draw"]["job_id"] == job_id
    assert results["delegate_to_painter"] == "Finished."
