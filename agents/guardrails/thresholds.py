"""The check that a number in a call's arguments keeps within a limit. Pure.

It proves that the value is within the limit; whatever it cannot prove is over it: a missing value,
a text, a bool, NaN, an empty list behind `*` (G2). Compared are the values that the function would
get, as exact decimals.
"""

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from pydantic import BaseModel

from agents.guardrails.settings import known, text
from agents.guardrails.subjects import BadRule, Subject

PATH = re.compile(r"(?:[^\W\d][\w-]*|\*|\d{1,4})(?:\.(?:[^\W\d][\w-]*|\*|\d{1,4})){0,9}")
PATH_CHARS_MAX = 200
LIMIT = re.compile(r"[+-]?\d{1,40}(?:\.\d{1,40})?")
VALUES_MAX = 10_000
KIND = "over_limit"

WITHIN: dict[str, Callable[[Decimal, Decimal], bool]] = {
    "at_most": lambda value, limit: value <= limit,
    "less_than": lambda value, limit: value < limit,
    "at_least": lambda value, limit: value >= limit,
    "more_than": lambda value, limit: value > limit,
}


def clean(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings as they are kept: `path`, `must_be` and `limit`, a decimal as text."""
    known(settings, "path", "must_be", "limit")
    path = text(settings, "path", chars_max=PATH_CHARS_MAX).strip()
    if not PATH.fullmatch(path):
        raise BadRule("path: write names with dots between, for example amount or items.*.price.")
    must_be = settings.get("must_be", "at_most")
    if must_be not in WITHIN:
        raise BadRule(f"must_be: write one of {', '.join(WITHIN)}.")
    limit = settings.get("limit")
    written = "" if isinstance(limit, bool | float) else str(limit).strip()
    if not LIMIT.fullmatch(written):
        raise BadRule("limit: write a number, for example 100 or 99.50; as text if it has a point.")
    return {"path": path, "must_be": must_be, "limit": written}


def finder(settings: dict[str, Any]) -> Callable[[Subject], list[str]]:
    """Return what tells whether a call is over the limit."""
    path = settings["path"].split(".")
    limit, is_within = Decimal(settings["limit"]), WITHIN[settings["must_be"]]

    def find(subject: Subject) -> list[str]:
        found = _at(subject.typed, path)
        if not found or len(found) > VALUES_MAX:
            return [KIND]
        exact = [_decimal(value) for value in found]
        shown = all(value is not None and is_within(value, limit) for value in exact)
        return [] if shown else [KIND]

    return find


def _at(value: Any, path: list[str]) -> list[Any]:
    """Return the values at the end of a path; where it leads nowhere stands None."""
    if not path:
        return [value]
    name, rest = path[0], path[1:]
    if name == "*":
        return [found for item in _items(value) for found in _at(item, rest)] or [None]
    if isinstance(value, Mapping):
        return _at(value[name], rest) if name in value else [None]
    if isinstance(value, list | tuple) and name.isdecimal():
        return _at(value[int(name)], rest) if int(name) < len(value) else [None]
    fields = _fields(value)
    return _at(fields[name], rest) if name in fields else [None]


def _items(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list | tuple | set | frozenset) else ()


def _fields(value: Any) -> dict[str, Any]:
    """Return what a dataclass or a pydantic model holds, by name."""
    if isinstance(value, BaseModel):
        return {name: getattr(value, name) for name in type(value).model_fields}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
    return {}


def _decimal(value: Any) -> Decimal | None:
    """Return a finite number exactly as it was written; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    try:
        exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    except (InvalidOperation, ValueError):
        return None
    return exact if exact.is_finite() else None
