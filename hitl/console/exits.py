"""How a command ends: its exit code, and the refusal that carries one. Pure.

The codes are a promise to scripts (L1); `docs/reference/command-line.md` lists them.
"""

from enum import IntEnum

from hitl.errors import HitlError


class Exit(IntEnum):
    """What the shell sees."""

    DONE = 0
    FAILED = 1
    """It failed, or the request is no longer pending."""
    USAGE = 2
    """The command line is not understood, or does not name one request."""
    NOT_FOUND = 4
    UNCONFIRMED = 5
    """The decision needs `--yes`."""


class Refusal(HitlError):
    """The command cannot be carried out."""

    def __init__(self, exit_code: Exit, code: str, message: str) -> None:
        """`code` is stable, for programs; `message` is for a person and says what to do."""
        super().__init__(message)
        self.exit_code = exit_code
        self.error_code = code
