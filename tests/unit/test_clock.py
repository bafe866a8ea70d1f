"""The one clock."""

from datetime import UTC, timedelta
from types import ModuleType


def test_the_clock_is_aware_and_in_utc(clock: ModuleType) -> None:
    assert clock.now().tzinfo is UTC


def test_the_clock_is_moved_and_put_back(clock: ModuleType) -> None:
    before = clock.now()
    clock.advance(minutes=16)
    clock.advance(seconds=1)
    moved = clock.now()
    assert timedelta(minutes=16, seconds=1) <= moved - before < timedelta(minutes=17)
    clock.reset()
    assert clock.now() < moved
