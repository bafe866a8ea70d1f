"""Making things go wrong as the schedule says, and putting right what lasts only for a while."""

import heapq
import random
import signal
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from itertools import count

from django.db import DatabaseError, connection

from tests.chaos import messages
from tests.chaos.brokers import Broker, PrivateRedis
from tests.chaos.ledger import Ledger
from tests.chaos.postgres import Postgres
from tests.chaos.processes import Process
from tests.chaos.schedule import Mishap

FLOOD = 60
OLD = 25
HELD_BACK = 10


class Mishaps:
    """Carries out mishaps. `done` counts them by kind; `due` ends those whose time is over."""

    def __init__(
        self, crew: dict[str, Process], postgres: Postgres, broker: Broker, log: Ledger
    ) -> None:
        self.done: Counter[str] = Counter()
        self.moot: Counter[str] = Counter()
        """Those that met nothing to act on, such as a broker that was away."""
        self._crew = crew
        self._postgres = postgres
        self._broker = broker
        self._log = log
        self._later: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()

    def begin(self, mishap: Mishap, now: float) -> None:
        """Carry out one mishap; `now` is in seconds from the start, as in the schedule."""
        try:
            self._begin(mishap, now)
        except Exception as error:
            # A flush of a broker that hangs, a message for one that is gone: two at once.
            self.moot[mishap.kind] += 1
            outcome = f"{type(error).__name__}: {error}"
        else:
            self.done[mishap.kind] += 1
            outcome = "done"
        self._log.write("mishap", what=str(mishap), at_second=round(now, 1), outcome=outcome)

    def due(self, now: float) -> None:
        """End what was to last until now."""
        while self._later and self._later[0][0] <= now:
            _, _, end = heapq.heappop(self._later)
            with suppress(Exception):  # messages for a broker that is away are lost
                end()

    def heal(self) -> None:
        """End everything that lasts."""
        self.due(float("inf"))
        self._broker.heal()
        for process in self._crew.values():
            process.thaw()

    def _begin(self, mishap: Mishap, now: float) -> None:
        until = now + mishap.seconds
        match mishap.kind.split():
            case [_, "worker" | "child" | "parent" | "beat" | "web"]:
                self._to_process(mishap, until)
            case [_, "database"]:
                self._to_database(mishap)
            case [*_, "messages" | "twice" | "sweeps"]:
                self._to_messages(mishap, until)
            case _:
                self._to_broker(mishap, until)

    def _to_process(self, mishap: Mishap, until: float) -> None:
        process = self._crew[mishap.target]
        child = process.child(mishap.number)
        match mishap.kind.split():
            case ["kill", "child"] if child is not None:
                process.signal_child(child, signal.SIGKILL)
            case ["freeze", "child"] if child is not None:
                process.signal_child(child, signal.SIGSTOP)
                self._at(until, lambda: process.signal_child(child, signal.SIGCONT))
            case ["kill", "parent"]:
                process.kill_parent()
            case ["kill", "worker" | "beat" | "web"]:
                process.kill()
            case ["terminate", _]:
                process.stop(signal.SIGTERM)
            case ["quit", _]:
                process.stop(signal.SIGQUIT)
            case ["freeze", "worker" | "beat"]:
                process.freeze()
                self._at(until, process.thaw)
            case _:
                raise LookupError("it has no children now")

    def _to_database(self, mishap: Mishap) -> None:
        connection.close()
        match mishap.kind.split():
            case ["cut", _]:
                self._postgres.cut()
            case ["restart", _]:
                self._postgres.restart()
            case _:
                self._postgres.crash()

    def _to_messages(self, mishap: Mishap, until: float) -> None:
        if not self._broker.is_well:
            raise LookupError("the broker is away")
        match mishap.kind:
            case "flood of sweeps":
                messages.send(messages.sweeps(FLOOD))
            case "deliver late and twice":
                taken = messages.take(HELD_BACK)
                self._at(until, lambda: messages.send(taken, times=2))
            case "deliver old messages":
                try:
                    messages.send(messages.old(OLD, random.Random(mishap.number)))
                except DatabaseError:
                    connection.close()
                    raise
            case _:
                messages.lose()

    def _to_broker(self, mishap: Mishap, until: float) -> None:
        broker = self._broker
        match mishap.kind:
            case "drop broker connections" if broker.is_well:
                broker.drop_connections()
            case "broker vanishes":
                broker.vanish()
                self._at(until, broker.heal)
            case "broker hangs":
                broker.hang()
                self._at(until, broker.heal)
            case "restart broker" if isinstance(broker, PrivateRedis):
                broker.restart()
            case "flush broker" if isinstance(broker, PrivateRedis) and broker.is_well:
                broker.flush()
            case _:
                raise LookupError("the broker is away")

    def _at(self, moment: float, end: Callable[[], None]) -> None:
        heapq.heappush(self._later, (moment, next(self._order), end))
