"""The port through which a settled park wakes whoever waits. The only door from hitl to agents.

A waiter is anything that opens parks and wants to go on when they are settled: a run, or the
callback of a standalone request. It registers one object per kind at start-up; hitl calls it inside
the transaction that settles the park, so the answer and the wake-up are one commit (A3).

Lock order: the waiter first (`lock`), then the park. Nothing else is locked.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

if TYPE_CHECKING:
    from hitl.models import Park


class Waiter(Protocol):
    """What hitl asks of one kind of waiter."""

    kind: str
    permission: str
    """Who may open the page that `url` names, for example `agents.view_thread`."""

    def lock(self, waiter_id: UUID) -> Any | None:
        """Lock the waiting row and return it; None when it is gone or will never go on."""

    def lock_free(self, waiter_ids: Collection[UUID]) -> dict[UUID, Any]:
        """Lock those of these waiters that nobody else holds, in the order of their ids.

        Returns them by id, without those that are gone or will never go on.
        """

    def settled(self, waiter: Any, parks: "Iterable[Park]") -> None:
        """Take note that these parks were settled, in this order, and wake the waiter.

        `others_open` of the last tells whether it has others open. Runs inside the transaction that
        settled them; sends nothing but hints on commit.
        """

    def settled_each(self, pairs: "Sequence[tuple[Any, Park]]") -> None:
        """Do what `settled` does, for many locked waiters, each with a park of its own.

        One waiter may come with several parks.
        """

    def expects(self, waiter: Any, key: str, *, had_gate: bool) -> bool:
        """Tell whether this locked waiter may yet open a park under this key (J3).

        `had_gate`: the answer names a key whose gate was settled, and may be meant for that.
        """

    def sweep(self) -> dict[str, int]:
        """Send a hint for everything the rows say is owed; returns counts for the log."""

    def backlog(self, most: int) -> int:
        """Return how many waiters are woken and wait for a worker, counted up to `most`."""

    def reclaim(self, waiter_id: UUID) -> bool:
        """Heal one waiter whose message was lost; True when there was something to heal."""

    def resolve(self, scope: UUID) -> UUID | None:
        """Return the id of the waiter that this scope (for example a thread) currently has."""

    def url(self, park: "Park") -> str | None:
        """Return the address of a page about the work that asked, for the request page."""


_registry: dict[str, Waiter] = {}


def register(waiter: Waiter) -> None:
    """Make a kind of waiter known. Called once, from `AppConfig.ready`."""
    _registry[waiter.kind] = waiter


def of(kind: str) -> Waiter:
    """Return the waiter of this kind. KeyError means an app was removed while its rows remain."""
    return _registry[kind]


def known(kind: str) -> bool:
    """Tell whether this kind is registered in this process."""
    return kind in _registry


def every() -> list[Waiter]:
    """Return all registered kinds, in the order in which they came."""
    return list(_registry.values())
