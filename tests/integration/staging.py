"""Threads on a real PostgreSQL, ordered by what they pass and what they wait for, never by time.

A `Crew` starts hands: threads with a database connection each. A `Hold` stops one hand at a fault
point until it is let go; `Crew.until_blocked` returns once the server itself says that a hand waits
for another's lock.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from django.db import connection

from hitl import faults

SECONDS_MAX = 60
POLL_S = 0.005


@dataclass(eq=False)
class Hold:
    """A place where one hand stops, the first time that it passes it."""

    point: str
    reached: threading.Event = field(default_factory=threading.Event)
    _go: threading.Event = field(default_factory=threading.Event)

    def wait_for_it(self) -> None:
        assert self.reached.wait(SECONDS_MAX), f"nobody came to {self.point}"

    def let_go(self) -> None:
        self._go.set()

    def stop_here(self) -> None:
        if not self.reached.is_set():
            self.reached.set()
            assert self._go.wait(SECONDS_MAX), f"nobody let go of {self.point}"


class Hand(threading.Thread):
    """One thread that does one thing and keeps what came of it."""

    def __init__(self, do: Callable[[], Any], *, holds: Iterable[Hold], start_at: Any) -> None:
        super().__init__(daemon=True)
        self.do = do
        self.holds = {hold.point: hold for hold in holds}
        self.start_at = start_at
        self.connected = threading.Event()
        self.backend = 0
        self.returned: Any = None
        self.raised: BaseException | None = None

    def run(self) -> None:
        try:
            self.backend = backend()
            self.connected.set()
            if self.start_at is not None:
                self.start_at.wait(SECONDS_MAX)
            self.returned = self.do()
        except BaseException as error:
            self.raised = error
        finally:
            self.connected.set()
            connection.close()

    def result(self) -> Any:
        """Return what it returned, once it is over; raise what it raised."""
        self.join(SECONDS_MAX)
        assert not self.is_alive(), "a hand never ended"
        if self.raised is not None:
            raise self.raised
        return self.returned


class Crew:
    """The hands of one test."""

    def __init__(self) -> None:
        self.hands: list[Hand] = []

    def start(self, do: Callable[..., Any], *args: Any, holds: Iterable[Hold] = ()) -> Hand:
        """Start a hand that does this, and return once it has its connection."""
        hand = self._hand(lambda: do(*args), holds, None)
        assert hand.connected.wait(SECONDS_MAX)
        return hand

    def together(self, *todo: Callable[[], Any]) -> list[Any]:
        """Let a hand for each of these go at the same moment; return what they returned."""
        start_at = threading.Barrier(len(todo))
        return [hand.result() for hand in [self._hand(do, (), start_at) for do in todo]]

    def _hand(self, do: Callable[[], Any], holds: Iterable[Hold], start_at: Any) -> Hand:
        hand = Hand(do, holds=holds, start_at=start_at)
        self.hands.append(hand)
        hand.start()
        return hand

    def until_blocked(self, hand: Hand) -> set[int]:
        """Return the backends that hold what this hand waits for, once the server says it waits."""
        pause, give_up = threading.Event(), monotonic() + SECONDS_MAX
        while monotonic() < give_up:
            with connection.cursor() as cursor:
                cursor.execute(
                    "SELECT pg_blocking_pids(pid) FROM pg_stat_activity"
                    " WHERE pid = %s AND wait_event_type = 'Lock'",
                    [hand.backend],
                )
                row = cursor.fetchone()
            if row is not None and row[0]:
                return set(row[0])
            assert hand.is_alive(), f"it waited for nothing and ended: {hand.raised!r}"
            pause.wait(POLL_S)
        raise AssertionError("it never waited for a lock")

    def stop_at_holds(self, point: str) -> None:
        """Be the handler of the fault points: stop the hand that has a hold there."""
        hand = threading.current_thread()
        if isinstance(hand, Hand) and point in hand.holds:
            if connection.in_atomic_block:  # whatever it wrote is to be with the server, and locked
                connection.cursor().execute("SELECT 1")
            hand.holds[point].stop_here()


@contextmanager
def crew() -> Iterator[Crew]:
    """Give a crew whose holds work, and see to it that every hand has ended."""
    made = Crew()
    with faults.armed(made.stop_at_holds):
        try:
            yield made
        finally:
            for hand in made.hands:
                for hold in hand.holds.values():
                    hold.let_go()
            for hand in made.hands:
                hand.join(SECONDS_MAX)


def backend() -> int:
    """Return the number of this thread's server process."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return int(cursor.fetchone()[0])
