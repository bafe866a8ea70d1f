"""Opening parks: what a waiter asks, as rows. Only inserts, in the transaction that lets go.

Lock order: the waiter, whose lock the caller holds, then its parks.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from hitl import audit, clock, conf, deadlines, faults, parks, redaction, rows, values
from hitl.audit import Actor
from hitl.ids import new_id
from hitl.models import Park, Verb
from hitl.rows import Group
from hitl.states import FOR_PEOPLE, OnTimeout

TITLE_CHARS_MAX = 200
DESCRIPTION_CHARS_MAX = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """What a waiter asks when it parks.

    `ttl` None with `on_timeout="ignore"` waits for ever; in every other case a deadline is needed.
    `policy` comes from `approvers.policy`, `requester` is the key of the user who asks. Of
    `arguments` those named in `redacted` are stored as masks.
    """

    key: str
    reason: str
    ttl: timedelta | None
    title: str = ""
    topic: str = ""
    description: str = ""
    asker: str = ""
    asker_depth: int = 0
    asker_path: Sequence[str] = ()
    arguments: Any = field(default_factory=dict)
    digest: str = ""
    takes_payload: str = "result"
    on_timeout: OnTimeout = OnTimeout.REJECT
    policy: dict[str, Any] = field(default_factory=dict)
    requester: str = ""
    editable: bool = False
    redacted: Sequence[str] = ()
    metadata: dict[str, Any] = field(default_factory=dict)
    id: UUID = field(default_factory=new_id)
    token: str | None = None
    schema: dict[str, Any] | None = None


def open_all(
    waiter_kind: str, waiter_id: UUID, scope: UUID, openings: Iterable[Opening]
) -> list[Park]:
    """Open these parks for one waiter, in the caller's transaction, and return their rows.

    The caller holds the waiter's lock. Deadlines count from now; near ones get their countdown when
    the transaction commits.
    """
    drafts = draft_all(waiter_kind, waiter_id, scope, openings)
    rows.insert(*rows_of(drafts))
    opened(drafts)
    return drafts


def draft_all(
    waiter_kind: str, waiter_id: UUID, scope: UUID, openings: Iterable[Opening]
) -> list[Park]:
    """Build the rows of these parks, their ids and deadlines included, and store nothing yet.

    For a waiter that names its parks in what it writes first: the lock order is waiter, then park.
    It inserts `rows_of` them, and then calls `opened`.
    """
    now = clock.now()
    return [_new(waiter_kind, waiter_id, scope, opening, now) for opening in openings]


def rows_of(drafts: list[Park], *, opener: Actor | None = None) -> list[Group]:
    """Return the rows to insert for drafted parks: themselves, and their beginning in the trail.

    The trail names `opener`, by default the platform, for a run.
    """
    opener = opener or audit.system("run")
    trail = [
        audit.row(park, Verb.OPENED, opener, at=park.opened_at, detail={"digest": park.digest})
        for park in drafts
        if not park.is_timer
    ]
    return [drafts, trail]


def opened(drafts: list[Park], *, may_be_answered: bool = False) -> None:
    """Do what is due once the rows of these parks are inserted, in the same transaction.

    With `may_be_answered` those whose answer came first are settled at once.
    """
    faults.point("park:opened")
    deadlines.announce(drafts)
    if may_be_answered:
        parks.apply_early([park for park in drafts if park.is_job])


def _new(kind: str, waiter_id: UUID, scope: UUID, opening: Opening, now: datetime) -> Park:
    """Build the row of one opening, every text cleaned and bounded."""
    forever = opening.on_timeout == OnTimeout.IGNORE
    assert forever or opening.ttl is not None, "a park needs a deadline"
    return rows.new(
        Park,
        id=opening.id,
        waiter_kind=kind,
        waiter_id=waiter_id,
        scope=scope,
        key=opening.key,
        reason=opening.reason,
        topic=values.clean_text(opening.topic, chars_max=100),
        title=values.clean_text(opening.title, chars_max=TITLE_CHARS_MAX),
        description=values.clean_text(opening.description, chars_max=DESCRIPTION_CHARS_MAX),
        asker=opening.asker,
        asker_depth=opening.asker_depth,
        asker_path=list(opening.asker_path),
        arguments=redaction.mask(opening.arguments, opening.redacted),
        redacted=list(opening.redacted),
        policy=_policy(opening),
        editable=opening.editable,
        digest=opening.digest,
        takes_payload=opening.takes_payload,
        on_timeout=opening.on_timeout,
        opened_at=now,
        expires_at=None if forever or opening.ttl is None else now + opening.ttl,
        warn_at=_warn_at(opening, now),
        metadata=opening.metadata,
        token=opening.token,
        schema=opening.schema,
    )


def _policy(opening: Opening) -> dict[str, Any]:
    """Return who may approve, with the requester where the project bars them from it (I8)."""
    if opening.requester and conf.four_eyes():
        return {**opening.policy, "requester": opening.requester}
    return opening.policy


def _warn_at(opening: Opening, now: datetime) -> datetime | None:
    """Return when its owner is warned; None for what nobody decides, or never expires."""
    if opening.ttl is None or opening.on_timeout == OnTimeout.IGNORE:
        return None
    return deadlines.warn_at(now, now + opening.ttl) if opening.reason in FOR_PEOPLE else None
