"""The words of the screens: times, statuses, money, and text that is never marked as safe."""

from datetime import timedelta
from types import ModuleType

import pytest
from django.utils.safestring import SafeData, mark_safe

from hitl.templatetags import sayso


@pytest.mark.parametrize(
    ("away", "words"),
    [
        (timedelta(days=2, hours=4, minutes=9), "2d 4h left"),
        (timedelta(hours=1, minutes=1), "1h 1m left"),
        (timedelta(minutes=59, seconds=58), "59m left"),
        (timedelta(seconds=8), "8s left"),
        (timedelta(), "overdue by 0s"),
        (timedelta(minutes=-3), "overdue by 3m"),
    ],
)
def test_a_deadline_is_told_by_what_is_left(
    clock: ModuleType, monkeypatch: pytest.MonkeyPatch, away: timedelta, words: str
) -> None:
    now = clock.now()
    monkeypatch.setattr(clock, "now", lambda: now)
    assert sayso.left(now + away) == words
    assert sayso.is_near(now + away) == (away < timedelta(minutes=2))


def test_what_was_is_told_by_how_long_ago(
    clock: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = clock.now()
    monkeypatch.setattr(clock, "now", lambda: now)
    assert sayso.ago(now) == "just now"
    assert sayso.ago(now - timedelta(seconds=70)) == "1m ago"


@pytest.mark.promise("I1")
def test_each_status_has_words() -> None:
    said = [sayso.status(s) for s in ("pending", "rejected", "timed_out", "WAITING_FOR_INPUT")]
    assert said == ["Pending", "Denied", "Timed out", "Waiting for input"]
    assert sayso.money(12_345) == "$0.0123"


@pytest.mark.promise("U5")
def test_no_filter_vouches_for_a_text() -> None:
    text = mark_safe("<b>\u202e</b>")  # what a careless caller might pass
    for shown in (sayso.shown(text), sayso.as_json(text), sayso.as_json({text: text})):
        assert not isinstance(shown, SafeData)
        assert "\u202e" not in shown
