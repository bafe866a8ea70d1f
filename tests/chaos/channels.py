"""Giving an answer through one channel, and reading what it says came of it.

Every answer carries a word of its own as its reason, so that the row tells whose answer it holds.
A channel that fails (no database, no web) leaves open what became of the answer.
"""

import json
import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User
from django.db import connection, transaction

import hitl
from hitl import editing, parks
from hitl.models import Park
from hitl.states import Code
from tests.chaos import ledger
from tests.chaos.browser import Browser
from tests.chaos.people import USERS
from tests.chaos.processes import ROOT
from tests.chaos.wishes import Wish

CLI_SECONDS_MAX = 60
EDITED_SHARE = 0.25
SECOND_THOUGHTS = 0.05
"""The share of answers in Python whose transaction is rolled back by the program around it."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What somebody was told. `delivered` None: nothing they could rely on.

    `request_id` names the request that took the answer, where the channel says so.
    """

    delivered: bool | None
    code: str = ""
    request_id: str = ""


Channel = Callable[[Park, Wish, str], Outcome]


class _SecondThoughts(Exception):
    """The program around the verb changes its mind."""


class Verbs:
    """The public verbs, by the request's id or by the call's."""

    def __init__(self, rng: random.Random, name: str) -> None:
        self._rng = rng
        self._name = name

    def __call__(self, park: Park, wish: Wish, word: str) -> Outcome:
        if park.is_standalone and self._rng.random() < EDITED_SHARE:
            self.edit(park, word)
        try:
            with transaction.atomic():
                answer = self._answer(park, wish, word)
                if self._rng.random() < SECOND_THOUGHTS:
                    raise _SecondThoughts
        except _SecondThoughts:
            return Outcome(False, "rolled_back")
        return Outcome(answer.delivered, answer.code or "", str(answer.request_id or ""))

    def _who(self, park: Park) -> Any:
        """Return a user where several people are asked; else a program's name."""
        if not park.policy or self._name not in USERS:
            return "verbs"
        return User.objects.get(username=USERS[self._name])

    def edit(self, park: Park, word: str) -> None:
        """Change what is asked for, and note what came of that."""
        payload = {"order": park.arguments.get("order"), "by": word}  # type: ignore[union-attr]
        told = {"request": str(park.id), "payload": payload}
        try:
            edited = editing.edit(
                park.id, payload, seen=park.digest, actor=self._who(park), channel="python"
            )
        except Exception as error:
            ledger.journal().write("edited", **told, delivered=None, code=type(error).__name__)
            raise
        code = str(edited.code or "")
        ledger.journal().write("edited", **told, delivered=edited.delivered, code=code)

    def _answer(self, park: Park, wish: Wish, word: str) -> hitl.Answer:
        who = self._who(park)
        if wish.verb == "cancel":
            return parks.cancel(park.id, reason=word, actor=who, channel="python")
        approved = wish.verb == "approve"
        told: dict[str, Any] = {"payload": wish.payload, "arguments": wish.arguments}
        told |= {"reason": word, "actor": who}
        if self._rng.random() < 0.5:
            return hitl.decide(park.id, approved, **told)
        return hitl.respond(park.scope, park.key, approved, **told)


def command_line(park: Park, wish: Wish, word: str) -> Outcome:
    """`manage.py hitl`, by the request's id."""
    command = [sys.executable, "manage.py", "hitl", wish.verb, str(park.id)]
    command += ["--yes", "--json", "--reason", word]
    if wish.has_payload:
        command += ["--payload", json.dumps(wish.payload)]
    if wish.arguments is not None:
        command += ["--arguments", json.dumps(wish.arguments)]
    connection.close()  # nothing is held while somebody else works
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=CLI_SECONDS_MAX, check=False
    )
    if done.returncode == 0:
        return Outcome(True)
    try:
        code = json.loads(done.stdout)["error"]["code"]
    except (ValueError, KeyError):
        return Outcome(None, f"exit {done.returncode}")
    return Outcome(False if code in tuple(Code) else None, code)


def of(name: str, rng: random.Random, driver: str) -> Channel:
    """Return the channel of this name for this driver."""
    match name:
        case "python":
            return Verbs(rng, driver)
        case "cli":
            return command_line
        case "admin":
            return through_admin(Browser())
    raise LookupError(name)


def through_admin(browser: Browser) -> Channel:
    """The admin's own forms, filled in and sent over HTTP by somebody who is logged in."""

    def channel(park: Park, wish: Wish, word: str) -> Outcome:
        act = {"approve": "approve", "reject": "deny", "cancel": "cancel"}[wish.verb]
        fields = {"reason": word}
        if wish.has_payload:
            act = "answer"
            fields |= {"kind": "json", "result": json.dumps(wish.payload)}
        return Outcome(*browser.act(str(park.id), act, fields))

    return channel
