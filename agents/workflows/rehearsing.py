"""Replaying a body after each step, to find out in a test that it would diverge after a crash.

A body that reads a clock, a random number or a global goes one way while it is live and another on
replay. `agents.testing.run_worker` switches this on; in production a replay comes soon enough. The
idea is Restate's. Reads rows, writes none.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from agents.models import Run
from agents.workflows import journal
from agents.workflows.bodies import body_of, replay, session_of
from agents.workflows.errors import Diverged
from agents.workflows.replay import Outcome, Raised, Returned, Session
from hitl.errors import HitlError

_is_on = False


@contextmanager
def on(switch: bool = True) -> Iterator[None]:
    """Replay after each step within the block."""
    global _is_on
    before, _is_on = _is_on, switch
    try:
        yield
    finally:
        _is_on = before


def compare(run: Run, live: Session, outcome: Outcome) -> Outcome:
    """Return the outcome, or the divergence when a replay from the rows has another."""
    if not _is_on:
        return outcome
    held = journal.load(run.id)
    body = body_of(run)
    if isinstance(body, HitlError) or len(held.completed) != live.delivered:
        return outcome
    again = session_of(held)
    try:
        other = replay(again, body, held)
    finally:
        again.close()
    if isinstance(other, Raised) and isinstance(other.error, Diverged):
        return other
    if _told(live, outcome) == _told(again, other):
        return outcome
    return Raised(Diverged.unlike(_words(live, outcome), _words(again, other)))


def _told(session: Session, outcome: Outcome) -> object:
    asked = [(new.position, new.kind, new.name, new.digest) for new in session.new]
    if isinstance(outcome, Raised):
        return asked, type(outcome.error), str(outcome.error)
    return asked, outcome


def _words(session: Session, outcome: Outcome) -> str:
    if isinstance(outcome, Raised):
        return f"raises {outcome.error!r}"
    if isinstance(outcome, Returned):
        return f"returns {outcome.value!r}"
    return f"asks for {[f'{new.kind} {new.name}'.strip() for new in session.new]}"
