"""The sweep: what no message may be relied on for. Settles what is due, promotes what comes near.

Runs about once a minute, when a worker starts, and by hand. Any number may run at once: each park
is settled by a compare-and-set of its own (E4). However much is due, one sweep settles a batch; the
rest follows in steps, as fast as the workers go on with what was woken, so that the run of someone
who answers meanwhile waits behind one batch and not behind all of it.
"""

import logging
from datetime import datetime, timedelta
from uuid import UUID

from django.db import InterfaceError, OperationalError
from django.db.models import Q, QuerySet

from hitl import clock, conf, deadlines, early, faults, hints, parks, waiters, warning
from hitl.models import Park, Pulse
from hitl.trail import sealing

logger = logging.getLogger(__name__)

PULSE = "sweep"
BY_HAND = "sweep by hand"
STEP = "step"
CHANNEL = "sweep"
"""The channel that the trail names when a sweep closed a request."""
STEP_PAUSE = timedelta(seconds=1)
TOGETHER_MAX = 50
"""How many deadlines one transaction closes; whoever answers one of these runs waits as long."""
PROMOTED_MAX = 5000
"""How many deadlines that come near one sweep looks at."""


def expire(park_id: UUID) -> None:
    """Settle what is due when the countdown of this park arrives; send another if that was early.

    Whatever else is due by now is closed with it, so of many deadlines close together most are
    closed by the message of another one.
    """
    _, more = _settle(conf.sweep_batch(), "countdown")
    if more:
        hints.send(deadlines.SETTLE, delay=STEP_PAUSE)
    deadlines.announce(Park.objects.pending().filter(id=park_id, expires_at__gt=clock.now()))


def sweep(*, by_hand: bool = False) -> dict[str, int]:
    """Settle what is due, promote what comes near, and hint at whatever the rows owe.

    Returns counts for the log. By hand it settles all that is due, however long that takes, and is
    no sign that beat lives.
    """
    expired, more = _settle(None if by_hand else conf.sweep_batch(), CHANNEL)
    faults.point("sweep:settled")
    promoted = _promote()
    faults.point("sweep:promoted")
    dropped = early.drop_unwanted(conf.sweep_batch())
    counts = {"expired": expired, "promoted": promoted, "early_answers_dropped": dropped}
    for waiter in waiters.every():
        counts.update(waiter.sweep())
    counts["warnings_hinted"] = warning.hurry()
    counts["sealed"] = sealing.seal_loose()
    _beat(BY_HAND if by_hand else PULSE, counts)
    faults.point("pulse:written")
    if more:
        hints.send(deadlines.SETTLE, delay=STEP_PAUSE)
    return counts


def settle_step() -> int:
    """Go on with what a sweep left due, as far as the workers keep up; returns how many it settled.

    A step that comes while another is at work does nothing and has no successor: however many
    sweeps began with what is due, one row of steps goes on.
    """
    if not _begin_step():
        return 0
    batch = conf.sweep_batch()
    woken = sum(waiter.backlog(batch) for waiter in waiters.every())
    settled, more = _settle(max(batch - woken, 0), CHANNEL)
    _beat(STEP, {"expired": settled})
    faults.point("step:settled")
    if more:
        hints.send(deadlines.SETTLE, delay=STEP_PAUSE)
    return settled


def settle_due() -> int:
    """Expire every park that is due now, in batches; returns how many this call settled."""
    return _settle(None, CHANNEL)[0]


def _settle(most: int | None, channel: str) -> tuple[int, bool]:
    """Expire what is due, soonest first; returns how many, and whether more may be due.

    With `most` it looks at no more than so many. One that cannot be expired stays due and counts
    for nothing, so that any number of them hold up no other.
    """
    settled, looked_at, started = 0, 0, clock.now()
    last: tuple[datetime | None, UUID] | None = None
    while most is None or looked_at < most:
        size = conf.sweep_batch() if most is None else min(conf.sweep_batch(), most - looked_at)
        batch = list(_due(started, last)[:size])
        won = _expire_all([park_id for _, park_id in batch], channel)
        settled += won.count(True)
        looked_at += len(won) - won.count(None)
        if len(batch) < size:
            return settled, False
        last = batch[-1]
    return settled, True


def _due(now: datetime, last: tuple[datetime | None, UUID] | None) -> QuerySet[Park, tuple]:
    """Return deadline and id of what is due, soonest first, from behind `last`."""
    found = Park.objects.due(now)
    if last is not None:
        deadline, park_id = last
        found = found.filter(Q(expires_at__gt=deadline) | Q(expires_at=deadline, id__gt=park_id))
    return found.order_by("expires_at", "id").values_list("expires_at", "id")


def _expire_all(park_ids: list[UUID], channel: str) -> list[bool | None]:
    """Expire these parks, and tell of each whether this call did; None if it cannot be expired."""
    won: list[bool | None] = []
    for start in range(0, len(park_ids), TOGETHER_MAX):
        together = park_ids[start : start + TOGETHER_MAX]
        closed = _expire_together(together, channel) if len(together) > 1 else set()
        left = [park_id for park_id in together if park_id not in closed]
        won += [True] * len(closed) + [_expire(park_id, channel) for park_id in left]
    return won


def _expire_together(park_ids: list[UUID], channel: str) -> set[UUID]:
    """Expire what can be expired at once; whatever is wrong shows when the rest goes one by one."""
    try:
        return set(parks.expire_together(park_ids, channel=channel))
    except (OperationalError, InterfaceError):  # no park's fault: the next sweep goes on
        raise
    except Exception:
        logger.exception("%s requests could not be expired together", len(park_ids))
        return set()


def _expire(park_id: UUID, channel: str) -> bool | None:
    """Expire one park, and tell whether this call did; None if it cannot be expired."""
    try:
        return parks.expire(park_id, channel=channel, durable=True)
    except (OperationalError, InterfaceError):  # no park's fault: the next sweep goes on
        raise
    except Exception:
        logger.exception("request %s could not be expired", park_id)
        return None


def _beat(name: str, counts: dict[str, int]) -> None:
    """Leave word that a sweep ran, for whoever watches over beat and workers."""
    now = clock.now()
    if not Pulse.objects.filter(name=name).update(at=now, detail=counts):
        Pulse.objects.update_or_create(name=name, defaults={"at": now, "detail": counts})


def _begin_step() -> bool:
    """Claim the right to settle for one period of the sweep; False while another step has it."""
    now = clock.now()
    until = now + conf.sweep_every()
    if Pulse.objects.filter(name=STEP, at__lte=now).update(at=until):
        return True
    return Pulse.objects.get_or_create(name=STEP, defaults={"at": until})[1]


def _promote() -> int:
    """Send countdowns for pending parks whose deadline is inside the horizon; returns how many.

    A sweep repeats what the one before it sent, in case that was lost: these are few, a slot each.
    When more come near at once than a sweep looks at, the rest is settled in steps from the moment
    the last of these falls due.
    """
    now = clock.now()
    near = Park.objects.pending().filter(expires_at__gt=now, expires_at__lte=now + conf.horizon())
    found = list(near.order_by("expires_at", "id").only("id", "expires_at")[:PROMOTED_MAX])
    deadlines.promote(found)
    if len(found) == PROMOTED_MAX and (latest := found[-1].expires_at) is not None:
        hints.send(deadlines.SETTLE, delay=latest - now)
    return len(found)
