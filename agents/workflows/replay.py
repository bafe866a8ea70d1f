"""The replay of a workflow's body over its journal. Pure: no Django, Celery, clock or I/O.

A body is a coroutine. Whatever it asks for (a step, a gate, a sleep) is a command with the next
position; on replay the command must be the one that the journal holds there. Completions are given
back one at a time, in the order in which they were recorded, and between two of them every branch
runs until it waits, first come first served. So the same journal gives the same way through the
body in any process, at any time. The idea of replay over an ordered history is Temporal's; that
each completion has its own place in that order avoids the races that its batches have.

The driver sends into coroutines itself: there is no event loop, and what needs one is refused.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from agents.workflows.errors import (
    Diverged,
    ForeignAwait,
    JournalFull,
    NeverAwaited,
    OutsideBody,
    Suspended,
)

BRANCHES_MAX = 1000
ENTRIES_MAX = 100_000
DROPS_MAX = 10


class Recorded(NamedTuple):
    """What the journal holds at a position: the command, and a value that was known at once."""

    kind: str
    name: str
    digest: str
    value: Any = None


class Delivery(NamedTuple):
    """A completion: `error` is None when it went well."""

    position: int
    value: Any = None
    error: Mapping[str, str] | None = None


class Request(Protocol):
    """What a body asks for: what its command is compared by, and the wait that it gets."""

    kind: str
    name: str
    digest: str

    def wait_at(self, position: int) -> "Wait": ...


@dataclass(frozen=True, slots=True)
class Command:
    """Something the body asked for that the journal does not hold yet."""

    position: int
    kind: str
    name: str
    digest: str
    request: Any = None
    value: Any = None


@dataclass(frozen=True, slots=True)
class Blocked:
    """Every branch waits. `inline` is the position of the step that the body awaits alone."""

    inline: int | None = None


@dataclass(frozen=True, slots=True)
class Returned:
    """The body has ended with this value."""

    value: Any


@dataclass(frozen=True, slots=True)
class Raised:
    """The body has ended with an error, or does not match its journal."""

    error: BaseException


Outcome = Blocked | Returned | Raised


class Wait:
    """Something that a branch can wait for; settled once, and then it tells those who watch it."""

    __slots__ = ("_watchers", "error", "is_done", "value")

    def __init__(self) -> None:
        self.is_done = False
        self.value: Any = None
        self.error: BaseException | None = None
        self._watchers: list[Callable[[Wait], None]] = []

    def settle(self, value: Any = None, error: BaseException | None = None) -> None:
        """Settle it; a second time changes nothing."""
        if self.is_done:
            return
        self.is_done, self.value, self.error = True, value, error
        watchers, self._watchers = self._watchers, []
        for watcher in watchers:
            watcher(self)

    def watch(self, watcher: "Callable[[Wait], None]") -> None:
        """Call `watcher` once it is settled, at once if it is."""
        if self.is_done:
            watcher(self)
        else:
            self._watchers.append(watcher)

    def result(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.value

    def __await__(self) -> Generator[Any, Any, Any]:
        if not self.is_done:
            yield self
        return self.result()


class Issued(Wait):
    """The wait for one command's completion."""

    is_complete_once = True
    __slots__ = ("kind", "name", "position", "read")

    def __init__(self, position: int, kind: str, name: str, read: Callable[..., Any]) -> None:
        super().__init__()
        self.position, self.kind, self.name, self.read = position, kind, name, read

    def complete(self, value: Any, error: Mapping[str, str] | None) -> None:
        """Settle with what was recorded, as the body is to see it."""
        try:
            self.settle(self.read(value, error))
        except Exception as raised:
            self.settle(error=raised)


