"""What the commands with verbs share: `manage.py hitl`, `agents` and `workflows`.

Each verb is an errand that returns an Outcome; here it is printed, for a person or as JSON, and its
exit code is given to the shell.
"""

import argparse
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError

from hitl import display
from hitl.console import documents
from hitl.console.exits import Exit, Refusal
from hitl.console.outcomes import Outcome
from hitl.console.screen import Screen
from hitl.errors import HitlError

# What a database says of a table or column that a migration has yet to make.
MISSING = ("no such table", "no such column", "does not exist")
Options = Mapping[str, Any]
Verb = Callable[[str, str], argparse.ArgumentParser]


class VerbCommand(BaseCommand):
    """A command whose first word is a verb; `errands` says what each does."""

    epilog = ""
    errands: Mapping[str, Callable[[Options], Outcome]] = {}
    # `doctor` reports all that the checks find, and a person can say no while something is amiss.
    requires_system_checks: list[str] = []  # noqa: RUF012
    _usage_as_json = False

    def add_verbs(self, verb: Verb) -> None:
        """Declare the verbs with `verb(name, help)`, which returns the parser of each."""
        raise NotImplementedError

    def run_from_argv(self, argv: list[str]) -> None:
        """Run from a shell. With `--json`, a command line not understood is a document too."""
        self._usage_as_json = "--json" in argv
        try:
            super().run_from_argv(argv)
        except CommandError as error:
            message = str(error).removeprefix("Error: ")
            self.stdout.write(documents.dumps(documents.failure("usage", message)))
            sys.exit(Exit.USAGE)
        except BrokenPipeError:
            sys.exit(Exit.FAILED)
        finally:
            _leave_quietly()

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the verbs and their options. Options are never guessed from a beginning."""
        if self._usage_as_json:
            parser.called_from_command_line = False  # it then raises in place of printing
        parser.epilog = self.epilog
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")

        def verb(name: str, text: str) -> argparse.ArgumentParser:
            added = verbs.add_parser(
                name, help=text, description=text, epilog=self.epilog, allow_abbrev=False
            )
            added.add_argument("--json", action="store_true", help="print one JSON document")
            return added

        self.add_verbs(verb)

    def handle(self, *args: Any, **options: Any) -> None:
        """Do one errand and exit with its code; returns only for 0."""
        as_json = options["json"]
        try:
            errand = " ".join(filter(None, [options["verb"], options.get("part")]))
            outcome = self.errands[errand]({**options, "say": self._say})
        except (HitlError, DatabaseError) as error:
            outcome = _failed(error)
        except Exception as error:
            if as_json:  # the traceback that follows goes to stderr
                failure = documents.failure("internal_error", type(error).__name__)
                self.stdout.write(documents.dumps(failure))
            raise
        if as_json:
            self.stdout.write(documents.dumps(outcome.document))
        else:
            screen = Screen(self.stdout, coloured=_coloured(options))
            for part in outcome.view():
                screen.show(part)
            if outcome.complaint:
                self.stderr.write(display.visible(outcome.complaint))
        if outcome.exit_code != Exit.DONE:
            sys.exit(outcome.exit_code)

    def _say(self, text: str) -> None:
        """Write a word on how far it has come; never on stdout, which may be read by a program."""
        self.stderr.write(text, style_func=str)


def _failed(error: HitlError | DatabaseError) -> Outcome:
    """Return the outcome that an error stands for."""
    if isinstance(error, Refusal):
        code, exit_code, message = error.error_code, error.exit_code, str(error)
    elif isinstance(error, HitlError):
        code, exit_code, message = error.code, Exit.FAILED, str(error)
    else:
        code, exit_code = "database_error", Exit.FAILED
        message = f"The database says: {error}".strip()
        if any(words in message for words in MISSING):
            message += " (Has manage.py migrate been run?)"
    return Outcome(
        document=documents.failure(code, message),
        view=tuple,
        exit_code=exit_code,
        complaint=message,
    )


def _coloured(options: dict[str, Any]) -> bool | None:
    if options["no_color"]:
        return False
    return True if options["force_color"] else None


def _leave_quietly() -> None:
    """Let `hitl list | head` end without a traceback when nobody reads on."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
