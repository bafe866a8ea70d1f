"""The audit trail of a park. Only writer of `Decision` rows; only ever inserts.

Who acted comes from the login of the channel, never from what a request says (I2). Each row carries
the hash of what it says; `hitl/trail/sealing.py` chains the rows later, so that no answer waits for
another one's.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from hitl import values
from hitl.models import Decision, Park, Verb
from hitl.rows import insert, new

REASON_CHARS_MAX = 4000
ACTOR_CHARS_MAX = 200


@dataclass(frozen=True, slots=True)
class Actor:
    """Who acts and through which channel (`admin`, `cli`, `python`, `sweep`, …).

    `user` is the Django user, whose permissions are asked; None for a program, which is trusted.
    """

    name: str
    channel: str
    system: bool = False
    user: Any = field(default=None, compare=False)


SYSTEM = "system"
"""The name that the trail shows for the platform's own acts."""


def system(channel: str) -> Actor:
    """Return the platform itself, acting through this channel."""
    return Actor(SYSTEM, channel, system=True)


def person(actor: object, channel: str) -> Actor:
    """Name the one who acts: a user object, a string, or None for a program that gave no name.

    An `Actor` is passed through, for a channel that knows a user by another name.
    """
    if isinstance(actor, Actor):
        return actor
    if actor is None:
        return Actor("unnamed program", channel)
    name = actor if isinstance(actor, str) else getattr(actor, "get_username", actor.__str__)()
    user = actor if hasattr(actor, "has_perm") else None
    return Actor(values.clean_text(name, chars_max=ACTOR_CHARS_MAX), channel, user=user)


def row(
    park: Park,
    verb: Verb,
    actor: Actor,
    *,
    at: datetime,
    reason: str = "",
    detail: dict[str, Any] | None = None,
) -> Decision:
    """Build one audit row with its hash, not yet stored."""
    made = new(
        Decision,
        park_id=park.id,
        verb=verb,
        actor=actor.name,
        system=actor.system,
        channel=actor.channel,
        reason=values.clean_text(reason, chars_max=REASON_CHARS_MAX),
        detail=detail or {},
        at=at,
    )
    made.hash = fingerprint(made)
    return made


def fingerprint(row: Decision) -> str:
    """Return the hash over all that an audit row says: canonical JSON, times in UTC."""
    said = {
        "id": row.id.hex,
        "request": row.park_id.hex,
        "verb": str(row.verb),
        "actor": row.actor,
        "system": row.system,
        "channel": row.channel,
        "reason": row.reason,
        "detail": row.detail,
        "at": row.at.astimezone(UTC).isoformat(timespec="microseconds"),
    }
    return values.digest(said)


def append(rows: Iterable[Decision]) -> None:
    """Insert audit rows in the caller's transaction, in one statement."""
    insert(list(rows))
