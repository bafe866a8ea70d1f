"""The farm that works off jobs: it answers each, early or late, some twice, until it is heard.

It knows of the jobs from the file of effects alone, and keeps nothing: a farm that starts again
answers everything once more, and is told that it comes too late.
"""

import json
import os
import random
import time
from itertools import count
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import hitl
from tests.chaos import jobs, ledger

SECONDS_MAX = 5.0
AT_ONCE_SHARE = 0.4
TWICE_SHARE = 0.15
AGAIN_SECONDS = 1.0
REPLY_SECONDS_MAX = 10
HEARD = {200, 409}


class Farm:
    """One farm; `act` answers one job that is due."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._numbers = count(1)
        self._journal = ledger.journal()
        self._known: set[str] = set()
        self._due: list[tuple[float, dict[str, Any]]] = []

    def act(self) -> bool:
        """Answer the job that has been due for longest; False when none is."""
        self._take_orders()
        now = time.monotonic()
        ready = [entry for entry in self._due if entry[0] <= now]
        if not ready:
            return False
        entry = min(ready, key=lambda entry: entry[0])
        self._due.remove(entry)
        job = entry[1]
        if not self._answer(job):
            self._due.append((now + AGAIN_SECONDS, job))
        elif self._rng.random() < TWICE_SHARE:
            self._answer(job)
        return True

    def _take_orders(self) -> None:
        for job in ledger.effects().lines("begun"):
            if job["call"] in self._known or job["way"] not in (jobs.ADDRESS, jobs.IDS):
                continue
            self._known.add(job["call"])
            early = self._rng.random() < AT_ONCE_SHARE
            wait = 0.0 if early else self._rng.uniform(0, SECONDS_MAX)
            self._due.append((time.monotonic() + wait, job))

    def _answer(self, job: dict[str, Any]) -> bool:
        """Give the result of a job; False when it is not known what became of it."""
        word = f"farm-{os.getpid()}-{next(self._numbers)}"
        told = {"word": word, "call": job["call"], "way": job["way"]}
        self._journal.write("finishing", **told)
        try:
            delivered, code = (_post if job["way"] == jobs.ADDRESS else _respond)(job, word)
        except Exception as error:
            self._journal.write("finished", **told, delivered=None, code=type(error).__name__)
            if isinstance(error, OSError):  # the site is away
                return False
            raise
        self._journal.write("finished", **told, delivered=delivered, code=code)
        return delivered is not None


def _post(job: dict[str, Any], word: str) -> tuple[bool | None, str]:
    request = Request(  # noqa: S310  (an address of our own)
        job["address"],
        data=json.dumps({"word": word}).encode(),
        headers={"Content-Type": "application/json"},
    )
    try:
        with urlopen(request, timeout=REPLY_SECONDS_MAX) as response:  # noqa: S310
            return bool(json.load(response)["delivered"]), ""
    except HTTPError as error:
        if error.code in HEARD:
            return False, json.load(error)["code"]
        return None, f"status {error.code}"


def _respond(job: dict[str, Any], word: str) -> tuple[bool | None, str]:
    answer = hitl.respond(job["thread"], job["call"], True, payload={"word": word}, actor="farm")
    return answer.delivered, answer.code or ""
