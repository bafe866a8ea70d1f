"""A word now and then while something takes long."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from django.db import DatabaseError, connection

FIRST_SECONDS = 3.0
EVERY_SECONDS = 5.0


@contextmanager
def told(
    say: Callable[[str], object],
    tell: Callable[[], str],
    *,
    first_s: float = FIRST_SECONDS,
    every_s: float = EVERY_SECONDS,
) -> Iterator[None]:
    """Say what `tell` tells after some seconds, and again every few, until the block ends.

    `tell` runs in a thread of its own and may ask the database; its connection is closed.
    """
    over = threading.Event()
    began = monotonic()

    def speak() -> None:
        pause = first_s
        try:
            while not over.wait(pause):
                pause = every_s
                say(f"{monotonic() - began:.0f} s: {_said(tell)}")
        finally:
            connection.close()

    speaker = threading.Thread(target=speak, name="progress", daemon=True)
    speaker.start()
    try:
        yield
    finally:
        over.set()
        speaker.join()


def _said(tell: Callable[[], str]) -> str:
    try:
        return tell()
    except DatabaseError:  # busy with what is being waited for
        return "still at it"
