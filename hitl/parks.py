"""Opening and settling parks. The only writer of `Park.status`.

Every ending goes through one private funnel, `_settle`: a compare-and-set on `pending` that tells
whether it won. In the same transaction it writes the audit row and tells the waiter, so the answer
and the wake-up are one commit (A3). Losing is a value, never an exception (A1).

The verbs join the caller's transaction when there is one (A13). Lock order: the waiter, then the
park; nothing else is locked.
"""

import itertools
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any
from uuid import UUID

from hitl import (
    answers,
    audit,
    clock,
    early,
    edits,
    faults,
    inbox,
    refusals,
    schemas,
    values,
    voting,
    waiters,
)
from hitl.answers import UNSET, Answer, Given
from hitl.audit import Actor
from hitl.finding import as_uuid, by_id, find
from hitl.models import Park, Verb
from hitl.rows import NOTHING_MORE, Also, compare_and_set, update_returning
from hitl.states import Code, OnTimeout, ParkStatus
from hitl.subjects import Revision
from hitl.transactions import unit_of_work

logger = logging.getLogger(__name__)

FELL_OPEN = "Nobody answered in time; the request asked for approval then."
REASON_CHARS_MAX = audit.REASON_CHARS_MAX


# ── Verbs ────────────────────────────────────────────────────────────────────────────────────────


def respond(
    thread_id: object,
    tool_call_id: object,
    approved: object,
    *,
    payload: Any = UNSET,
    arguments: dict[str, Any] | None = None,
    reason: str = "",
    actor: object = None,
    channel: str = "python",
) -> Answer:
    """Answer the request that this thread (or run) has open for this tool call.

    `approved` is True or `"approved"`/`"approve"` to allow, False or `"rejected"`/`"reject"` to
    deny; any other value denies and is logged (A10). `payload` (JSON) becomes the tool's result in
    place of running it, unless the tool takes it as context. `reason` reaches the model and the
    audit trail. `arguments`, where the tool allows it, run in place of those that the model
    proposed (A9); beside a "no" they are not looked at. `actor` is the user, or a name, that the
    trail shows: a user's permissions and the request's approvers are judged (I8), a program that
    gives no user is trusted.

    The first answer wins; a later one returns `delivered=False` and changes nothing (A1, A2). A
    call that was allowed may park itself for a job: a payload is then the job's, also before that
    park is committed (J3). Raises `TooLarge` or `NotJson` for a payload that cannot be stored,
    `InvalidEdit` for arguments that do not fit.
    """
    who = audit.person(actor, channel)
    given = answers.read(approved, who, payload=payload, reason=reason, arguments=arguments)
    park = find(thread_id, tool_call_id)
    if park is not None and given.may_mean_a_job(park):
        return _resume(park.waiter_kind, park.waiter_id, tool_call_id, given, had_gate=True)
    if park is not None:
        return _answer(park, given)
    for waiter in waiters.every():
        scope = as_uuid(thread_id)
        waiter_id = None if scope is None else waiter.resolve(scope)
        if waiter_id is not None:
            return resume(waiter.kind, waiter_id, tool_call_id, given)
    return refusals.refused(Code.NOT_FOUND, None)


def resume(kind: str, waiter_id: UUID, key: object, given: Given) -> Answer:
    """Finish what a waiter waits for under this key, also when its park is not committed yet (J3).

    An answer to work that has begun and not parked yet is kept, and applied when it parks.
    """
    return _resume(kind, waiter_id, key, given, had_gate=False)


def _resume(kind: str, waiter_id: UUID, key: object, given: Given, *, had_gate: bool) -> Answer:
    name = values.clean_text(str(key))
    with unit_of_work():
        waiter = waiters.of(kind).lock(waiter_id)
        parks = list(Park.objects.cards().filter(waiter_id=waiter_id, key=name).order_by("-id"))
        ready = [park for park in parks if park.is_pending or park.is_job]
        of_kind = waiters.of(kind)
        if waiter and not ready and of_kind.expects(waiter, name, had_gate=had_gate):
            return _keep_early(kind, waiter_id, name, given)
        park = ready[0] if ready else next(iter(parks), None)
        return _answer(park, given)


