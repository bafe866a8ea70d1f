"""What a body may await: steps, sleeps, agents, races and gatherings; and recorded values. Pure.

Each is a request that gets its position in the journal when it is first awaited; a hook already
when it is created, so that what comes while a later step runs is kept. `now`, `random` and `uuid4`
are recorded at once.
"""

import random as random_module
import uuid as uuid_module
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar
from uuid import UUID

from agents.workflows import replay
from agents.workflows.errors import AgentFailed, StepFailed
from agents.workflows.replay import Branch, Issued, Session, Wait
from hitl import durations, values
from hitl.values import JSON

T = TypeVar("T")

STEP, SLEEP, AGENT = "step", "sleep", "agent"
NOW, RANDOM, UUID4, TOKEN = "now", "random", "uuid4", "token"
VALUES = frozenset({NOW, RANDOM, UUID4, TOKEN})
"""Kinds of entry whose value is known when they are asked for."""

Error = Mapping[str, str] | None


class Call(Generic[T]):
    """A request that is made when it is awaited, once; awaited again it gives the same result."""

    kind: str

    def __init__(self, name: str, input: Any) -> None:  # noqa: A002
        self.name = name
        self.input, self.digest = values.clean_with_digest(input)
        self._wait: Issued | None = None
        self._session = replay.current(str(self))
        self._session.unawaited[id(self)] = self

    def __str__(self) -> str:
        return self.name or self.kind

    def __await__(self) -> Generator[Any, Any, Any]:
        return (yield from self.begin(replay.current(str(self))).__await__())

    def begin(self, session: Session) -> Wait:
        """Take a place in the journal and return the wait for the completion."""
        if self._wait is None:
            session.unawaited.pop(id(self), None)
            self._wait = session.issue(self)
        return self._wait

    def wait_at(self, position: int) -> Issued:
        return Issued(position, self.kind, self.name, self.read)

    def read(self, value: Any, error: Error) -> T:
        """Return a recorded completion as the body sees it, or raise what went wrong."""
        raise NotImplementedError


class StepCall(Call[Any]):
    """One call of a step."""

    kind = STEP

    def __init__(self, step: Any, arguments: dict[str, Any]) -> None:
        super().__init__(step.name, arguments)
        self.step = step

    def read(self, value: Any, error: Error) -> Any:
        if error is not None:
            raise StepFailed(self.name, error.get("type", ""), error.get("text", ""))
        return self.step.restore_output(value)


class SleepCall(Call[None]):
    """A wait for nothing but time. How long is the row's business, so it may change in the code."""

    kind = SLEEP

    def __init__(self, until: datetime | None, lasts: timedelta | None) -> None:
        super().__init__("", None)
        self.digest = ""
        self.until, self.lasts = until, lasts

    def read(self, value: Any, error: Error) -> None:
        return None


class AgentCall(Call[str]):
    """A run of an agent, whose last word is the result."""

    kind = AGENT

    def __init__(self, agent: str, message: str, options: dict[str, Any]) -> None:
        super().__init__(agent, {"message": message})
        self.options = options

    def read(self, value: Any, error: Error) -> str:
        if error is not None:
            raise AgentFailed(error.get("text", ""))
        return str(value["text"])


def sleep(duration: str | timedelta | float | datetime) -> SleepCall:
    """Wait without holding a worker: `await sleep("72h")`, a timedelta, milliseconds, or until a
    time (an aware datetime; one that has passed goes on at once). Raises `BadDuration`.
    """
    replay.current("sleep")
    if isinstance(duration, datetime):
        if duration.tzinfo is None:
            raise ValueError("sleep needs an aware datetime; write datetime(…, tzinfo=UTC).")
        return SleepCall(duration, None)
    return SleepCall(None, durations.parse(duration))


