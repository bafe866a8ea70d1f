"""Somebody who starts runs of workflows, some twice or at once, cancels some and retries others."""

import random
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from uuid import UUID

from django.db import connection

from agents.models import Run, RunKind
from agents.states import RunStatus
from agents.workflows import authoring, verbs
from tests.chaos import ledger, plans
from tests.chaos.plans import Plan

BUSY_MAX = 40
"""While so many runs are queued or running, nothing new is begun."""
RECENT = 25
KEY_SHARE = 0.5
TWICE_SHARE = 0.4
ACTS = {"start": 80, "cancel": 10, "retry": 10}


class Starter:
    """One such person. `act` does one thing and notes what came of it in the journal."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._number = count(1)
        self._recent: deque[UUID] = deque(maxlen=RECENT)
        self._journal = ledger.journal()

    def act(self) -> None:
        """Do one thing at random, unless there is more than enough to do already."""
        if Run.objects.filter(status__in=[RunStatus.QUEUED, RunStatus.RUNNING]).count() > BUSY_MAX:
            return
        name = self._rng.choices(list(ACTS), weights=list(ACTS.values()))[0]
        if name == "start" or not self._recent:
            self._start()
        elif name == "cancel":
            self._note("cancel", self._rng.choice(self._recent), self._cancel)
        else:
            failed = Run.objects.filter(kind=RunKind.WORKFLOW, status=RunStatus.FAILED)
            for run_id in failed.order_by("-id").values_list("id", flat=True)[:1]:
                self._note("retry", run_id, verbs.retry)

    def _start(self) -> None:
        plan = plans.draw(f"w{next(self._number)}", self._rng)
        key = f"key of {plan.arguments['reference']}" if self._rng.random() < KEY_SHARE else None
        times = 2 if key is not None and self._rng.random() < TWICE_SHARE else 1
        self.start(plan, key, times)

    def start(self, plan: Plan, key: str | None, times: int) -> None:
        """Start what was planned, so many times at once."""
        reference = plan.arguments["reference"]
        told = {"reference": reference, "workflow": plan.workflow, "key": key}
        self._journal.write("starting", message=reference, **told)
        begun = [_begin(plan, key)] if times == 1 else _at_once(plan, key, times)
        for run_id in begun:
            self._journal.write("begun", run=str(run_id), **told)
            self._recent.append(run_id)

    def _cancel(self, run_id: UUID) -> bool:
        return verbs.cancel(run_id, reason="enough", actor="author")

    def _note(self, act: str, run_id: UUID, verb: Callable[[UUID], bool]) -> None:
        self._journal.write("doing", act=act, thread=str(run_id))
        self._journal.write("did", act=act, thread=str(run_id), outcome=verb(run_id))


def _begin(plan: Plan, key: str | None) -> UUID:
    workflow = authoring.get(f"chaos.{plan.workflow}")
    return workflow.start(**plan.arguments, idempotency_key=key).id


def _at_once(plan: Plan, key: str | None, times: int) -> list[UUID]:
    """Start the same in as many threads; one that meets trouble has begun nothing to be told of."""

    def begin(_: int) -> UUID | None:
        try:
            return _begin(plan, key)
        except Exception:  # the database is away
            return None
        finally:
            connection.close()

    with ThreadPoolExecutor(times) as pool:
        return [run_id for run_id in pool.map(begin, range(times)) if run_id is not None]
