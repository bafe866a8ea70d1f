"""The register of checks, and making them one after the other."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from hitl import values

logger = logging.getLogger(__name__)

SENTENCE_CHARS_MAX = 500


class Status(StrEnum):
    """What a check found."""

    OK = "ok"
    WARN = "warn"
    """Works, but not as it should, or not for long."""
    FAIL = "fail"
    """Does not work: people wait for nothing, or anybody may forge a login."""
    SKIP = "skip"
    """Not to be checked here; the sentence says why."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A status and a sentence that says what to do."""

    status: Status
    sentence: str


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found, under the name of the check."""

    name: str
    status: Status
    sentence: str


@dataclass(frozen=True, slots=True)
class _Check:
    name: str
    needs: tuple[str, ...]
    make: Callable[[], Verdict]


_checks: dict[str, _Check] = {}


def ok(sentence: str) -> Verdict:
    """All is well."""
    return Verdict(Status.OK, sentence)


def warn(sentence: str) -> Verdict:
    """Something needs a look."""
    return Verdict(Status.WARN, sentence)


def fail(sentence: str) -> Verdict:
    """Something is broken."""
    return Verdict(Status.FAIL, sentence)


def skip(sentence: str) -> Verdict:
    """The check has nothing to look at here."""
    return Verdict(Status.SKIP, sentence)


def check(
    name: str, *, needs: tuple[str, ...] = ()
) -> Callable[[Callable[[], Verdict]], Callable[[], Verdict]]:
    """Register a check under this name; a second one of the same name replaces the first.

    It is skipped when a check that it `needs` did not end well.
    """

    def register(make: Callable[[], Verdict]) -> Callable[[], Verdict]:
        _checks[name] = _Check(name, needs, make)
        return make

    return register


def examine() -> Iterator[Finding]:
    """Make all checks in the order of their registration. A check that raises has failed."""
    unwell: set[str] = set()
    for one in list(_checks.values()):
        missing = [name for name in one.needs if name in unwell]
        verdict = skip(f"Needs “{missing[0]}”, see there.") if missing else _made(one)
        if verdict.status in (Status.FAIL, Status.SKIP):
            unwell.add(one.name)
        sentence = values.clean_text(verdict.sentence, chars_max=SENTENCE_CHARS_MAX)
        yield Finding(one.name, verdict.status, sentence)


def _made(one: _Check) -> Verdict:
    try:
        return one.make()
    except Exception as error:
        logger.debug("doctor: the check %r broke", one.name, exc_info=True)
        return fail(f"The check itself broke: {type(error).__name__}: {error}")
