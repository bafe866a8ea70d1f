"""Masks in place of values that few may see, by the names of the arguments. Pure."""

from collections.abc import Iterable
from typing import Any

MASK = "[redacted]"


def mask(arguments: Any, names: Iterable[str]) -> Any:
    """Return the arguments with a mask for each that is named; anything but an object as it is."""
    hidden = set(names)
    if not hidden or not isinstance(arguments, dict):
        return arguments
    return {name: MASK if name in hidden else value for name, value in arguments.items()}


def unmask(
    arguments: dict[str, Any], exact: dict[str, Any], names: Iterable[str]
) -> dict[str, Any]:
    """Return edited arguments in which a mask that was left alone is the exact value again."""
    kept = {name: exact[name] for name in names if name in exact and arguments.get(name) == MASK}
    return {**arguments, **kept}
