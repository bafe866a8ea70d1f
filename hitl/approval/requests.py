"""Opening and withdrawing standalone requests. Everything is judged before any row is written.

Opens a park and its waiter, the callback, in one transaction; joins the caller's if there is one
(A13). Lock order: the callback, then its park.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction

from hitl import approvers, audit, conf, durations, faults, keys, openings, parks, rows, values
from hitl.approval import entries
from hitl.approval.entries import Entry
from hitl.approvers import BadApprover
from hitl.callbacks import addresses
from hitl.callbacks.waiter import KIND
from hitl.errors import ApprovalInvalidRequest, BadDuration, NotJson, TooLarge
from hitl.models import CallbackDelivery, Park
from hitl.openings import Opening
from hitl.states import OnTimeout, Reason

KEY = "decision"
TOPIC_CHARS_MAX = 100
METADATA_BYTES_MAX = 16 * 1024
IDEMPOTENCY_KEY_CHARS_MAX = 200
CHANNEL = "python"


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as it came through the door: read, cleaned, bounded."""

    opening: Opening
    url: str
    idempotency_key: str | None

    @property
    def fingerprint(self) -> str:
        """Return a digest of all that was asked, by which a repetition is told from another."""
        opening, millisecond = self.opening, timedelta(milliseconds=1)
        return values.digest(
            {
                "topic": opening.topic,
                "payload": opening.arguments,
                "on_decide": self.url,
                "title": opening.title,
                "description": opening.description,
                "timeout_ms": opening.ttl and opening.ttl / millisecond,
                "on_timeout": str(opening.on_timeout),
                "approvers": opening.policy,
                "metadata": opening.metadata,
            }
        )


def request(
    *,
    topic: str,
    payload: Any,
    on_decide: str | None = None,
    title: str | None = None,
    description: str | None = None,
    timeout: str | timedelta | float | None = None,
    on_timeout: str = "reject",
    approver: Any = None,
    idempotency_key: str | None = None,
    metadata: dict[str, Any] | None = None,
) -> Entry:
    """Ask a person to approve something, and return the entry; nothing waits here.

    The decision is POSTed, signed, to `on_decide`: a path on this site, or a URL on a host of
    `HITL["CALLBACK_HOSTS"]`. Without it nobody is called, and `get` tells. `payload` (JSON, at
    most `HITL["PAYLOAD_BYTES_MAX"]`) is what the reviewer sees, may edit, and approves. `topic`
    names the kind of request in at most 100 characters.

    `timeout` is a duration ("30s", "4h", a timedelta, milliseconds), by default
    `HITL["APPROVAL_TTL"]`, 24 hours. At the deadline `on_timeout` counts: "reject", "approve", or
    "ignore", which waits for ever. `approver` names who may approve, beside the permission:
    "user:ana", "group:finance", a list of such, or how many of each ({"group:legal": 2}).

    With an `idempotency_key` a repetition returns the entry that the first one opened. `metadata`
    (a dictionary of at most 16 KB) comes back with the decision.

    Raises ApprovalInvalidRequest, also for another content under a key that was used, and
    ApprovalSigningKeyMissing where `on_decide` could not be signed. Nothing is written then.
    """
    asked = _read(
        topic=topic,
        payload=payload,
        on_decide=on_decide,
        title=title,
        description=description,
        timeout=timeout,
        on_timeout=on_timeout,
        approver=approver,
        idempotency_key=idempotency_key,
        metadata=metadata,
    )
    return entries.entry(_same(asked) or _open(asked) or _same_at_once(asked))


def cancel(approval_id: str | UUID, reason: str | None = None) -> Entry:
    """Withdraw a request that is still pending, and return the entry as it then is (I4).

    One that is settled stays as it is: that is no error. `reason` lands in the metadata as
    `cancel_reason`. Raises ApprovalNotFound.
    """
    park = entries.find(approval_id)
    parks.cancel(park.id, reason=reason or "", actor=None, channel=CHANNEL)
    return entries.get(park.id)


# ── The door ─────────────────────────────────────────────────────────────────────────────────────


