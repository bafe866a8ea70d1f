"""The heartbeat that keeps the leases of a process, and hears of a stop on the way.

A lease is short, so that a killed worker's run goes on soon; while the worker lives, one thread per
process renews all its leases. It saves work and tells of a stop during a model call (H8); nothing
else rests on it.
"""

import logging
import os
import threading
from collections.abc import Callable
from typing import Any

from django.db import connection

from agents import conf, runs

logger = logging.getLogger(__name__)

Held = Any
Renewal = Callable[[Any], None]


class Keeper:
    """Renews the leases of this process from one thread, which looks for some three times a lease.

    Nobody wakes it: most segments are over before it looks, and pay nothing for it.
    """

    def __init__(self) -> None:
        self._held: dict[int, tuple[Held, Renewal]] = {}
        self._changing = threading.Lock()
        self._thread: threading.Thread | None = None

    def keep(self, lease: Held, renew: Renewal = runs.renew) -> None:
        """Renew this lease until it is released."""
        with self._changing:
            self._held[id(lease)] = lease, renew
            if self._thread is None:
                self._thread = threading.Thread(target=self._beat, name="lease-keeper", daemon=True)
                self._thread.start()

    def release(self, lease: Held) -> None:
        """Stop renewing this lease."""
        with self._changing:
            self._held.pop(id(lease), None)

    def _beat(self) -> None:
        period = conf.duration("LEASE").total_seconds() / 3
        pause = threading.Event()
        while True:
            pause.wait(period)
            with self._changing:
                held = list(self._held.values())
            if not held:
                connection.close()  # nothing is held while nothing runs
            for lease, renew in held:
                self._renew(lease, renew)

    def _renew(self, lease: Held, renew: Renewal = runs.renew) -> None:
        try:
            renew(lease)
        except Exception:  # whatever it is, the other leases still need their heartbeat
            logger.exception("%s could not be renewed this time", lease)
            connection.close()


_keeper = Keeper()


def keep(lease: Held, renew: Renewal = runs.renew) -> None:
    """Renew this lease, or what `renew` renews in the same way, until it is released."""
    _keeper.keep(lease, renew)


def release(lease: Held) -> None:
    """Stop renewing this lease; harmless when it was never kept."""
    _keeper.release(lease)


def _fresh_keeper() -> None:
    """Give a forked child a keeper of its own: the parent's thread does not exist there."""
    global _keeper
    _keeper = Keeper()


os.register_at_fork(after_in_child=_fresh_keeper)