def decide(
    request_id: UUID | str,
    approved: object,
    *,
    payload: Any = UNSET,
    arguments: dict[str, Any] | None = None,
    reason: str = "",
    actor: object = None,
    channel: str = "python",
    seen: str = "",
) -> Answer:
    """Answer a request by its own id. Otherwise as `respond`.

    With `seen`, the digest of what was shown, an answer to a request that somebody has edited since
    is refused with the code `changed`.
    """
    who = audit.person(actor, channel)
    given = answers.read(approved, who, payload=payload, reason=reason, arguments=arguments)
    return _answer(by_id(request_id), replace(given, seen=seen))


def cancel(request_id: UUID | str, *, reason: str = "", actor: object, channel: str) -> Answer:
    """Withdraw one pending request; whoever waits goes on with "cancelled" (A12)."""
    park = by_id(request_id)
    if park is None or park.is_timer:
        return refusals.refused(Code.NOT_FOUND, None)
    who = audit.person(actor, channel)
    if who.user is not None and not inbox.may(who.user, inbox.Act.CANCEL):
        sentence = inbox.NotAllowed().args[0]
        return refusals.refuse(park, who, "cancel", reason, Code.NOT_ALLOWED, sentence)
    with unit_of_work():
        waiter = _lock(park)
        won = _settle(park, ParkStatus.CANCELLED, Verb.CANCELLED, who, reason=reason)
        if won is None:
            return refusals.too_late(park, who, "cancel", reason)
        _tell(waiter, [won])
    return Answer(True, request_id=park.id)


def expire(park_id: UUID, *, channel: str, durable: bool = False) -> bool:
    """Close one park whose deadline has passed; True when this call did it (E2, E4).

    A park that is settled, gone or not due yet is left alone. The audit names the system. With
    `durable` the verb insists on a transaction of its own.
    """
    now = clock.now()
    park = Park.objects.due(now).filter(id=park_id).first()
    if park is None:
        return False
    faults.point("expire:read")
    with unit_of_work(durable=durable):
        waiter = _lock(park)
        won = _expire_locked(park, channel)
        if won is not None:
            _tell(waiter, [won])
        faults.point("expire:settled")
    return won is not None


def expire_together(park_ids: Iterable[UUID], *, channel: str) -> list[UUID]:
    """Close those of these parks whose deadline has passed, in one transaction of their own.

    A deadline that many share costs one transaction for dozens of them in place of one each.
    Returns the ids that this call closed. A park whose waiter somebody else holds just now, or is
    gone, is left alone: `expire` waits for it.
    """
    due = list(Park.objects.due(clock.now()).filter(id__in=park_ids).order_by("id"))
    if not due:
        return []
    faults.point("expire:read")
    with unit_of_work(durable=True):
        held = {park.id: waiter for park, waiter in _lock_free(due)}
        settled = _expire_all_locked([park for park in due if park.id in held], channel)
        for kind in {park.waiter_kind for park in settled}:
            told = [(held[park.id], park) for park in settled if park.waiter_kind == kind]
            waiters.of(kind).settled_each(told)
        faults.point("expire:settled")
    return [park.id for park in settled]


def cancel_all(waiter_id: UUID, *, reason: str, actor: Actor, **only: Any) -> list[Park]:
    """Withdraw what a waiter has open (and `only` matches), with its lock held (N5).

    The waiter is the caller and is not told. Returns the parks that were open.
    """
    return [
        won
        for park in Park.objects.pending().filter(waiter_id=waiter_id, **only).order_by("id")
        if (won := _settle(park, ParkStatus.CANCELLED, Verb.CANCELLED, actor, reason=reason))
    ]


