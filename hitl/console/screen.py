"""The terminal: how wide it is, whether it shows colours, what its encoding holds, what hides."""

import io
import os
import shutil
from typing import Any

from hitl import display

WIDTH_MIN = 40
WIDTH_WITHOUT_TERMINAL = 80


def line(text: str) -> str:
    """Return the text in one line, with whatever hides or controls in it spelled out (U5).

    A value cannot make up a line of its own, nor turn the reading direction or the terminal.
    """
    return display.visible(text).replace("\n", "⏎").replace("\t", " ")


class Screen:
    """Writes text and rich renderables to a stream. Without a terminal it writes no escape codes.

    Callers make control characters in values visible first (`hitl.display`): what is shown here is
    shown as it is.
    """

    def __init__(self, out: Any, *, coloured: bool | None = None) -> None:
        """`coloured` None asks the stream whether it is a terminal."""
        self._out = out
        self._is_terminal = out.isatty() if coloured is None else coloured

    def show(self, *parts: Any) -> None:
        """Write these one below the other. A string is never wrapped or cut."""
        for part in parts:
            text = part + "\n" if isinstance(part, str) else self._rendered(part)
            self._out.write(self._fit(text), ending="")

    def _rendered(self, part: Any) -> str:
        from rich.console import Console

        console = Console(
            file=io.StringIO(),
            width=max(WIDTH_MIN, self._width()),
            force_terminal=self._is_terminal,
            markup=False,
            highlight=False,
            emoji=False,
            legacy_windows=False,
        )
        with console.capture() as capture:
            console.print(part)
        # Cells are filled up with spaces; those at the end of a line only get in the way.
        return "".join(line.rstrip() + "\n" for line in capture.get().splitlines())

    def _width(self) -> int:
        if self._is_terminal or os.environ.get("COLUMNS"):
            return shutil.get_terminal_size((WIDTH_WITHOUT_TERMINAL, 24)).columns
        return WIDTH_WITHOUT_TERMINAL

    def _fit(self, text: str) -> str:
        """Spell out what the stream's encoding has no character for, in place of failing."""
        encoding = getattr(self._out, "encoding", None) or "utf-8"
        return text.encode(encoding, "backslashreplace").decode(encoding)
