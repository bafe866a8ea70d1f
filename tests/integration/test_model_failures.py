"""Model calls that fail for a while: the run lets go, waits as a timer, and goes on (H6)."""

from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

import hitl
from agents import threads
from agents.llm.errors import ModelRefused, ModelUnavailable
from agents.testing import call, run_worker
from hitl.models import Decision, Park
from tests.desk import Desk


@pytest.mark.promise("H6")
def test_a_passing_failure_waits_without_a_lease_and_is_tried_again(desk: Desk, clock: Any) -> None:
    busy = ModelUnavailable("429", retry_after=timedelta(seconds=30))
    thread = desk.open(busy, "Here I am")
    assert thread.status == "WAITING"
    assert desk.run.lease_until is None
    assert desk.pending == [], "a timer is nobody's request"
    assert Decision.objects.count() == 0
    clock.advance(seconds=29)
    run_worker()
    assert thread.status == "WAITING"
    clock.advance(seconds=2)
    run_worker()
    assert thread.status == "COMPLETED"


@pytest.mark.promise("H6")
def test_waits_double_and_end_after_a_bounded_number(desk: Desk, clock: Any) -> None:
    down = [ModelUnavailable("down") for _ in range(7)]
    thread = desk.open(*down, "never")
    waits = []
    for _ in range(6):
        park = Park.objects.get(status="pending")
        waits.append((park.expires_at - park.opened_at).total_seconds())
        clock.advance(seconds=waits[-1] + 1)
        run_worker()
    assert all(earlier < later for earlier, later in pairwise(waits))
    assert thread.status == "FAILED"
    assert "7 times" in desk.run.error
    assert not Park.objects.filter(status="pending").exists()


@pytest.mark.promise("H6")
def test_a_reply_clears_the_count_of_failures(desk: Desk, clock: Any) -> None:
    down = ModelUnavailable("down")
    thread = desk.open(down, [call("look", what="a")], down, "Done")
    for _ in range(2):
        clock.advance(minutes=1)
        run_worker()
    assert thread.status == "COMPLETED"
    assert desk.run.model_failures == 0


@pytest.mark.promise("H6")
def test_a_long_retry_after_is_bounded(desk: Desk, clock: Any) -> None:
    desk.open(ModelUnavailable("429", retry_after=timedelta(days=30)), "Here")
    clock.advance(minutes=5, seconds=1)
    run_worker()
    assert desk.thread.status == "COMPLETED"


@pytest.mark.promise("H6")
def test_a_refusal_for_good_is_not_tried_again(desk: Desk) -> None:
    desk.open(ModelRefused("bad key"), "never")
    assert desk.thread.status == "FAILED"
    assert "bad key" in desk.run.error
    assert len(desk.model.requests) == 1


@pytest.mark.promise("H8", "H6")
def test_a_stop_ends_the_waiting_for_a_retry(desk: Desk, clock: Any) -> None:
    thread = desk.open(ModelUnavailable("down"), "never")
    threads.stop(thread)
    clock.advance(minutes=10)
    run_worker()
    assert thread.status == "CANCELLED"
    assert len(desk.model.requests) == 1
    assert "INPUT_CANCELLED" not in desk.event_types()


def test_a_timer_cannot_be_answered(desk: Desk) -> None:
    thread = desk.open(ModelUnavailable("down"), "Done")
    park = Park.objects.get()
    assert hitl.respond(thread, park.key, True).code == "not_found"
    assert hitl.decide(park.id, True).code == "not_found"
    assert thread.status == "WAITING"
