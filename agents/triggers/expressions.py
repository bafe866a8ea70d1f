"""JMESPath over an event, which comes from outside: every result is bounded. Pure."""

import warnings
from functools import lru_cache
from typing import Any

import jmespath
from jmespath.exceptions import JMESPathError
from jmespath.parser import ParsedResult

from hitl import values
from hitl.errors import HitlError, NotJson, TooLarge
from hitl.values import JSON

TEXT_CHARS_MAX = 200
SHOWN_MAX = 80


class BadExpression(HitlError):
    """The expression is not JMESPath; see https://jmespath.org."""

    code = "bad_expression"


class NoResult(HitlError):
    """The expression gave nothing usable for this event."""

    code = "expression_no_result"


def check(expression: str) -> None:
    """Raise BadExpression, which says where, unless this is JMESPath."""
    _compiled(expression)


def text(expression: str, event: JSON, *, what: str) -> str:
    """Return the text, or the whole number as text, that an expression finds in an event.

    Raises NoResult, which names `what` was looked for, when it finds anything else, or a text that
    is empty or over 200 characters: a cut one could be mistaken for another.
    """
    found = value(expression, event, what=what)
    if isinstance(found, int) and not isinstance(found, bool):
        found = str(found)
    if not isinstance(found, str) or not found:
        raise NoResult(f"The {what} ({expression}) gave {_shown(found)}, not a text or number.")
    if len(found) > TEXT_CHARS_MAX:
        raise NoResult(f"The {what} ({expression}) gave over {TEXT_CHARS_MAX} characters.")
    return found


def value(expression: str, event: JSON, *, what: str) -> Any:
    """Return what an expression finds in an event; None for nothing. Raises NoResult."""
    compiled = _compiled(expression)
    try:
        return values.clean(compiled.search(event))
    except (JMESPathError, NotJson, TooLarge) as error:
        raise NoResult(f"The {what} ({expression}) cannot be found: {error}.") from error
    except Exception as error:  # its functions may raise anything for values they did not expect
        raise NoResult(f"The {what} ({expression}) cannot be found in this event.") from error


@lru_cache(maxsize=512)
def _compiled(expression: str) -> ParsedResult:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a literal that is no JSON: it is taken for a text
            return jmespath.compile(expression)
    except (JMESPathError, RecursionError, ValueError) as error:
        said = str(error).partition("\n")[0].removesuffix("for expression:").rstrip(" ,:.")
        shown = expression if len(expression) <= SHOWN_MAX else expression[:SHOWN_MAX] + "…"
        raise BadExpression(f"{shown!r} is not JMESPath: {said or 'it cannot be read'}.") from error


def _shown(found: Any) -> str:
    if found is None:
        return "nothing"
    return "an empty text" if found == "" else f"a {type(found).__name__}"