def run_agent(agent: Any, message: str, *, user: Any = None, title: str = "") -> AgentCall:
    """Start a thread of this agent (or its name) and wait for its answer, a text.

    Its gates are in the same inbox. `user` owns the thread. Raises `AgentFailed` when its run fails
    or is stopped. Cancelling the workflow stops it.
    """
    replay.current("run_agent")
    name = agent if isinstance(agent, str) else agent.name
    if not isinstance(message, str) or not message.strip():
        raise ValueError("run_agent needs a message: a text with something in it.")
    return AgentCall(name, message, {"user": getattr(user, "pk", user), "title": title})


# ── Several at once ──────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Winner:
    """Which way of a race came first, from 0, and what it gave."""

    index: int
    value: Any


class _Together:
    """Ways that are begun in their order, the first time that this is awaited."""

    def __init__(self, ways: tuple[Any, ...]) -> None:
        self.ways = ways
        self._wait: Wait | None = None

    def __await__(self) -> Generator[Any, Any, Any]:
        return (yield from self.begin(replay.current(type(self).__name__.lower())).__await__())

    def begin(self, session: Session) -> Wait:
        """Begin every way and return the wait for them."""
        if self._wait is None:
            self._wait = Wait()
            waits = [session.fork(way) for way in self.ways]
            self.join(waits, self._wait)
            for wait in waits:
                wait.watch(_keep_aside(self._wait, session.lost))
        return self._wait

    def join(self, waits: list[Wait], whole: Wait) -> None:
        raise NotImplementedError


class Race(_Together):
    """The first of several to be done."""

    def join(self, waits: list[Wait], whole: Wait) -> None:
        for index, wait in enumerate(waits):
            wait.watch(_finish_line(index, whole))


class Gather(_Together):
    """All of several, or the first error among them."""

    def join(self, waits: list[Wait], whole: Wait) -> None:
        left = [len(waits)]

        def arrive(wait: Wait) -> None:
            left[0] -= 1
            if wait.error is not None:
                whole.settle(error=wait.error)
            elif not left[0]:
                whole.settle([each.value for each in waits])

        for wait in waits:
            wait.watch(arrive)
        if not waits:
            whole.settle([])


def _keep_aside(whole: Wait, lost: list[BaseException]) -> Callable[[Wait], None]:
    """Keep what a branch raises when the whole is over and has told the body something else."""

    def arrive(wait: Wait) -> None:
        if isinstance(wait, Branch) and wait.error is not None and wait.error is not whole.error:
            lost.append(wait.error)

    return arrive


def _finish_line(index: int, whole: Wait) -> Callable[[Wait], None]:
    def arrive(wait: Wait) -> None:
        whole.settle(None if wait.error else Winner(index, wait.value), wait.error)

    return arrive


def race(*ways: Any) -> Race:
    """Wait for the first of several: `winner = await race(hook, sleep("72h"))`.

    Ways are steps, gates, hooks, sleeps, other races and gatherings, and calls of async functions.
    Returns a `Winner`; raises what the first one raised. The others go on until the body returns,
    and are closed then. Of ways that are done already the first counts.
    """
    replay.current("race")
    if not ways:
        raise ValueError("race needs at least one way to wait for.")
    return Race(ways)


def gather(*ways: Any) -> Gather:
    """Wait for all of several and return their results in order; steps run in parallel on workers.

    Raises the first error among them; the others go on until the body returns.
    """
    replay.current("gather")
    return Gather(ways)


# ── Values that are recorded ─────────────────────────────────────────────────────────────────────


def now() -> datetime:
    """Return the present time (aware, UTC), the same on every replay."""
    return datetime.fromisoformat(replay.current("now").record(NOW))


def random() -> float:
    """Return a random number from 0 up to 1, the same on every replay."""
    return float(replay.current("random").record(RANDOM))


def uuid4() -> UUID:
    """Return a random UUID, the same on every replay."""
    return UUID(replay.current("uuid4").record(UUID4))


def maker(clock: Callable[[], datetime]) -> Callable[[str], JSON]:
    """Return what makes a value of each kind, with this clock."""

    def make(kind: str) -> JSON:
        if kind == NOW:
            return clock().isoformat()
        if kind == RANDOM:
            return random_module.random()  # noqa: S311
        return str(uuid_module.uuid4())

    return make
