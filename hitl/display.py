"""Text from models, tools and outsiders, made fit for a person's eyes. Pure.

It stays inert text: escaping for HTML is the template's work, this module shows what hides.
"""

import json
import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

from hitl.values import JSON

_NOT_PLAIN = re.compile(r"[^\n\t\x20-\x7e]\ufe0f?")
_HIDDEN_CATEGORIES = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
# Letters and marks that draw nothing: fillers, joiners, selectors.
_HIDDEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U000e0100-\U000e01ef]"
)


def visible(text: str) -> str:
    """Return the text with control, direction and invisible characters spelled out.

    U+202E becomes "⟨U+202E⟩"; newline and tab stay, carriage return does not.
    """
    return _NOT_PLAIN.sub(lambda match: _shown(match[0]), text)


def pretty(value: JSON) -> str:
    """Return indented JSON in full, readable beyond ASCII, with hidden characters spelled out."""
    return visible(json.dumps(value, indent=2, ensure_ascii=False))


def listed(names: Iterable[str], *, most: int = 20) -> str:
    """Return names for a message: "a, b and c", "a, b … and 980 more", or "none"."""
    *first, last = sorted(names) or ["none"]
    if len(first) >= most:
        return f"{', '.join(first[:most])} … and {len(first) + 1 - most} more"
    return f"{', '.join(first)} and {last}" if first else last


@lru_cache(maxsize=4096)
def _shown(found: str) -> str:
    char, selector = found[0], found[1:]
    if unicodedata.category(char) in _HIDDEN_CATEGORIES or _HIDDEN.match(char):
        return _spelled(found)
    if selector and unicodedata.category(char) != "So":
        return char + _spelled(selector)
    return found  # the selector that gives a symbol its colour stays with the symbol: "❤️"


def _spelled(text: str) -> str:
    return "".join(f"⟨U+{ord(char):04X}⟩" for char in text)
