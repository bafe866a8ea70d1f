"""Filters of the screens: untrusted text made visible, JSON in full, times as people say them.

None returns safe text: the template escapes whatever comes out (U5).
"""

from datetime import datetime, timedelta
from typing import Any

from django import template

from hitl import clock, display, durations, moments
from hitl.models import Park

register = template.Library()

NEAR = timedelta(minutes=2)
JUST_NOW = timedelta(seconds=5)
PRECISE_FROM = timedelta(hours=1)
SECOND = timedelta(seconds=1)
BRIEF = timedelta(seconds=10)

_JOB_WORDS = {"approved": "Finished", "rejected": "Given up", "timed_out": "Not finished in time"}
_CALLBACK_WORDS = {
    "waiting": "Waits",
    "owed": "To be sent",
    "dead": "Given up",
    "none": "Nobody to call",
}
_STATUS_WORDS = {"rejected": "Denied", "ok": "Done", "WAITING": "Waiting to try again"}


@register.filter
def shown(value: object) -> str:
    """Return a text with its control, direction and invisible characters spelled out."""
    return display.visible(str(value))


@register.filter
def as_json(value: Any) -> str:
    """Return indented JSON in full, hidden characters spelled out."""
    return display.pretty(value)


@register.filter
def status(value: str) -> str:
    """Return a status in words: "Denied", "Timed out", "Waiting for input"."""
    return _STATUS_WORDS.get(value) or value.replace("_", " ").capitalize()


@register.filter
def run_status(value: str) -> str:
    """Return the status of a workflow's run in words: one that waits for time, or for others."""
    return "Waiting" if value == "WAITING" else status(value)


@register.filter
def callback(value: str) -> str:
    """Return the status of a callback in words: "To be sent", "Given up"."""
    return _CALLBACK_WORDS.get(value) or status(value)


@register.filter
def due(moment: datetime) -> str:
    """Return when something is due: "in 12s", "now"."""
    away = moment - clock.now()
    return f"in {moments.short(away)}" if away >= SECOND else "now"


@register.filter
def standing(park: Park) -> str:
    """Return how a request stands: its status, or for a job "Waits for a job", "Finished"."""
    if park.is_for_people:
        return status(park.status)
    if park.is_pending:
        return "Waits for a job" if park.reason == "job" else f"Waits: {shown(park.reason)}"
    return _JOB_WORDS.get(park.status) or status(park.status)


@register.filter
def ago(moment: datetime) -> str:
    """Return how long ago a moment was: "12m ago", "just now"."""
    passed = clock.now() - moment
    return "just now" if passed < JUST_NOW else f"{moments.short(passed)} ago"


@register.filter
def left(deadline: datetime) -> str:
    """Return how far away a deadline is: "3h 20m left", "12m left", "overdue by 3m"."""
    remaining = deadline - clock.now()
    if remaining <= timedelta():
        return f"overdue by {moments.short(remaining)}"
    spell = moments.span if remaining >= PRECISE_FROM else moments.short
    return f"{spell(remaining)} left"


@register.filter
def is_near(deadline: datetime) -> bool:
    """Tell whether a deadline is less than two minutes away, or past."""
    return deadline - clock.now() < NEAR


@register.filter
def lasting(span: timedelta) -> str:
    """Return how long something took: "0.4s", "12m"."""
    return f"{span.total_seconds():.1f}s" if span < BRIEF else moments.short(span)


@register.filter
def spell(span: timedelta) -> str:
    """Return a duration as it is written in settings and forms: "5m"."""
    return durations.spell(span)


@register.filter
def money(micros: int) -> str:
    """Return a cost in millionths of a dollar as dollars: "$0.0123"."""
    return f"${micros / 1_000_000:.4f}"