class Branch(Wait):
    """One coroutine being driven: the body, or one way of a race or gather."""

    __slots__ = ("coroutine", "session", "waits_for")

    def __init__(self, session: "Session", coroutine: Coroutine[Any, Any, Any]) -> None:
        super().__init__()
        self.session, self.coroutine = session, coroutine
        self.waits_for: Wait | None = None
        session.ready.append(self)

    def step(self) -> None:
        """Run until it waits or ends."""
        self.waits_for = None
        try:
            wanted = self.coroutine.send(None)
        except StopIteration as stop:
            self.settle(stop.value)
        except Exception as error:
            self.settle(error=error)
        else:
            if not isinstance(wanted, Wait):
                raise ForeignAwait(ForeignAwait.at(_line(self.coroutine)))
            self.waits_for = wanted
            wanted.watch(self._wake)

    def drop(self) -> None:
        """Close the coroutine, however often it catches that."""
        for _ in range(DROPS_MAX):
            with contextlib.suppress(BaseException):
                self.coroutine.close()
                return

    def _wake(self, _: Wait) -> None:
        self.session.ready.append(self)


_current: ContextVar["Session | None"] = ContextVar("sayso_workflow_session", default=None)


def current(what: str) -> "Session":
    """Return the session whose body is running. Raises OutsideBody, which names `what`."""
    session = _current.get()
    if session is None:
        raise OutsideBody(what)
    if session.is_over:  # a `finally` block, while the run only parks
        raise Suspended
    return session


def is_in_body() -> bool:
    """Tell whether the caller is the body of a workflow that is being driven."""
    return _current.get() is not None


