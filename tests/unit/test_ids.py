"""Ids that sort by time."""

import threading
import uuid
from datetime import UTC, datetime
from types import ModuleType

import pytest

from hitl import ids
from hitl.ids import new_id


def test_ids_are_version_7_and_carry_the_time(
    clock: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ids, "_last_tick", 0)  # as in a process that no test moved the clock of
    before = clock.now()
    made = new_id()
    assert (made.version, made.variant) == (7, uuid.RFC_4122)
    at = datetime.fromtimestamp((made.int >> 80) / 1000, tz=UTC)
    assert abs((at - before).total_seconds()) < 60


def test_ids_made_in_one_moment_sort_in_the_order_they_were_made() -> None:
    made = [new_id() for _ in range(20_000)]
    assert made == sorted(made)
    assert len(set(made)) == len(made)


def test_ids_stay_in_order_when_the_clock_goes_back(clock: ModuleType) -> None:
    clock.advance(seconds=2)
    earlier = new_id()
    clock.reset()
    assert new_id() > earlier


def test_ids_of_several_threads_differ() -> None:
    made: list[uuid.UUID] = []
    threads = [
        threading.Thread(target=lambda: made.extend(new_id() for _ in range(2000)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 8000
