"""The one place that turns a deadline into a countdown, or leaves it to the sweep.

A countdown costs memory in a worker for as long as it runs, so only deadlines that are near get
one: at once, where the next sweep may come too late, and else from the sweep that finds it inside
the horizon. Deadlines close together share theirs, so however many runs are parked, broker and
workers hold a bounded number of timers (E3). `expires_at` is the truth: a countdown that
is lost, late, early or repeated changes nothing (E4).
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import partial

from django.db import transaction

from hitl import clock, conf, hints
from hitl.models import Park

EXPIRE = "hitl.expire"
SWEEP = "hitl.sweep"
SETTLE = "hitl.settle"


SLOT = timedelta(milliseconds=100)
"""How late a deadline may be closed because others fall due just before and after it."""
SWEEP_LATE_MAX = timedelta(seconds=5)
"""How much later than it ought to a sweep may run, and still find all it has to promote."""
CLOCKS_APART_MAX = timedelta(seconds=2)
"""A countdown this near counts for no other deadline: to a worker's clock it may be over."""

WARN_SHARE = 0.8
"""How much of the window has passed when the owner of a request is warned (E10)."""


def warn_at(begins_at: datetime, expires_at: datetime) -> datetime:
    """Return when to warn of a deadline."""
    return begins_at + (expires_at - begins_at) * WARN_SHARE


def announce(opened: Iterable[Park]) -> None:
    """Send a countdown, on commit, for each park for which the next sweep may come too late.

    The first in a slot gets one for its own deadline, the second one for the end of the slot, which
    closes all that this process opens later.
    """
    now, near = clock.now(), min(conf.horizon(), conf.sweep_every() + SWEEP_LATE_MAX)
    for park in opened:
        if park.expires_at is None or park.expires_at - now > near:
            continue
        slot = park.expires_at.timestamp() // SLOT.total_seconds()
        sent = 0 if park.expires_at - now < CLOCKS_APART_MAX else _sent.get(slot, 0)
        if sent == 0:
            _send(park, park.expires_at - now)
        elif sent == 1:
            _send(park, datetime.fromtimestamp((slot + 1) * SLOT.total_seconds(), UTC) - now)
        else:
            continue
        transaction.on_commit(partial(_note, slot, sent + 1), robust=True)


def promote(near: Iterable[Park]) -> None:
    """Send one countdown for all of these parks that fall due within one slot, to the last of them.

    `near` comes soonest first. The message closes whatever is due when it arrives.
    """
    now = clock.now()
    slots: dict[datetime, Park] = {}
    begins: datetime | None = None
    for park in near:
        assert park.expires_at is not None, "what comes near has a deadline"
        if begins is None or park.expires_at >= begins + SLOT:
            begins = park.expires_at
        slots[begins] = park
    for last in slots.values():
        assert last.expires_at is not None, "what comes near has a deadline"
        _send(last, last.expires_at - now)


def forget() -> None:
    """Forget which countdowns this process has sent; for a clock that was set back, as in tests."""
    _sent.clear()


_sent: dict[float, int] = {}
"""How many countdowns this process has sent for a slot, which is numbered from the epoch."""
SLOTS_MAX = 2000


def _note(slot: float, count: int) -> None:
    """Note that so many countdowns for this slot have been sent; the oldest slots are forgotten."""
    _sent[slot] = max(count, _sent.get(slot, 0))
    while len(_sent) > SLOTS_MAX:
        _sent.pop(next(iter(_sent)), None)


def _send(park: Park, delay: timedelta) -> None:
    hints.send(EXPIRE, str(park.id), delay=delay)