# ── The funnel ───────────────────────────────────────────────────────────────────────────────────


def _answer(park: Park | None, given: Given) -> Answer:
    """Settle by someone's answer, or tell how it came too late, or that it may not be given."""
    if park is None or park.is_timer:
        return refusals.refused(Code.NOT_FOUND, None)
    verb, who = given.verb(park), given.who
    revision = None
    if park.is_pending:
        if given.approves and park.schema is not None:
            if said := schemas.fault(park.schema, given.answer.get("payload")):
                return Answer(False, Code.INVALID_PAYLOAD, said, park.id)
        refusal = voting.refusal(park, given, stands_in=verb == Verb.ANSWERED)
        if refusal is not None:
            return refusals.refuse(park, who, str(verb), given.reason, *refusal)
        revision = edits.checked(park, given)
    with unit_of_work():
        waiter = _lock(park)
        if waiter is None:
            _settle(park, ParkStatus.CANCELLED, Verb.CANCELLED, audit.system(who.channel))
            return refusals.too_late(park, who, str(verb), given.reason)
        decided, outstanding = voting.cast(park, given)
        if decided is None:
            return Answer(True, Code.COUNTED, request_id=park.id, outstanding=outstanding)
        won = _settle(
            park,
            ParkStatus.APPROVED if decided else ParkStatus.REJECTED,
            verb,
            who,
            reason=given.reason,
            answer=given.answer,
            in_time=True,
            revision=revision,
            seen=given.seen,
        )
        if won is None:
            _tell(waiter, [late] if (late := _expire_locked(park, who.channel)) else [])
            return refusals.too_late(park, who, str(verb), given.reason)
        _tell(waiter, [won])
        faults.point("respond:settled")
    return Answer(True, request_id=park.id)


def _keep_early(kind: str, waiter_id: UUID, key: str, given: Given) -> Answer:
    """Keep an answer whose park is still to open, with the waiter's lock held."""
    if early.keep(
        kind, waiter_id, key, given.status, given.who, reason=given.reason, answer=given.answer
    ):
        return Answer(True)
    return refusals.refused(Code.ALREADY_ANSWERED, None)


def apply_early(opened: list[Park]) -> None:
    """Settle the parks that were answered before they opened."""
    settled = []
    for park, kept in early.take(opened):
        who = Actor(kept.actor, kept.channel)
        given = Given(ParkStatus(kept.status), kept.answer, kept.reason, who)
        won = _settle(
            park, given.status, given.verb(park), who, reason=given.reason, answer=given.answer
        )
        settled += [won] if won is not None else []
    if settled:
        _tell(_lock(settled[0]), settled)


def _settle(
    park: Park,
    status: ParkStatus,
    verb: Verb,
    who: Actor,
    *,
    reason: str = "",
    answer: dict[str, Any] | None = None,
    in_time: bool = False,
    is_overdue: bool = False,
    revision: Revision | None = None,
    seen: str = "",
) -> Park | None:
    """Move one park out of pending and write its audit row. None when somebody else was first.

    With `in_time` it also loses once the deadline has passed (E6), with `is_overdue` before that. A
    `revision` of what is asked is settled with it, and only if nobody has changed that meanwhile;
    with `seen`, the digest of what was shown, that holds for any answer.
    """
    now = clock.now()
    also = NOTHING_MORE
    if in_time:
        also = Also("expires_at > %s OR expires_at IS NULL", (("expires_at", now),))
    elif is_overdue:
        also = Also("expires_at <= %s", (("expires_at", now),))
    text = values.clean_text(reason, chars_max=REASON_CHARS_MAX)
    changes = {
        "status": status,
        "settled_at": now,
        "settled_by": who.name,
        "channel": who.channel,
        "answer_reason": text,
        "answer": answer,
    }
    before = {"id": park.id, "status": ParkStatus.PENDING} | ({"digest": seen} if seen else {})
    rows = []
    if revision is not None:
        before.setdefault("digest", park.digest)
        changes |= edits.changes(park, revision)
        rows.append(edits.row(park, revision, who, at=now))
    won = compare_and_set(
        Park, before, set=changes, also=also, returning=("id",), reading=Park.OTHERS_OPEN
    )
    if won is None:
        return None
    vars(park).update(changes, others_open=won.others_open)
    faults.point("settle:updated")
    logger.info("request %s: %s by %s through %s", park.id, status, who.name, who.channel)
    if not park.is_timer:
        rows.append(audit.row(park, verb, who, at=now, reason=text, detail=_detail(answer)))
        audit.append(rows)
    if revision is not None:
        edits.adopt(park, revision)
    return park


