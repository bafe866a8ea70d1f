"""Callbacks from a real worker, over HTTP, to a receiver that knows nothing of the project."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from standardwebhooks import Webhook

from hitl import signing
from tests.acceptance.processes import wait_until
from tests.acceptance.stations import Caller, Station
from tests.receiver import Receiver

SECRET = "kJ7-of-the-acceptance-tests-and-of-nothing-else"

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
class Office:
    """Someone who asks, someone who is told, and the environment that both know."""

    station: Station
    receiver: Receiver
    call: Caller
    environment: dict[str, str]

    def worker(self, name: str) -> Any:
        return self.station.worker(name, **self.environment)

    def decided(self) -> str:
        """Ask, and say yes."""
        request = str(self.call("request_approval", on_decide="/approvals/decide/"))
        assert self.call("decide", request_id=request, approved=True)
        return request

    def delivered(self, request: str) -> dict[str, Any]:
        """Return how the callback stands, once it is delivered."""

        def seen() -> dict[str, Any]:
            found: dict[str, Any] = self.call("callback", request_id=request)
            return found if found["status"] == "delivered" else {}

        return wait_until(seen, "the callback is delivered")


@pytest.fixture
def office(station: Station) -> Iterator[Office]:
    with Receiver() as receiver:
        environment = {"HMAC_SECRET": SECRET, "SITE_URL": receiver.url}
        call = station.caller(**environment)
        yield Office(station, receiver, call, environment)
        call.close()


@pytest.mark.promise("C1", "I3")
def test_a_decision_is_told_by_a_worker_and_again_after_a_failure(office: Office) -> None:
    office.receiver.answers = [503]
    office.worker("teller")
    request = office.decided()
    found = office.delivered(request)
    assert found["attempts"] == 2
    assert found["trail"] == ["opened", "approved", "callback_failed", "callback_sent"]
    first, second = office.receiver.calls
    hook = Webhook(signing.shared_form(signing.derive(SECRET)))
    for one in (first, second):
        told = hook.verify(one.body, one.headers)
        assert (told["approval_id"], told["status"]) == (request, "approved")
        assert one.path == "/approvals/decide/"
    assert first.headers["webhook-id"] == second.headers["webhook-id"]


@pytest.mark.promise("C1", "A3", "E4")
def test_a_decision_without_a_worker_is_told_once_one_comes_up(office: Office) -> None:
    """Its message is lost with the broker's memory: the row is what counts."""
    request = office.decided()
    office.station.broker.flush()
    assert office.call("callback", request_id=request)["status"] == "owed"
    office.worker("late")
    found = office.delivered(request)
    assert found["attempts"] == 1
    assert len(office.receiver.calls) == 1
