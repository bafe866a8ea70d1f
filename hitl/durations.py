"""Durations as people write them: "250ms", "30s", "90m" (minutes), "4h", "2d". Pure."""

import re
from datetime import timedelta
from functools import lru_cache

from hitl.errors import BadDuration

LONGEST = timedelta(days=3650)

_UNITS = {
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "m": timedelta(minutes=1),
    "s": timedelta(seconds=1),
    "ms": timedelta(milliseconds=1),
}
_WRITTEN = re.compile(r"([0-9]{1,15})(ms|[smhd])")


def parse(value: str | timedelta | int | float) -> timedelta:
    """Return the duration; a bare number is milliseconds.

    Raises BadDuration when it is unreadable, zero, negative, not a number, or over 3650 days.
    """
    try:
        duration = _read(value)
    except (OverflowError, ValueError):  # beyond timedelta, or NaN
        duration = None
    if duration is None or not timedelta(0) < duration <= LONGEST:
        raise BadDuration(
            f"{_shown(value)} is not a duration; write "
            f'"30s", "90m", "4h" or "2d", more than zero and at most {LONGEST.days} days.'
        )
    return duration


def spell(duration: timedelta) -> str:
    """Return the shortest form that `parse` reads, to the millisecond: "4h", "1500ms"."""
    sign, rest = ("-", -duration) if duration < timedelta(0) else ("", duration)
    rest = timedelta(milliseconds=round(rest / _UNITS["ms"]))
    if not rest:
        return "0s"
    unit = next(unit for unit, length in _UNITS.items() if not rest % length)
    return f"{sign}{rest // _UNITS[unit]}{unit}"


def _read(value: object) -> timedelta | None:
    if isinstance(value, timedelta):
        return value
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return timedelta(milliseconds=value)
    return _read_text(value) if isinstance(value, str) else None


@lru_cache
def _read_text(text: str) -> timedelta | None:
    """Read what is written; kept, since the same few settings are read all the time."""
    match = _WRITTEN.fullmatch(text)
    return int(match[1]) * _UNITS[match[2]] if match else None


def _shown(value: object) -> str:
    try:
        shown = repr(value)
    except ValueError:  # an integer too long to print
        return "The number"
    return shown if len(shown) <= 60 else shown[:60] + "…"
