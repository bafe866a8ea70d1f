"""The table of checks: what each is called, where it can look, what can follow from it. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from agents.guardrails import custom, patterns, personal, thresholds, words
from agents.guardrails.subjects import Action, Where


@dataclass(frozen=True, slots=True)
class Check:
    """One kind of check.

    `clean` reads its settings at the door, `finder` returns what looks: at a text if `reads_text`,
    which can then be redacted, else at the whole subject.
    """

    label: str
    help: str
    clean: Callable[[dict[str, Any]], dict[str, Any]]
    finder: Callable[[dict[str, Any]], Callable[[Any], Sequence[Any]]]
    reads_text: bool = True
    where: tuple[Where, ...] = tuple(Where)

    @property
    def actions(self) -> tuple[Action, ...]:
        """What can follow: only what was found in a text can be taken out of it."""
        return tuple(action for action in Action if self.reads_text or action != Action.REDACT)


CHECKS: dict[str, Check] = {
    "words": Check(
        label="Words",
        help="Words and phrases, however they are spelled: case, accents and look-alike letters "
        "make no difference.",
        clean=words.clean,
        finder=words.finder,
    ),
    "pattern": Check(
        label="Pattern",
        help="A regular expression, with a time limit.",
        clean=patterns.clean,
        finder=patterns.finder,
    ),
    "personal_data": Check(
        label="Personal data",
        help="E-mail addresses, telephone, card and account numbers, national ids.",
        clean=personal.clean,
        finder=personal.finder,
    ),
    "threshold": Check(
        label="Argument threshold",
        help="A number in a tool's arguments has to keep within a limit; what cannot be shown to "
        "be within it is over it.",
        clean=thresholds.clean,
        finder=thresholds.finder,
        reads_text=False,
        where=(Where.TOOL_CALL,),
    ),
    "custom": Check(
        label="Custom check",
        help="A check that this project has registered with @guardrail_check.",
        clean=custom.clean,
        finder=custom.finder,
        reads_text=False,
    ),
}
