"""The one clock. Nothing else in the project asks the system for the date.

Tests move it with `advance`; code that measures elapsed time uses `time.monotonic`.
"""

from datetime import UTC, datetime, timedelta

_offset = timedelta(0)


def now() -> datetime:
    """Return the present time, aware, in UTC."""
    return datetime.now(UTC) + _offset


def advance(**by: float) -> None:
    """Move the clock of this process; takes the keywords of `timedelta`. For tests."""
    global _offset
    _offset += timedelta(**by)


def reset() -> None:
    """Put the clock back to the system's time."""
    global _offset
    _offset = timedelta(0)
