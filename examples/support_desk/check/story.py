"""Telling a check step by step: ticks for what holds, an end at the first thing that does not."""

import sys
from collections.abc import Callable, Iterable
from threading import Event
from time import monotonic
from typing import TypeVar

T = TypeVar("T")

LOOK_SECONDS = 0.05
WAIT_SECONDS_MAX = 15


class Off(Exception):
    """Something is not as it should be."""


class Story:
    """Writes the steps to the terminal, with the seconds since it began."""

    def __init__(self) -> None:
        self._began = monotonic()

    @property
    def seconds(self) -> float:
        return monotonic() - self._began

    def chapter(self, title: str) -> None:
        self._say(f"\n{title}")

    def check(self, claim: str, holds: object) -> None:
        """Tick a claim that holds; raises Off for one that does not."""
        if not holds:
            self._say(f"  ✗ {claim}")
            raise Off(claim)
        self._say(f"  ✓ {claim}")

    def wait(self, claim: str, look: Callable[[], T], *, seconds: float = WAIT_SECONDS_MAX) -> T:
        """Look until there is something to see, tick the claim and return it; raises Off."""
        deadline, pause = monotonic() + seconds, Event()
        while not (seen := look()) and monotonic() < deadline:
            pause.wait(LOOK_SECONDS)
        self.check(claim, seen)
        return seen

    def end(self, verdict: str) -> None:
        self._say(f"\n{verdict} ({self.seconds:.0f} s)")

    def quote(self, title: str, lines: Iterable[str]) -> None:
        self._say(title)
        for line in lines:
            self._say(f"  | {line.rstrip()}")

    def _say(self, line: str) -> None:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
