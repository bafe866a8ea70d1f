"""The check for words and phrases. Pure.

Words are found as a reader sees them: whatever the case, the accents, look-alike letters or
invisible characters in between, and whatever space is between the words of a phrase. By default
only whole words count; scripts without spaces have no such edges, so there any place does.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

from agents.guardrails.folding import bare
from agents.guardrails.settings import flag, known, lines
from agents.guardrails.subjects import BadRule, Finding

WORDS_MAX = 1000
WORD_CHARS_MAX = 100
KIND = "word"
# Thai, Lao, Burmese, Khmer, kana and Han: written without spaces between words.
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")

Trie = dict[str, Any]


def clean(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings as they are kept: `words`, one or more, and `whole_words`."""
    known(settings, "words", "whole_words")
    words = lines(settings, "words", most=WORDS_MAX, chars_max=WORD_CHARS_MAX)
    for word in words:
        if not bare(word).text.strip():
            raise BadRule(f"{word!r} has nothing in it that a reader would see.")
    cleaned = {"words": words, "whole_words": flag(settings, "whole_words", default=True)}
    try:
        finder(cleaned)
    except RecursionError as error:
        raise BadRule("The words begin alike in too many ways; split the list.") from error
    return cleaned


def finder(settings: dict[str, Any]) -> Callable[[str], Sequence[Finding]]:
    """Return what finds these words in a text."""
    words = sorted({" ".join(bare(word).text.split()) for word in settings["words"]})
    edges = settings["whole_words"]
    pattern = re.compile("|".join(_branches(_trie(words), edges, at_start=True)))

    def find(text: str) -> list[Finding]:
        seen = bare(text)
        return [
            Finding(KIND, *seen.original(*match.span())) for match in pattern.finditer(seen.text)
        ]

    return find


def _trie(words: Sequence[str]) -> Trie:
    """Share the beginnings of words, so that a long list costs hardly more than a short one."""
    root: Trie = {}
    for word in words:
        node = root
        for char in word:
            node = node.setdefault(char, {})
        node[""] = {}
    return root


def _branches(node: Trie, edges: bool, *, at_start: bool = False, last: str = "") -> list[str]:
    """Return the alternatives from here on; the longer word comes before its own beginning."""
    found = []
    for char, below in node.items():
        if char == "":
            continue
        written, end = _escaped(char), char
        while len(below) == 1 and "" not in below:
            [(end, below)] = below.items()
            written += _escaped(end)
        start = r"(?<!\w)" if at_start and edges and _has_edge(char) else ""
        rest = _branches(below, edges, last=end)
        tail = rest[0] if len(rest) == 1 else f"(?:{'|'.join(rest)})"
        found.append(start + written + tail)
    if "" in node:
        found.append(r"(?!\w)" if edges and _has_edge(last) else "")
    return found


def _escaped(char: str) -> str:
    return r"\s+" if char == " " else re.escape(char)


def _has_edge(char: str) -> bool:
    return (char.isalnum() or char == "_") and not _UNSPACED.match(char)
