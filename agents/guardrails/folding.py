"""Texts as a reader sees them, however they are encoded. Pure.

`plain` undoes what only the encoding differs in: full-width and other compatible forms (NFKC), the
digits of other scripts, and characters that draw nothing. `bare` goes on to what a reader would not
tell apart: case, accents, and letters of other scripts that look like Latin ones (after UTS 39, a
small part of its table). Both remember where each character came from, so that a finding can be cut
out of the original.
"""

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

_ACCENTS = ((0x0300, 0x036F), (0x1AB0, 0x1AFF), (0x1DC0, 0x1DFF), (0x20D0, 0x20FF))
# Draws nothing though it is no format character: fillers, joiners, selectors.
_INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0") | frozenset(
    map(chr, (*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)))
)
_LOOKS_LIKE = {
    ord(other): latin
    for latin, others in {
        **{"a": "аαɑ", "b": "вβ", "c": "с", "d": "ԁđ", "e": "еε", "g": "ɡ", "h": "нһ", "i": "іιı"},
        **{"j": "ј", "k": "кκ", "l": "ł", "m": "м", "n": "η", "o": "оοø", "p": "рρ", "q": "ԛ"},
        **{"s": "ѕ", "t": "тτ", "u": "υ", "v": "ν", "w": "ԝω", "x": "хχ", "y": "уγ"},
    }.items()
    for other in others
}


@dataclass(frozen=True, slots=True)
class Folded:
    """A folded text; `places` are the original's indexes of its characters, None if the same."""

    text: str
    places: tuple[int, ...] | None = None

    def original(self, start: int, end: int) -> tuple[int, int]:
        """Return the span of the original that a span of the folded text, not empty, is from."""
        if self.places is None:
            return start, end
        return self.places[start], self.places[end - 1] + 1


def plain(text: str) -> Folded:
    """Return the text without differences of encoding and without what draws nothing."""
    return Folded(text) if text.isascii() else _fold(text, _plain)


def bare(text: str) -> Folded:
    """Return the text without differences of case, accent and look-alike letters either."""
    return Folded(text.lower()) if text.isascii() else _fold(text, _bare)


def _fold(text: str, fold: Callable[[str], str]) -> Folded:
    parts = [fold(char) for char in text]
    places = tuple(place for place, part in enumerate(parts) for _ in part)
    return Folded("".join(parts), places)


@lru_cache(maxsize=8192)
def _plain(char: str) -> str:
    if char in _INVISIBLE or unicodedata.category(char) == "Cf":
        return ""
    if char.isdecimal():  # the digits of any script
        return str(unicodedata.decimal(char))
    return unicodedata.normalize("NFKC", char)


@lru_cache(maxsize=8192)
def _bare(char: str) -> str:
    apart = unicodedata.normalize("NFKD", _plain(char))
    return "".join(c for c in apart if not _is_accent(c)).casefold().translate(_LOOKS_LIKE)


def _is_accent(char: str) -> bool:
    return any(first <= ord(char) <= last for first, last in _ACCENTS)
