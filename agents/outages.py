"""Keeping what cannot be made again while the database is away for a moment.

A model's reply costs money and a tool's output exists once: losing either to a restart of the
database would leave a call in doubt for no reason. The lease's token guards the late write.
"""

import logging
import threading
from collections.abc import Callable
from time import monotonic
from typing import TypeVar

from django.db import InterfaceError, OperationalError, connection

logger = logging.getLogger(__name__)

T = TypeVar("T")

AWAY = (OperationalError, InterfaceError)
"""How Django says that the database cannot be asked just now."""

PATIENCE_S = 20
PAUSE_S = 0.25


def insist(write: Callable[[], T]) -> T:
    """Run a write that is a transaction of its own, again on a new connection if that was lost.

    Raises the database's error after about 20 s, or at once inside somebody's transaction, which
    cannot be saved.
    """
    give_up, pause = monotonic() + PATIENCE_S, threading.Event()
    while True:
        try:
            return write()
        except AWAY as error:
            if connection.in_atomic_block or monotonic() > give_up:
                raise
            logger.warning("the database is away (%s); the write is tried again", error)
            connection.close()
            pause.wait(PAUSE_S)
