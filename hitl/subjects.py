"""The port to what a request is about: its schema, its exact values, what became of it.

A waiter (`hitl/waiters.py`) is woken; a subject is asked, and changed where a person may edit what
runs. An app registers one for its kind of waiter, or none: its requests then cannot be edited or
redacted and have nothing to tell beyond their rows.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

from hitl.errors import HitlError

if TYPE_CHECKING:
    from hitl.models import Park


class InvalidEdit(HitlError):
    """The arguments cannot be changed like this."""

    code = "invalid_arguments"


@dataclass(frozen=True, slots=True)
class Revision:
    """Edited arguments, checked: `exact` are to run, `shown` is what anyone may see of them.

    `digest` is that of the exact ones; `detail` goes into the audit row.
    """

    exact: dict[str, Any]
    shown: dict[str, Any]
    digest: str
    detail: dict[str, Any]


class Subject(Protocol):
    """What hitl asks about the work behind one kind of waiter."""

    def schema(self, park: "Park") -> dict[str, Any]:
        """Return the JSON schema of what is asked about; empty when there is none."""

    def exact(self, park: "Park") -> Any:
        """Return the arguments without masks; those of the park when nothing is masked."""

    def revise(self, park: "Park", arguments: dict[str, Any]) -> Revision:
        """Check edited arguments, before any lock is taken. Raises InvalidEdit."""

    def adopt(self, park: "Park", revision: Revision) -> None:
        """Write the revision to where it runs from, in the transaction that settles the park."""

    def evidence(self, park: "Park") -> dict[str, Any] | None:
        """Return what was executed, for the evidence of a request; None when nothing is known."""

    def owner(self, park: "Park") -> Any | None:
        """Return the user on whose behalf it was asked, if any."""

    def over(self, waiter_ids: Iterable[UUID]) -> set[UUID]:
        """Return those waiters that will never read their parks again."""


_registry: dict[str, Subject] = {}


def register(kind: str, subject: Subject) -> None:
    """Make the subject of a kind of waiter known. Called once, from `AppConfig.ready`."""
    _registry[kind] = subject


def of(park: "Park") -> Subject | None:
    """Return the subject of a park, if its app has one."""
    return _registry.get(park.waiter_kind)


def of_kind(kind: str) -> Subject | None:
    """Return the subject of a kind of waiter, if its app has one."""
    return _registry.get(kind)
