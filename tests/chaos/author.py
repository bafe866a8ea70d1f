"""Somebody who starts conversations, and stops, edits, supersedes and deletes some of them,
and switches guardrails on and off.
"""

import random
from collections import deque
from itertools import count
from uuid import UUID

import hitl
from agents import threads
from agents.guardrails import rulebook
from agents.models import GuardrailRule, Run
from agents.states import RunStatus
from hitl.errors import HitlError
from tests.chaos import ledger, scripts

BUSY_MAX = 25
"""While so many runs are queued or running, nothing new is begun."""
RECENT = 25
POISON_EACH = 150
"""One run in so many ends whatever worker takes it."""
ACTS = {
    "start": 70,
    "send": 9,
    "supersede": 5,
    "edit": 5,
    "stop": 6,
    "delete": 2,
    "reclaim": 3,
    "rule": 8,
}


class Author:
    """One author. `act` does one thing and notes what came of it in the journal."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._number = count(1)
        self._recent: deque[UUID] = deque(maxlen=RECENT)
        self._journal = ledger.journal()

    def act(self) -> bool:
        """Do one thing at random; False when there is more than enough to do already."""
        busy = Run.objects.filter(status__in=[RunStatus.QUEUED, RunStatus.RUNNING]).count()
        if busy > BUSY_MAX:
            return False
        name = self._rng.choices(list(ACTS), weights=list(ACTS.values()))[0]
        if name == "start" or not self._recent:
            self._start()
        else:
            self._do(name, self._rng.choice(self._recent))
        return True

    def _start(self) -> None:
        message = self._message()
        agent = self._rng.choices(["patient", "hasty"], weights=[3, 1])[0]
        self._journal.write("starting", message=message)
        thread = threads.start(agent, message)
        self._journal.write("started", message=message, thread=str(thread.id))
        self._recent.append(thread.id)

    def _do(self, name: str, thread: UUID) -> None:
        self._journal.write("doing", act=name, thread=str(thread))
        try:
            self._change(name, thread)
        except HitlError as error:
            outcome = error.code
        else:
            outcome = "done"
        self._journal.write("did", act=name, thread=str(thread), outcome=outcome)

    def _change(self, name: str, thread: UUID) -> None:
        match name:
            case "send":
                threads.send(thread, self._message())
            case "supersede":
                threads.send(thread, self._message(), supersede=True)
            case "edit":
                kept = Run.objects.filter(thread=thread, dropped_at__isnull=True)
                threads.edit(thread, self._rng.choice(list(kept)).id, self._message())
            case "stop":
                threads.stop(thread, reason="enough", actor="author")
            case "delete":
                self._recent.remove(thread)
                threads.delete(thread)
            case "rule":
                rule = self._rng.choice(list(GuardrailRule.objects.order_by("id")))
                rulebook.change(rule.id, enabled=not rule.enabled, actor="author")
            case "reclaim":
                hitl.reclaim_if_orphaned(thread)

    def _message(self) -> str:
        number = next(self._number)
        if number % POISON_EACH == POISON_EACH // 2:
            return f"r{number} {scripts.POISON}"
        return scripts.draw(f"r{number}", self._rng)