@dataclass(slots=True)
class Session:
    """One way through a body, as far as its journal goes, and on from there while it is live.

    `issued` are the waits of all commands so far; `new` the commands that the journal does not hold
    yet, which whoever drives takes out and writes down. `once` and `closed` are positions of hooks:
    those whose first delivery was asked for, and those that take no more. `lost` are errors that
    the body is never told of, since their race or gathering was over already.
    """

    recorded: Sequence[Recorded]
    make: Callable[[str], Any]
    issued: list[Any] = field(default_factory=list)
    new: list[Command] = field(default_factory=list)
    unawaited: dict[int, Any] = field(default_factory=dict)
    once: set[int] = field(default_factory=set)
    closed: set[int] = field(default_factory=set)
    lost: list[BaseException] = field(default_factory=list)
    delivered: int = 0
    ready: deque[Branch] = field(default_factory=deque)
    branches: list[Branch] = field(default_factory=list)
    body: Branch | None = None
    is_over: bool = False
    _fatal: BaseException | None = None

    # ── For the driver ───────────────────────────────────────────────────────────────────────────

    def start(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        """Take a body that has not begun."""
        self.body = Branch(self, coroutine)
        self.branches.append(self.body)

    def advance(self, deliveries: Sequence[Delivery] = ()) -> Outcome:
        """Give these completions back, in their order, and run as far as that goes."""
        try:
            with self._running():
                self._run()
                for delivery in deliveries:
                    if self.body is not None and self.body.is_done:
                        break  # what came after the body's last word concerns nobody
                    self._deliver(delivery)
                    self._run()
            return self._outcome()
        except (Diverged, ForeignAwait, JournalFull) as error:
            return Raised(self._fatal or error)

    def check_length(self) -> Diverged | None:
        """Return the divergence that is left when the body asks for less than was recorded."""
        position = len(self.issued)
        if position >= len(self.recorded):
            return None
        return Diverged.short(position, self.recorded[position])

    def close(self) -> None:
        """Drop the coroutines; their `finally` blocks run, and can ask for nothing any more."""
        self.is_over = True
        with self._running():
            for branch in self.branches:
                branch.drop()

    # ── For what a body awaits ───────────────────────────────────────────────────────────────────

    def issue(self, request: Request) -> Any:
        """Give a request the next position; on replay it must be what the journal holds there."""
        position = self._next(request.kind, request.name, request.digest)
        if position >= len(self.recorded):
            self.new.append(
                Command(position, request.kind, request.name, request.digest, request=request)
            )
        wait = request.wait_at(position)
        self.issued.append(wait)
        return wait

    def record(self, kind: str) -> Any:
        """Return a value of this kind: the recorded one, or a new one that is written down."""
        position = self._next(kind, "", "")
        if position < len(self.recorded):
            value = self.recorded[position].value
        else:
            value = self.make(kind)
            self.new.append(Command(position, kind, "", "", value=value))
        self.issued.append(None)
        return value

    def fork(self, awaitable: Any) -> Wait:
        """Return the wait for one way of a race or gather; a coroutine becomes a branch."""
        if isinstance(awaitable, Wait):
            return awaitable
        if hasattr(awaitable, "begin"):
            begun: Wait = awaitable.begin(self)
            return begun
        if not asyncio.iscoroutine(awaitable):
            raise TypeError(
                f"{awaitable!r} cannot be a way of race or gather: give steps, gates, hooks, "
                f"sleeps, or calls of async functions."
            )
        if len(self.branches) > BRANCHES_MAX:
            raise RuntimeError(f"A body has at most {BRANCHES_MAX} branches.")
        branch = Branch(self, awaitable)
        self.branches.append(branch)
        return branch

    # ── Inside ───────────────────────────────────────────────────────────────────────────────────

    def _next(self, kind: str, name: str, digest: str) -> int:
        position = len(self.issued)
        if position >= ENTRIES_MAX:
            self._fatal = JournalFull()
            raise self._fatal
        if position < len(self.recorded):
            held = self.recorded[position]
            if held.kind != kind or held.name != name or held.digest != digest:
                self._fatal = Diverged.at(position, held, Recorded(kind, name, digest))
                raise self._fatal
        return position

    def _deliver(self, delivery: Delivery) -> None:
        self.delivered += 1
        if delivery.position >= len(self.issued):
            held = self.recorded[delivery.position]
            self._fatal = Diverged.early(delivery.position, held)
            raise self._fatal
        wait = self.issued[delivery.position]
        if wait.is_complete_once:
            self.issued[delivery.position] = None  # thousands of them are not kept for nothing
        wait.complete(delivery.value, delivery.error)

    def _run(self) -> None:
        while self.ready:
            branch = self.ready.popleft()
            branch.step()
            if self._fatal is not None:  # however the body treated it
                raise self._fatal
            if self.body is not None and self.body.is_done:
                return

    def _outcome(self) -> Outcome:
        body = self.body
        assert body is not None, "a session is started before it advances"
        if not body.is_done:
            wanted = body.waits_for
            is_step = isinstance(wanted, Issued) and wanted.kind == "step"
            return Blocked(wanted.position if is_step else None)  # type: ignore[union-attr]
        if body.error is not None:
            return Raised(body.error)
        for request in self.unawaited.values():
            return Raised(NeverAwaited(f"{request} was called and never awaited."))
        return Returned(body.value)

    @contextlib.contextmanager
    def _running(self) -> Iterator[None]:
        token = _current.set(self)
        outer = asyncio._get_running_loop()
        asyncio._set_running_loop(_NO_LOOP)
        try:
            yield
        finally:
            asyncio._set_running_loop(outer)
            _current.reset(token)


class _NoLoop:
    """Stands where an event loop would be while a body runs: whatever needs one is told why not.

    It also makes Django refuse queries in a body, as it does in any code on a loop.
    """

    def __getattr__(self, name: str) -> Any:
        raise ForeignAwait

    def get_debug(self) -> bool:
        return False


_NO_LOOP: Any = _NoLoop()


def _line(coroutine: Any) -> str:
    """Return where a coroutine waits: the innermost line that can be told."""
    place = ""
    while coroutine is not None:
        frame = getattr(coroutine, "cr_frame", None)
        if frame is not None:
            place = f"{frame.f_code.co_filename.rpartition('/')[2]}:{frame.f_lineno}"
        coroutine = getattr(coroutine, "cr_await", None)
    return place
