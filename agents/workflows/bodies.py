"""From a run's row to its body, and through its whole journal. Reads no rows of its own."""

from collections.abc import Coroutine
from typing import Any

from agents.models import Run
from agents.workflows import authoring, awaiting
from agents.workflows.journal import Journal
from agents.workflows.replay import Outcome, Raised, Session
from hitl import clock
from hitl.errors import HitlError


def body_of(run: Run) -> Coroutine[Any, Any, Any] | HitlError:
    """Return the body for a run's input, not begun, or why there is none."""
    try:
        return authoring.get(run.target).body(run.input)
    except HitlError as error:
        return error


def session_of(held: Journal) -> Session:
    """Return a session over this journal, its body still to be given."""
    return Session(held.recorded, awaiting.maker(clock.now))


def replay(session: Session, body: Coroutine[Any, Any, Any], held: Journal) -> Outcome:
    """Replay a body over its whole journal; what is left over there is a divergence."""
    session.start(body)
    outcome = session.advance(held.completed)
    if not isinstance(outcome, Raised) and (left := session.check_length()) is not None:
        return Raised(left)
    return outcome
