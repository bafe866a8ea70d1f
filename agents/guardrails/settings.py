"""Reading the settings of a check at the door. Pure; raises `BadRule` with what to do."""

from collections.abc import Iterable
from typing import Any

from agents.guardrails.subjects import BadRule
from hitl import values


def known(settings: dict[str, Any], *names: str) -> None:
    """Refuse settings that the check does not have."""
    if unknown := sorted(set(settings) - set(names)):
        raise BadRule(f"There is no setting {unknown[0]!r}; known are: {', '.join(names)}.")


def text(settings: dict[str, Any], name: str, *, chars_max: int, default: str = "") -> str:
    """Return a text setting, which must have something in it unless there is a default."""
    value = settings.get(name, default)
    if not isinstance(value, str) or not (value.strip() or default):
        raise BadRule(f"{name}: write a text.")
    if len(value) > chars_max:
        raise BadRule(f"{name}: at most {chars_max} characters are taken.")
    return values.clean_text(value) if value.strip() else default


def flag(settings: dict[str, Any], name: str, *, default: bool) -> bool:
    """Return a setting that is on or off."""
    value = settings.get(name, default)
    if not isinstance(value, bool):
        raise BadRule(f"{name}: write true or false.")
    return value


def lines(settings: dict[str, Any], name: str, *, most: int, chars_max: int) -> list[str]:
    """Return a setting that is a list of texts: stripped, each once, one at least."""
    given = settings.get(name)
    if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
        raise BadRule(f"{name}: write a list of texts.")
    found = list(dict.fromkeys(clean for one in given if (clean := values.clean_text(one.strip()))))
    if not found:
        raise BadRule(f"{name}: write one at least.")
    if len(found) > most:
        raise BadRule(f"{name}: at most {most} are taken.")
    if too_long := [one for one in found if len(one) > chars_max]:
        raise BadRule(f"{name}: {too_long[0][:20]!r}… has over {chars_max} characters.")
    return found


def chosen(settings: dict[str, Any], name: str, choices: Iterable[str]) -> list[str]:
    """Return a setting that picks some of these choices, in their order."""
    options = list(choices)
    given = settings.get(name, [])
    if not isinstance(given, list):
        raise BadRule(f"{name}: write a list.")
    if unknown := [one for one in given if one not in options]:
        raise BadRule(f"{name}: {unknown[0]!r} is unknown; known are: {', '.join(options)}.")
    return [one for one in options if one in given]
