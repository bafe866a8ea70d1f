"""Some other program that asks for approvals of its own, and wants to be called about each.

Half of the requests take two people, some are asked twice with one key, some are withdrawn.
"""

import os
import random
from collections import deque
from itertools import count

from hitl import approval
from hitl.models import Park
from tests.chaos import ledger
from tests.chaos.people import QUORUM

PATIENCE, IMPATIENCE = "1h", "3s"
RECENT = 10
OPEN_MAX = 15
"""While so many are open, nothing new is asked."""
TWICE_SHARE = 0.3
SEVERAL_SHARE = 0.4
CANCEL_SHARE = 0.1


class Asker:
    """One such program; `act` asks for one approval, or withdraws one."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._numbers = count(1)
        self._recent: deque[str] = deque(maxlen=RECENT)
        self._journal = ledger.journal()

    def act(self) -> None:
        """Ask once more, unless enough is open."""
        if self._recent and self._rng.random() < CANCEL_SHARE:
            approval.cancel(self._rng.choice(self._recent), reason="not needed")
        elif Park.objects.pending().filter(waiter_kind="callback").count() < OPEN_MAX:
            self._ask()

    def _ask(self) -> None:
        key = f"ask {os.getpid()} {next(self._numbers)}"
        patience = self._rng.choice([PATIENCE, PATIENCE, IMPATIENCE])
        at_deadline = self._rng.choice(["reject", "reject", "approve", "ignore"])
        several = self._rng.random() < SEVERAL_SHARE
        for _ in range(2 if self._rng.random() < TWICE_SHARE else 1):
            self.ask(key, timeout=patience, on_timeout=at_deadline, several=several)

    def ask(self, key: str, *, timeout: str, on_timeout: str, several: bool) -> None:
        """Ask for one approval, and note what is asked before and after."""
        payload = {"order": key}
        self._journal.write("asking", key=key, payload=payload)
        entry = approval.request(
            topic="order",
            payload=payload,
            on_decide=os.environ["CHAOS_RECEIVER"],
            timeout=timeout,
            on_timeout=on_timeout,
            approver=QUORUM if several else None,
            idempotency_key=key,
        )
        self._journal.write("asked", key=key, request=entry.approval_id, several=several)
        self._recent.append(entry.approval_id)
