"""A rolling deploy: the old worker is asked to stop in the middle of a run, a new one goes on."""

import pytest

from tests.acceptance.stations import Station

pytestmark = [pytest.mark.services, pytest.mark.timeout(180)]

ONE = ("--concurrency", "1")
THREADS = ("--pool", "threads", *ONE)
# As in the image, but for its 20 seconds.
BOUNDED = {"REMAP_SIGTERM": "SIGQUIT", "SHUTDOWN_SECONDS": "5"}


@pytest.mark.promise("O4")
def test_workers_that_are_stopped_hand_their_runs_to_another_at_the_next_boundary(
    station: Station, reference: str
) -> None:
    """Stopped inside the first of three tools, so the new worker has to do the others."""
    old = {
        station.worker("warm", *ONE, ready=False): "Warm shutdown",
        station.worker("threaded", *THREADS, ready=False): "Warm shutdown",
        station.worker("bounded", *ONE, ready=False, **BOUNDED): "Initiating Soft Shutdown",
    }
    for worker in old:
        worker.wait_for(" ready.")
    # Each takes one, since none may hold more than it works on.
    runs = [f"{reference}-{number}" for number in range(len(old))]
    threads = [station.call("start", agent="walker", message=run) for run in runs]
    for run in runs:
        station.wait_for_effect(run, "hold begins")
    new = station.worker("new")
    for worker, says in old.items():
        worker.terminate()
        worker.wait_for(says)
    for run in runs:
        station.release(run)
    for run, thread in zip(runs, threads, strict=True):
        assert station.wait_for_status(thread, "COMPLETED", "FAILED") == "COMPLETED"
        assert station.effects(run) == ["hold begins", "hold ends", "look", "look"]
        assert station.sessions(run, "look") == {new.pid}
        assert station.call("run", thread=thread)["leases"] == 2
    held_by = [station.sessions(run, "hold ends") for run in runs]
    assert set().union(*held_by) == {worker.pid for worker in old}
    for worker in old:
        worker.wait()
