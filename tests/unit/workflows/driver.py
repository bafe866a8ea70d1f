"""Drives a body without any row: what it asks for is completed by hand, in any order."""

from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any

from agents.workflows import awaiting
from agents.workflows.awaiting import StepCall
from agents.workflows.replay import Blocked, Delivery, Outcome, Raised, Recorded, Session

Body = Callable[[], Coroutine[Any, Any, Any]]


class FakeStep:
    """Stands for a step: a name, and outputs as they are."""

    def __init__(self, name: str) -> None:
        self.name = name

    def restore_output(self, output: Any) -> Any:
        return output

    def __call__(self, *arguments: Any) -> StepCall:
        return StepCall(self, {"arguments": list(arguments)})


def step(name: str, *arguments: Any) -> StepCall:
    return FakeStep(name)(*arguments)


class Live:
    """One live way through a body, and the journal that it leaves behind."""

    def __init__(self, body: Body) -> None:
        self.body = body
        self.recorded: list[Recorded] = []
        self.completed: list[Delivery] = []
        self.session = session(self.recorded)
        self.session.start(body())
        self.outcome: Outcome = self.session.advance()
        self.write_down()

    def write_down(self) -> None:
        """Take what the body asked for into the journal."""
        for new in self.session.new:
            assert new.position == len(self.recorded)
            self.recorded.append(Recorded(new.kind, new.name, new.digest, new.value))
        self.session.new = []

    @property
    def is_over(self) -> bool:
        return not isinstance(self.outcome, Blocked)

    @property
    def open(self) -> dict[str, int]:
        """The positions of what is asked for and not complete, by name."""
        done = {delivery.position for delivery in self.completed}
        return {
            entry.name: position
            for position, entry in enumerate(self.recorded)
            if position not in done and entry.kind not in awaiting.VALUES
        }

    def complete(self, name: str, value: Any = None, error: str = "") -> None:
        """Complete what is open under this name."""
        failed = {"type": "ValueError", "text": error} if error else None
        delivery = Delivery(self.open[name], value, failed)
        self.completed.append(delivery)
        self.outcome = self.session.advance([delivery])
        self.write_down()

    def again(self) -> tuple[Outcome, list[Recorded]]:
        """Replay from the journal alone; returns the outcome and what it holds afterwards."""
        fresh = session(self.recorded)
        fresh.start(self.body())
        outcome = fresh.advance(self.completed)
        assert fresh.check_length() is None
        fresh.close()
        new = [Recorded(new.kind, new.name, new.digest, new.value) for new in fresh.new]
        return outcome, [*self.recorded, *new]

    def result(self) -> Any:
        """Return what the body returned; raise what it raised."""
        if isinstance(self.outcome, Raised):
            raise self.outcome.error
        assert not isinstance(self.outcome, Blocked), f"it waits for {self.open}"
        return self.outcome.value


def session(recorded: list[Recorded]) -> Session:
    return Session(list(recorded), awaiting.maker(lambda: datetime(2026, 1, 1, tzinfo=UTC)))
