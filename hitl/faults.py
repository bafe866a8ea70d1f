"""Named points at which a test can crash, pause or record the code under test.

Unarmed, a point costs one comparison. Armed by a test (`arm`, `armed`) it calls a handler; armed
by the environment variable SAYSO_FAULT it kills the process with exit status 77, as a power cut
would. SAYSO_FAULT is "name" (first pass), "name:3" (third pass) or "*:17" (17th pass of any point);
a forked child goes on counting from where its parent was.
"""

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

EXIT_STATUS = 77
ANY = "*"

Handler = Callable[[str], None]
HandlerT = TypeVar("HandlerT", bound=Handler)

_handler: Handler | None = None
_passes: Counter[str] = Counter()


class Crash(BaseException):
    """The process died here (in a test)."""


def point(name: str) -> None:
    """Mark a place between two effects, for example "park:saved"."""
    if _handler is not None:
        _passes[name] += 1
        _handler(name)


def arm(handler: Handler) -> None:
    """Call `handler(name)` at every point, in the place of any handler armed before."""
    global _handler
    _handler = handler


def disarm() -> None:
    """Make every point a no-op again."""
    global _handler
    _handler = None


@contextmanager
def armed(handler: HandlerT) -> Iterator[HandlerT]:
    """Arm `handler` for the block, then restore what was armed before."""
    before = _handler
    arm(handler)
    try:
        yield handler
    finally:
        if before is None:
            disarm()
        else:
            arm(before)


def passes() -> dict[str, int]:
    """Return how often each point was passed while armed, since the last `forget`."""
    return dict(_passes)


def forget() -> None:
    """Empty the record that `passes` returns."""
    _passes.clear()


class CrashAt:
    """Handler that raises `Crash` at the n-th pass of a point, by default of any point.

    A dead process passes no further point: once it fired, every later point raises too. The crash
    loop counts up until a scenario ends without `fired`:

        for nth in itertools.count(1):
            with faults.armed(faults.CrashAt(nth)) as crash, suppress(faults.Crash):
                scenario()
            if crash.fired is None:
                break
    """

    def __init__(self, nth: int, *, name: str = ANY) -> None:
        assert nth >= 1, "the first pass is number 1"
        self.nth = nth
        self.name = name
        self.passed = 0
        self.fired: str | None = None
        self._lock = threading.Lock()

    def __call__(self, name: str) -> None:
        with self._lock:
            if self.fired is None:
                if self.name not in (ANY, name):
                    return
                self.passed += 1
                if self.passed < self.nth:
                    return
                self.fired = name
        self._crash()

    def _crash(self) -> None:
        raise Crash(self.fired)


class KillAt(CrashAt):
    """Like `CrashAt`, but ends the process at once, with no clean-up of any kind."""

    def _crash(self) -> None:
        os._exit(EXIT_STATUS)


def from_environment(value: str) -> KillAt:
    """Read SAYSO_FAULT; raises ValueError with the expected form."""
    name, _, nth = value.rpartition(":") if _ends_in_number(value) else (value, "", "1")
    if not name or int(nth) < 1:
        raise ValueError(f'SAYSO_FAULT={value!r}: write "name", "name:3" or "*:17"')
    return KillAt(int(nth), name=name)


def _ends_in_number(value: str) -> bool:
    # The names of points have colons of their own ("park:saved").
    return value.rpartition(":")[2].isdecimal()


if os.environ.get("SAYSO_FAULT"):
    arm(from_environment(os.environ["SAYSO_FAULT"]))
