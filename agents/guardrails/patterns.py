"""The check for a regular expression. Pure.

An expression may take for ever on a text that its author never thought of. So each search has a
time limit; one that exceeds it could not be made, and the rule then counts as broken.
"""

from collections.abc import Callable, Sequence
from typing import Any

import regex

from agents.guardrails.folding import plain
from agents.guardrails.settings import flag, known, text
from agents.guardrails.subjects import BadRule, CheckFailed, Finding

PATTERN_CHARS_MAX = 500
LABEL_CHARS_MAX = 30
TIMEOUT_S = 0.25
FINDINGS_MAX = 10_000
LABEL = "pattern"
# Texts on which an expression that backtracks without end mostly shows it.
_PROBES = (
    "a" * 40 + "!",
    "0" * 40 + "x",
    "aA0 " * 20 + "\n",
    " " * 60 + "x",
    "1," * 60,
    "/a." * 40,
)


def clean(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings as they are kept: `pattern`, `ignore_case`, and `label`, its kind."""
    known(settings, "pattern", "ignore_case", "label")
    cleaned = {
        "pattern": text(settings, "pattern", chars_max=PATTERN_CHARS_MAX),
        "ignore_case": flag(settings, "ignore_case", default=True),
        "label": text(settings, "label", chars_max=LABEL_CHARS_MAX, default=LABEL),
    }
    label = cleaned["label"]
    if not (isinstance(label, str) and regex.fullmatch(r"[a-z][a-z0-9_]*", label)):
        raise BadRule("label: write a word of small letters, digits and _, for example ticket.")
    try:
        compiled = _compiled(cleaned)
        if compiled.search("", timeout=TIMEOUT_S):
            raise BadRule("pattern: it matches the empty text, so it is found everywhere.")
        for probe in _PROBES:
            compiled.search(probe, timeout=TIMEOUT_S)
    except regex.error as error:
        raise BadRule(f"pattern: {error}.") from error
    except TimeoutError as error:
        raise BadRule(
            "pattern: it takes too long on a short text; avoid repeating what is repeated already."
        ) from error
    except (RecursionError, MemoryError, OverflowError) as error:
        raise BadRule("pattern: it is too involved; split it into several rules.") from error
    return cleaned


def finder(settings: dict[str, Any]) -> Callable[[str], Sequence[Finding]]:
    """Return what finds the expression in a text; raises CheckFailed when that takes too long."""
    compiled, label = _compiled(settings), settings["label"]

    def find(text: str) -> list[Finding]:
        seen = plain(text)
        found = []
        try:
            for match in compiled.finditer(seen.text, timeout=TIMEOUT_S):
                if match.end() > match.start():
                    found.append(Finding(label, *seen.original(*match.span())))
                if len(found) > FINDINGS_MAX:
                    raise CheckFailed("The pattern was found too often.")
        except TimeoutError:
            raise CheckFailed("The pattern took too long.") from None
        return found

    return find


def _compiled(settings: dict[str, Any]) -> Any:
    return regex.compile(settings["pattern"], regex.IGNORECASE if settings["ignore_case"] else 0)
