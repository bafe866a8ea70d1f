"""A failure stays what and where it is: what passes ends no run, and one row holds up no other."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError

from agents import backlog, history, threads
from agents.llm.errors import ModelUnavailable
from agents.models import Run
from agents.testing import call, run_worker
from agents.waiter import RunWaiter
from hitl import sweeping
from hitl.models import Park
from tests.desk import Desk

BUSY = ModelUnavailable("429 Too Many Requests", retry_after=timedelta(seconds=2))


@pytest.mark.promise("H6")
def test_failures_are_counted_anew_after_a_reply(desk: Desk, clock: Any, settings: Any) -> None:
    """Also where the reply and the next failure fall into one segment."""
    settings.AGENTS = {"MODEL_RETRIES_MAX": 2}
    desk.open(BUSY, BUSY, [call("look", what="a")], BUSY, BUSY, "Done")
    counts = []
    for _ in range(4):
        counts.append(desk.run.model_failures)
        clock.advance(seconds=3)
        run_worker()
    assert counts == [1, 2, 1, 2]
    assert desk.thread.status == "COMPLETED"


@pytest.mark.promise("H6", "A3")
@pytest.mark.django_db(transaction=True)
def test_a_database_that_fails_while_the_history_is_read_fails_no_run(
    clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Field report CEL-12: it says nothing about the model, so another segment asks it."""
    desk = Desk()
    desk.open("Hello", "Done")
    read, failures = history.earlier_turns, [OperationalError("the database is starting up")]

    def fail_once(*asked: Any) -> Any:
        if failures:
            raise failures.pop()
        return read(*asked)

    monkeypatch.setattr(history, "earlier_turns", fail_once)
    threads.send(desk.thread, "And now?")
    with pytest.raises(OperationalError):
        run_worker()
    assert desk.run.status == "RUNNING"
    clock.advance(seconds=7)
    run_worker()
    assert (desk.run.status, desk.run.error) == ("COMPLETED", "")
    assert failures == []


@pytest.mark.promise("E4", "H7")
def test_a_request_that_cannot_be_expired_holds_up_no_other(
    desk: Desk, clock: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The oldest deadline comes first in every sweep, and its waiter is broken.

    Together with it none can be expired, so the others are one by one.
    """
    for name in ("ana", "ben", "cleo"):
        desk.open([call("send", to=name)], "Done")
    oldest = Park.objects.soonest_first()[0]
    settled, settled_each = RunWaiter.settled, RunWaiter.settled_each

    def broken_each(self: RunWaiter, pairs: list[tuple[Run, Park]]) -> None:
        settled_each(self, pairs)
        if any(waiter.id == oldest.waiter_id for waiter, _ in pairs):
            raise ValueError("anything")

    def broken(self: RunWaiter, waiter: Run, parks: list[Park]) -> None:
        if waiter.id == oldest.waiter_id:
            raise ValueError("anything")
        settled(self, waiter, parks)

    monkeypatch.setattr(RunWaiter, "settled", broken)
    monkeypatch.setattr(RunWaiter, "settled_each", broken_each)
    clock.advance(minutes=16)
    assert sweeping.sweep()["expired"] == 2
    assert "3 requests could not be expired together" in caplog.text
    assert f"request {oldest.id} could not be expired" in caplog.text
    assert [park.id for park in Park.objects.pending()] == [oldest.id], "it stays due, and undone"
    assert len(backlog.owing()) == 2
    monkeypatch.undo()
    assert sweeping.sweep()["expired"] == 1
