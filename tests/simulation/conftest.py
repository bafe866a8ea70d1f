"""What every simulation leaves as it found it."""

from collections.abc import Iterator

import pytest

from agents import segments
from hitl import clock, faults


@pytest.fixture
def everything_is_as_before(transactional_db: None) -> Iterator[None]:
    """Give a real database without a transaction around it, and put the clock back afterwards."""
    yield
    faults.disarm()
    faults.forget()
    clock.reset()
    segments.clear_shutdown()
