"""Warning of a deadline that comes near: once, when most of the window has passed (E10).

What is owed is `Park.warn_at`; the sweep finds it and hints, a task of its own sends, so that a
mail server that hangs holds up no deadline. The claim moves `warn_at` on a little: a sender that
dies is followed by another, one that succeeds clears it.
"""

from datetime import timedelta
from uuid import UUID

from django.db import transaction

from hitl import audit, clock, conf, faults, hints, moments, notices
from hitl.models import Park, Verb
from hitl.notices import Notice
from hitl.rows import Also, compare_and_set
from hitl.states import ParkStatus

TASK = "hitl.warn"
AGAIN = timedelta(minutes=2)


def owed(limit: int) -> list[UUID]:
    """Return pending parks whose warning is due, the longest due first."""
    now = clock.now()
    due = Park.objects.pending().filter(warn_at__lte=now).order_by("warn_at", "id")
    return list(due.values_list("id", flat=True)[:limit])


def hurry() -> int:
    """Hint at every warning that is owed; returns how many."""
    found = owed(conf.sweep_batch())
    for park_id in found:
        hints.send(TASK, str(park_id))
    return len(found)


def warn(park_id: UUID) -> bool:
    """Warn of one deadline; True when this call did. Repeating it does nothing twice."""
    now = clock.now()
    claimed = compare_and_set(
        Park,
        {"id": park_id, "status": ParkStatus.PENDING},
        set={"warn_at": now + AGAIN},
        also=Also("warn_at <= %s", (("warn_at", now),)),
        returning=("id",),
    )
    if claimed is None:
        return False
    faults.point("warn:claimed")
    park = Park.objects.get(id=park_id)
    if park.is_overdue(now):  # nothing is left to warn of
        return False
    notice = _notice(park)
    took = notices.send(notice)
    faults.point("warn:sent")
    return bool(took) and _settle(park, notice, took)


def _settle(park: Park, notice: Notice, took: list[str]) -> bool:
    """Note that the warning was given; an extension meanwhile has set a new one, which stays."""
    detail = {"told": len(notice.recipients), "through": took}
    with transaction.atomic():
        mine = {"id": park.id, "warn_at": park.warn_at}
        if compare_and_set(Park, mine, set={"warn_at": None}, returning=("id",)) is None:
            return False
        row = audit.row(park, Verb.WARNED, audit.system("sweep"), at=clock.now(), detail=detail)
        audit.append([row])
        faults.point("warn:noted")
    return True


def _notice(park: Park) -> Notice:
    assert park.expires_at is not None, "only a deadline is warned of"
    left = moments.span(park.expires_at - clock.now())
    text = (
        f"“{park}” waits for an answer and closes in {left}, at {moments.stamp(park.expires_at)}.\n"
        f"Asked by: {park.asked_by or 'a program'}\n"
    )
    if url := notices.address(park):
        text += f"\nLook at it and decide: {url}\n"
    subject = f"Closes in {left}: {park}"
    return Notice("expires_soon", park, notices.owners(park), subject, text)
