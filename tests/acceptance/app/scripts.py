"""Scripted models without a counter of their own: any process may serve the next request. Pure."""

from collections.abc import Callable
from typing import Any

from agents.llm.messages import AssistantMessage, Request, UserMessage
from agents.testing import ScriptedModel


def by_step(*turns: Any) -> ScriptedModel:
    """Return a model that tells from the history alone which turn is next."""
    return ScriptedModel(lambda request: _filled(turns[replies(request)], request))


def replies(request: Request) -> int:
    """Return how often the model has replied since the newest user message."""
    newest = max(
        position
        for position, message in enumerate(request.messages)
        if isinstance(message, UserMessage)
    )
    return sum(isinstance(message, AssistantMessage) for message in request.messages[newest:])


def said(request: Request) -> str:
    """Return the newest user message: the tests write there what a run is about."""
    return next(
        message.text for message in reversed(request.messages) if isinstance(message, UserMessage)
    )


def _filled(turn: Any, request: Request) -> Any:
    """Put the reference of the run into a turn that is a function of it."""
    return turn(said(request)) if isinstance(turn, Callable) else turn  # type: ignore[arg-type]