def _expire_locked(park: Park, channel: str) -> Park | None:
    """Close an overdue park as the system, with the waiter's lock held.

    One whose policy says so is approved: the trail names the system, never a person (W5).
    """
    opens = park.on_timeout == OnTimeout.APPROVE
    return _settle(
        park,
        ParkStatus.APPROVED if opens else ParkStatus.TIMED_OUT,
        Verb.APPROVED if opens else Verb.EXPIRED,
        audit.system(channel),
        reason=FELL_OPEN if opens else "",
        is_overdue=True,
    )


def _expire_all_locked(parks: Sequence[Park], channel: str) -> list[Park]:
    """Close these overdue parks as the system, as `_expire_locked` closes one.

    Returns them soonest first, as they would have been closed one by one: a workflow is told in
    this order.
    """
    now, who = clock.now(), audit.system(channel)
    settled, trail = [], []
    for opens in (False, True):
        alike = [park for park in parks if (park.on_timeout == OnTimeout.APPROVE) is opens]
        changes = {
            "status": ParkStatus.APPROVED if opens else ParkStatus.TIMED_OUT,
            "settled_at": now,
            "settled_by": who.name,
            "channel": who.channel,
            "answer_reason": FELL_OPEN if opens else "",
        }
        due = Park.objects.due(now).filter(id__in=[park.id for park in alike])
        for park in update_returning(due, **changes) if alike else ():
            settled.append(park)
            logger.info("request %s: %s by %s through %s", park.id, park.status, who.name, channel)
            if not park.is_timer:
                verb = Verb.APPROVED if opens else Verb.EXPIRED
                trail.append(audit.row(park, verb, who, at=now, reason=park.answer_reason))
    faults.point("settle:updated")
    audit.append(trail)
    return sorted(settled, key=lambda park: (park.expires_at, park.id))


def _detail(answer: dict[str, Any] | None) -> dict[str, Any]:
    """Return what the audit row keeps of an answer: the payload's digest, not the payload."""
    return {"payload_digest": values.digest(answer["payload"])} if answer else {}


def _lock(park: Park) -> Any | None:
    """Lock whoever waits. None when it is gone, or its app is no longer installed."""
    if not waiters.known(park.waiter_kind):
        return None
    waiter = waiters.of(park.waiter_kind).lock(park.waiter_id)
    faults.point("settle:locked")
    return waiter


def _lock_free(parks: Iterable[Park]) -> Iterator[tuple[Park, Any]]:
    """Lock the waiters of these parks that nobody else holds; yield each park with its waiter."""
    kind_of = attrgetter("waiter_kind")
    for kind, alike in itertools.groupby(sorted(parks, key=kind_of), key=kind_of):
        if waiters.known(kind):
            mine = list(alike)
            locked = waiters.of(kind).lock_free({park.waiter_id for park in mine})
            yield from ((park, locked[park.waiter_id]) for park in mine if park.waiter_id in locked)
    faults.point("settle:locked")


def _tell(waiter: Any | None, settled: list[Park]) -> None:
    if waiter is not None and settled:
        waiters.of(settled[0].waiter_kind).settled(waiter, settled)
