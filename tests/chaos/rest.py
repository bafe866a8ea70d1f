"""Letting everything come to rest once nothing goes wrong any more, and a roll call at the end.

At rest a run is final, or waits for a person. First nobody answers; then a truthful person works
off what is open, but for the requests that are left open on purpose.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic, sleep
from uuid import UUID

from django.db import DatabaseError, connection
from django.db.models import QuerySet

import hitl
from agents import threads
from agents.models import Run, RunKind, TriggerDelivery
from agents.states import FINAL, UNSETTLED, DeliveryStatus, RunStatus
from agents.workflows import children
from hitl import clock
from hitl.models import CallbackDelivery, Park
from hitl.states import TIMERS, CallbackStatus, ParkStatus, Reason
from tests.chaos import ledger, rules, wishes
from tests.chaos.processes import Process

REST_SECONDS_MAX = 120
PAUSE_SECONDS = 0.2
SOON = timedelta(minutes=1)
CALLED = 40
PARKED = 3
CALL_SECONDS_MAX = 40
EXPIRY_SECONDS_MAX = 6
"""How late a deadline may be met on two busy cores, with a sweep each second."""

Watch = Callable[[], None]


@dataclass(slots=True)
class Rest:
    """How long it took, in seconds; `complaints` say what did not come to rest."""

    alone: float
    answered: float
    complaints: list[str]


def settle(watch: Watch) -> Rest:
    """Wait until all is at rest, answer what is open, and wait again. `watch` is called meanwhile.

    Both waits are bounded.
    """
    begun = monotonic()
    complaints = _wait(watch, _restless, "not at rest though nothing is wrong any more")
    alone = monotonic() - begun
    rng = random.Random(0)

    def work() -> None:
        watch()
        for park in Park.objects.pending().cards().order_by("id"):
            if not wishes.is_ignored(park):
                _answer(park, rng)

    if not complaints:
        complaints = _wait(work, _unanswered, "not at rest although all was answered")
    return Rest(alone, monotonic() - begun - alone, complaints)


def _answer(park: Park, rng: random.Random) -> None:
    wish = wishes.about(park, rng)
    if wish.verb == "cancel":
        wish = wishes.Wish("reject")
    hitl.decide(park.id, wish.verb == "approve", payload=wish.payload, actor="harness")


def _wait(work: Watch, left: Callable[[], list[str]], what: str) -> list[str]:
    give_up = monotonic() + REST_SECONDS_MAX
    while True:
        try:
            work()
            found = left()
        except DatabaseError as error:
            connection.close()
            found = [f"the database: {error}"]
        if not found:
            return []
        if monotonic() > give_up:
            return [f"after {REST_SECONDS_MAX} s {what}: {one}" for one in found]
        sleep(PAUSE_SECONDS)


def _restless() -> list[str]:
    """Return the runs that are neither final nor waiting for a person, and what is overdue."""
    settled = [*FINAL, RunStatus.WAITING_FOR_INPUT]
    runs = Run.objects.exclude(status__in=settled).exclude(id__in=_waiting_for_a_run())
    parks = [*Park.objects.due(clock.now()), *Park.objects.pending().filter(reason__in=TIMERS)]
    return [
        *(f"run {one} is {status}" for one, status in runs.values_list("id", "status")),
        *(f"park {park.id} ({park.reason})" for park in parks),
        *(f"the end of run {one} is to be told" for one in children.owing()),
        *(f"callback {one} is owed" for one in _owed_callbacks()),
        *(f"event {one.delivery_id} is {one.status}" for one in _unsettled_events()),
    ]


def _waiting_for_a_run() -> QuerySet[Run, UUID]:
    """Return the workflows that wait for an agent's run, which waits for a person itself."""
    asking = Run.objects.filter(status=RunStatus.WAITING_FOR_INPUT, parent__isnull=False)
    waiting = Run.objects.filter(status=RunStatus.WAITING, kind=RunKind.WORKFLOW)
    return waiting.filter(id__in=asking.values("parent_id")).values_list("id", flat=True)


def _owed_callbacks() -> QuerySet[CallbackDelivery]:
    return CallbackDelivery.objects.filter(status=CallbackStatus.OWED)


def _unsettled_events() -> QuerySet[TriggerDelivery]:
    """Return the events that nobody has settled, but for those kept for a run that asks a person.

    A run whose step is in doubt opens no hook before somebody has answered.
    """
    doubts = Park.objects.pending().filter(reason=Reason.IN_DOUBT)
    asking = Run.objects.filter(id__in=doubts.values("waiter_id"), correlation_key__isnull=False)
    unsettled = TriggerDelivery.objects.filter(status__in=UNSETTLED)
    return unsettled.exclude(
        status=DeliveryStatus.BUFFERED, key__in=asking.values("correlation_key")
    )


def _unanswered() -> list[str]:
    """Return what keeps runs from ending, but for requests that nobody answers for a long time."""
    soon = clock.now() + SOON
    waited_for = [
        f"park {park.id}"
        for park in Park.objects.pending().cards()
        if not wishes.is_ignored(park) or (park.expires_at is not None and park.expires_at < soon)
    ]
    return waited_for + _restless()


# ── Roll call ────────────────────────────────────────────────────────────────────────────────────


def roll_call(crew: dict[str, Process], watch: Watch) -> list[str]:
    """Start runs for everyone: a worker that lives and takes nothing is found out.

    No guardrail holds them.
    """
    rules.switch_off()
    begun = [threads.start("patient", f"call{number} f") for number in range(CALLED)]
    parked = [threads.start("hasty", f"call{CALLED + number} g") for number in range(PARKED)]
    called = [each.id for each in (*begun, *parked)]

    def unfinished() -> list[str]:
        left = Run.objects.filter(thread__in=called).exclude(status__in=FINAL)
        return [f"run {run.id} is {run.status}" for run in left]

    give_up = monotonic() + CALL_SECONDS_MAX
    while (left := unfinished()) and monotonic() < give_up:
        watch()
        sleep(PAUSE_SECONDS)
    complaints = [f"roll call: after {CALL_SECONDS_MAX} s {one}" for one in left]
    runs = {str(one) for one in Run.objects.filter(thread__in=called).values_list("id", flat=True)}
    lines = ledger.effects().lines("effect")
    sessions = {line["session"] for line in lines if line["run"] in runs}
    for name in ("prefork", "threads"):
        if crew[name].pid not in sessions:
            complaints.append(f"roll call: {name} lives, and took none of {len(runs)} runs")
    return complaints + _late([each.id for each in parked])


def _late(called: list[UUID]) -> list[str]:
    late = []
    for park in Park.objects.filter(scope__in=called, reason=Reason.APPROVAL):
        if park.status == ParkStatus.PENDING or park.settled_at is None or park.expires_at is None:
            late.append(f"roll call: park {park.id} did not expire")
        elif (by := (park.settled_at - park.expires_at).total_seconds()) > EXPIRY_SECONDS_MAX:
            late.append(f"roll call: park {park.id} expired {by:.1f} s late")
    return late
