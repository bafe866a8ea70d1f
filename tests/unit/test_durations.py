"""Durations as people write them."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hitl import durations
from hitl.errors import BadDuration

pytestmark = pytest.mark.promise("E9")


@pytest.mark.parametrize(
    ("written", "duration"),
    [
        ("250ms", timedelta(milliseconds=250)),
        ("30s", timedelta(seconds=30)),
        ("90m", timedelta(minutes=90)),
        ("4h", timedelta(hours=4)),
        ("2d", timedelta(days=2)),
        ("3650d", timedelta(days=3650)),
        (timedelta(minutes=5), timedelta(minutes=5)),
        (1500, timedelta(seconds=1.5)),
        (0.5, timedelta(microseconds=500)),
    ],
)
def test_a_duration_is_read(written: object, duration: timedelta) -> None:
    assert durations.parse(written) == duration  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "written",
    [
        0,
        -1,
        0.0,
        "0s",
        "-5m",
        timedelta(0),
        timedelta(seconds=-1),
        float("nan"),
        float("inf"),
        1e308,
        10**12,
        10**5000,
        "3651d",
        "9" * 15 + "d",
        "9" * 5000 + "d",
        timedelta.max,
        True,
        None,
        "",
        "4",
        "4 hours",
        "4 h",
        " 4h",
        "4h\n",
        "4H",
        "1.5h",
        "1e3s",
        "٤h",
        "4h30m",
        b"4h",
        [4],
        {},
    ],
    ids=lambda written: repr(written)[:20] if not isinstance(written, int) else "int",
)
def test_what_is_no_duration_is_refused_with_the_way_to_write_one(written: object) -> None:
    """Field report EXP-05."""
    with pytest.raises(BadDuration, match='write "30s", "90m", "4h" or "2d"') as caught:
        durations.parse(written)  # type: ignore[arg-type]
    assert caught.value.code == "invalid_duration"
    assert len(str(caught.value)) < 250


@given(st.timedeltas(min_value=timedelta(milliseconds=1), max_value=durations.LONGEST))
def test_what_is_spelled_is_read_back_to_the_millisecond(duration: timedelta) -> None:
    read = durations.parse(durations.spell(duration))
    assert abs(read - duration) <= timedelta(microseconds=500)


@given(st.integers(min_value=1, max_value=3650 * 24 * 3600 * 1000))
def test_whole_milliseconds_are_spelled_exactly(milliseconds: int) -> None:
    duration = durations.parse(milliseconds)
    assert durations.parse(durations.spell(duration)) == duration


@pytest.mark.parametrize(
    ("duration", "spelled"),
    [
        (timedelta(hours=4), "4h"),
        (timedelta(minutes=90), "90m"),
        (timedelta(hours=48), "2d"),
        (timedelta(milliseconds=1500), "1500ms"),
        (timedelta(0), "0s"),
        (timedelta(hours=-4), "-4h"),
    ],
)
def test_the_shortest_form_is_spelled(duration: timedelta, spelled: str) -> None:
    assert durations.spell(duration) == spelled
