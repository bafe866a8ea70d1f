"""A courier of what comes from outside: payloads for hooks, and events for a trigger.

Of the hooks it knows from what was started alone. It comes early, twice and late; an event it posts
until somebody has said that it was taken, some at the same moment as another of the same thread.
"""

import json
import os
import random
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from agents import conf
from agents.models import Trigger, Verification
from hitl import clock
from tests.chaos import ledger
from tests.chaos.app.workflows import reply_hook

TRIGGER, SECRET = "mail", "chaos"
HEADER = "X-Webhook-Secret"
THREADS_AT_ONCE = 3
LETTERS_PER_THREAD = 6
VISITS_MAX = 4
VISIT_SECONDS_MAX = 15.0
LETTER_SHARE = 0.07
TWICE_SHARE = 0.25
SECONDS_MAX = 10


def set_up_trigger() -> None:
    """Have events begin and resume runs of the workflow `mail`."""
    Trigger.objects.create(
        slug=TRIGGER,
        workflow="chaos.mail",
        enabled=True,
        correlation_key="thread",
        input="{thread: thread, event: id}",
        payload="{event: id}",
        delivery_id="id",
        verification=Verification.SECRET,
        secret=SECRET,
        created_at=clock.now(),
    )


class Courier:
    """One courier; `act` delivers what is due, and now and then some letters."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._words, self._letters = count(1), count(1)
        self._journal = ledger.journal()
        [self._secret] = conf.trigger_secrets(SECRET)
        self._known: set[str] = set()
        self._due: list[tuple[float, str]] = []
        self._unheard: list[tuple[str, str]] = []

    def act(self) -> None:
        """Deliver one payload that is due, and perhaps letters."""
        self._look_around()
        now = time.monotonic()
        for entry in sorted(entry for entry in self._due if entry[0] <= now)[:1]:
            self._due.remove(entry)
            self.resume(entry[1])
        if self._unheard or self._rng.random() < LETTER_SHARE:
            self._bring_letters()

    def _look_around(self) -> None:
        for line in self._journal.lines("starting"):
            token = line["message"]
            if line.get("workflow") == "reply" and token not in self._known:
                self._known.add(token)
                for _ in range(self._rng.randint(1, VISITS_MAX)):
                    wait = self._rng.uniform(0, VISIT_SECONDS_MAX)
                    self._due.append((time.monotonic() + wait, token))

    def resume(self, token: str) -> None:
        """Bring one payload to a hook, with a word of its own."""
        word = f"courier-{os.getpid()}-{next(self._words)}"
        self._journal.write("resuming", word=word, token=token)
        answer = reply_hook.resume(token, {"word": word}, actor="courier")
        told = {"delivered": answer.delivered, "code": str(answer.code or "")}
        self._journal.write("resumed", word=word, token=token, **told)

    def _bring_letters(self) -> None:
        """Post what nobody has taken yet, or one to three new letters, all at the same moment."""
        letters, self._unheard = self._unheard, []
        while not letters or (len(letters) < THREADS_AT_ONCE and self._rng.random() < 0.5):
            number = next(self._letters)
            at = max(number // LETTERS_PER_THREAD - self._rng.randrange(THREADS_AT_ONCE), 0)
            letters.append((f"letter {os.getpid()} {number}", f"thread {os.getpid()} {at}"))
        twice = [letter for letter in letters if self._rng.random() < TWICE_SHARE]
        with ThreadPoolExecutor(len(letters) + len(twice)) as pool:
            heard = list(pool.map(self._post, letters + twice))
        taken = {
            letter for letter, was_heard in zip(letters + twice, heard, strict=True) if was_heard
        }
        self._unheard = [letter for letter in letters if letter not in taken]

    def _post(self, letter: tuple[str, str]) -> bool:
        """Post one letter; False when it is not known what became of it."""
        event, thread = letter
        self._journal.write("posting", event=event, thread=thread)
        request = Request(  # noqa: S310  (an address of our own)
            f"{os.environ['CHAOS_WEB']}/hooks/triggers/{TRIGGER}",
            data=json.dumps({"id": event, "thread": thread}).encode(),
            headers={"Content-Type": "application/json", HEADER: self._secret},
        )
        try:
            with urlopen(request, timeout=SECONDS_MAX) as response:  # noqa: S310
                status, told = response.status, json.load(response)
        except HTTPError as error:
            status, told = error.code, {}
        except (OSError, ValueError) as error:  # the site is away
            status, told = 0, {"error": type(error).__name__}
        self._journal.write("posted", event=event, thread=thread, status=status, told=told)
        return status in (200, 202)