def _read(
    *,
    topic: Any,
    payload: Any,
    on_decide: Any,
    title: Any,
    description: Any,
    timeout: Any,
    on_timeout: Any,
    approver: Any,
    idempotency_key: Any,
    metadata: Any,
) -> Asked:
    """Judge everything that was given. Raises ApprovalInvalidRequest."""
    topic = _text("topic", topic, chars_max=TOPIC_CHARS_MAX)
    shown = _text("title", title, chars_max=openings.TITLE_CHARS_MAX, default=f"Approve {topic}?")
    content = _json("payload", payload, bytes_max=conf.payload_bytes_max())
    kept = _json("metadata", {} if metadata is None else metadata, bytes_max=METADATA_BYTES_MAX)
    if not isinstance(kept, dict):
        raise ApprovalInvalidRequest("metadata: a dictionary is needed.")
    at_deadline = _at_deadline(on_timeout)
    opening = Opening(
        key=KEY,
        reason=Reason.APPROVAL,
        ttl=None if at_deadline == OnTimeout.IGNORE else _duration(timeout),
        title=shown,
        topic=topic,
        description=_text(
            "description", description, chars_max=openings.DESCRIPTION_CHARS_MAX, default=""
        ),
        arguments=content,
        digest=values.digest(content),
        takes_payload="payload",
        on_timeout=at_deadline,
        policy=_approvers(approver),
        editable=True,
        metadata=kept,
    )
    key = (
        None
        if idempotency_key is None
        else _text("idempotency_key", idempotency_key, chars_max=IDEMPOTENCY_KEY_CHARS_MAX)
    )
    return Asked(opening, _url(on_decide), key)


def _text(name: str, value: Any, *, chars_max: int, default: str | None = None) -> str:
    if value is None and default is not None:
        return default[:chars_max]
    if not isinstance(value, str) or (default is None and not value.strip()):
        raise ApprovalInvalidRequest(f"{name}: a text is needed.")
    text = values.clean_text(value)
    if len(text) > chars_max:
        raise ApprovalInvalidRequest(f"{name}: at most {chars_max} characters.")
    return text


def _json(name: str, value: Any, *, bytes_max: int) -> Any:
    try:
        return values.clean(value, size_max=bytes_max)
    except (NotJson, TooLarge) as error:
        raise ApprovalInvalidRequest(f"{name}: {error}") from error


def _at_deadline(on_timeout: Any) -> OnTimeout:
    try:
        return OnTimeout(on_timeout)
    except ValueError:
        known = ", ".join(f'"{policy}"' for policy in OnTimeout)
        raise ApprovalInvalidRequest(f"on_timeout: one of {known} is needed.") from None


def _approvers(approver: Any) -> dict[str, Any]:
    try:
        return approvers.policy(approver)
    except BadApprover as error:
        raise ApprovalInvalidRequest(f"approver: {error}") from None


def _duration(timeout: Any) -> timedelta:
    if timeout is None:
        return conf.approval_ttl()
    try:
        return durations.parse(timeout)
    except BadDuration as error:
        raise ApprovalInvalidRequest(f"timeout: {error}") from None


def _url(on_decide: Any) -> str:
    """Return where to POST, once it may be called and something can sign for it."""
    if on_decide is None:
        return ""
    if not isinstance(on_decide, str):
        raise ApprovalInvalidRequest("on_decide: a path or a URL is needed.")
    addresses.check(on_decide)
    keys.current()
    return on_decide


# ── Rows ─────────────────────────────────────────────────────────────────────────────────────────


def _open(asked: Asked) -> Park | None:
    """Write the callback and its park; None when somebody else has just used the same key."""
    opening = asked.opening
    callback = CallbackDelivery(
        park_id=opening.id,
        url=asked.url,
        idempotency_key=asked.idempotency_key,
        fingerprint=asked.fingerprint,
    )
    drafts = openings.draft_all(KIND, callback.id, opening.id, [opening])
    try:
        with transaction.atomic():
            asker = audit.person(None, CHANNEL)
            rows.insert(*openings.rows_of(drafts, opener=asker), [callback])
            faults.point("callback:made")
            openings.opened(drafts)
    except IntegrityError:
        if asked.idempotency_key is None:
            raise
        return None
    return drafts[0]


def _same(asked: Asked) -> Park | None:
    """Return what was opened with this key before. Raises for another content."""
    if asked.idempotency_key is None:
        return None
    known = CallbackDelivery.objects.filter(idempotency_key=asked.idempotency_key)
    found = known.select_related("park").first()
    if found is None:
        return None
    if found.fingerprint != asked.fingerprint:
        raise ApprovalInvalidRequest(
            f"idempotency_key {asked.idempotency_key!r} was used for another request "
            f"({found.park_id}); use a new key, or ask for exactly the same."
        )
    return found.park


def _same_at_once(asked: Asked) -> Park:
    """Return what somebody else has opened with this key a moment ago."""
    found = _same(asked)
    assert found is not None, "the key was taken"
    return found
