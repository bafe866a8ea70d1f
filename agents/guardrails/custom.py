"""Checks that a project writes itself. Pure but for the registry, and for what a check may do.

@guardrail_check("mentions_competitor")
def mentions_competitor(subject: Subject) -> bool:
    \"\"\"True when the rule is broken.\"\"\"
    return any("acme" in text.lower() for text in subject.texts())
"""

import inspect
import re
from collections.abc import Callable
from typing import Any, TypeVar

from agents.guardrails.settings import known
from agents.guardrails.subjects import BadRule, CheckFailed, Subject
from hitl.display import listed

NAME = re.compile(r"[a-zA-Z][\w.-]{0,99}", re.ASCII)
KIND = re.compile(r"[a-z][a-z0-9_]{0,39}", re.ASCII)
KINDS_MAX = 20
FOUND = "custom"

F = TypeVar("F", bound=Callable[[Subject], Any])

_checks: dict[str, Callable[[Subject], Any]] = {}


def guardrail_check(name: str) -> Callable[[F], F]:
    """Register a check under a name that rules refer to; a second one of this name replaces it.

    The function is given a `Subject` and returns True when the rule is broken, False when it is
    not, or a list of the kinds of what it found (words of small letters, digits and _, never the
    values), empty for nothing. If it raises, or returns anything else, the rule counts as broken,
    unless it says otherwise. It is called in a worker between two steps: let it be quick, and
    change nothing, since it may be called again. Raises `BadRule` for a name or a function that
    cannot be used.
    """
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise BadRule(f"{name!r} cannot be the name of a check; write letters, digits, _ . and -.")

    def register(function: F) -> F:
        if not callable(function) or inspect.iscoroutinefunction(function):
            raise BadRule(f"The check {name} must be a plain function of one subject.")
        try:
            inspect.signature(function).bind(None)
        except TypeError as error:
            raise BadRule(f"The check {name} must take one subject.") from error
        _checks[name] = function
        return function

    return register


def names() -> list[str]:
    """Return the names of all checks that are registered."""
    return sorted(_checks)


def described(name: str) -> str:
    """Return the first line of a check's docstring."""
    return (inspect.getdoc(_checks[name]) or "").partition("\n")[0] if name in _checks else ""


def clean(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings as they are kept: `function`, the name of a registered check."""
    known(settings, "function")
    name = settings.get("function")
    if name not in _checks:
        raise BadRule(f"function: no check {name!r} is registered; known are: {listed(names())}.")
    return {"function": name}


def finder(settings: dict[str, Any]) -> Callable[[Subject], list[str]]:
    """Return what asks the check, as it is registered when it is asked."""
    name = settings["function"]

    def find(subject: Subject) -> list[str]:
        if name not in _checks:
            raise CheckFailed(f"No check {name} is registered.")
        said = _checks[name](subject)
        if isinstance(said, bool):
            return [FOUND] if said else []
        if isinstance(said, list | tuple) and len(said) <= KINDS_MAX and all(map(_is_kind, said)):
            return list(said)
        raise CheckFailed(f"The check returned a {type(said).__name__}, or kinds that are none.")

    return find


def _is_kind(value: object) -> bool:
    return isinstance(value, str) and bool(KIND.fullmatch(value))
