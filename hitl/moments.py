"""Times and spans as a person reads them. Pure."""

from datetime import UTC, datetime, timedelta

_UNITS = (
    ("d", timedelta(days=1)),
    ("h", timedelta(hours=1)),
    ("m", timedelta(minutes=1)),
    ("s", timedelta(seconds=1)),
)


def span(duration: timedelta) -> str:
    """Return the two largest units, rounded down: "2d 4h", "14m 10s", "0s"; no sign."""
    parts = _parts(duration)
    return " ".join(parts[:2])


def short(duration: timedelta) -> str:
    """Return the largest unit alone, rounded down: "2d", "14m"; no sign."""
    return _parts(duration)[0]


def stamp(at: datetime) -> str:
    """Return the time in full, in UTC: "2026-05-01 12:00:00 UTC"."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _parts(duration: timedelta) -> list[str]:
    """Return the largest unit and those below it, as far as there is some of each in a row."""
    rest, parts = abs(duration), []
    for unit, length in _UNITS:
        count, rest = divmod(rest, length)
        if count:
            parts.append(f"{count}{unit}")
        elif parts:
            break
    return parts or ["0s"]
