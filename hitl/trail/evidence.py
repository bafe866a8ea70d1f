"""The evidence of one request, as one document: what was shown, decided and executed. Only reads.

Redacted values are masks. Each row of the trail carries its hash and its seal, and whether it still
is what was written.
"""

from datetime import datetime
from typing import Any

from hitl import approvers, audit, clock, subjects
from hitl.models import Decision, Park, Vote

ROWS_MAX = 1000


def of(park: Park) -> dict[str, Any]:
    """Return the evidence of a request as plain JSON."""
    subject = subjects.of(park)
    rows = list(Decision.objects.filter(park=park).order_by("id")[:ROWS_MAX])
    return {
        "request_id": str(park.id),
        "made_at": _time(clock.now()),
        "shown": _shown(park),
        "decided": {
            "status": park.status,
            "by": park.settled_by,
            "channel": park.channel,
            "reason": park.answer_reason,
            "at": _time(park.settled_at),
            "edited": park.proposed is not None,
            "answered_with_result": park.was_answered_with_result,
            "answer": park.answer or None,
            "policy": park.policy,
            "votes": [_vote(vote) for vote in Vote.objects.filter(park=park).order_by("at", "id")],
        },
        "executed": subject.evidence(park) if subject is not None else None,
        "trail": [_row(row) for row in rows],
        "is_as_written": all(audit.fingerprint(row) == row.hash for row in rows),
    }


def standing(park: Park) -> list[str]:
    """Return in words who has to approve; empty where the permission alone is enough."""
    if not park.policy:
        return []
    policy = approvers.read(park.policy)
    said = [str(need) for need in policy.needs] if policy.is_named or policy.takes_several else []
    if not policy.veto:
        said.append("one “no” is not enough to deny")
    if policy.requester:
        said.append("not by whoever asked")
    return said


def _shown(park: Park) -> dict[str, Any]:
    return {
        "thread_id": str(park.scope),
        "key": park.key,
        "reason": park.reason,
        "topic": park.topic,
        "title": park.title,
        "description": park.description,
        "asked_by": park.asked_by,
        "proposed_arguments": park.arguments if park.proposed is None else park.proposed,
        "arguments": park.arguments,
        "redacted": park.redacted,
        "digest": park.digest,
        "opened_at": _time(park.opened_at),
        "expires_at": _time(park.expires_at),
        "blanked_at": _time(park.blanked_at),
    }


def _vote(vote: Vote) -> dict[str, Any]:
    return {
        "by": vote.name,
        "vote": "approve" if vote.approved else "deny",
        "digest": vote.digest,
        "at": _time(vote.at),
    }


def _row(row: Decision) -> dict[str, Any]:
    return {
        "id": str(row.id),
        "verb": row.verb,
        "actor": row.actor,
        "system": row.system,
        "channel": row.channel,
        "reason": row.reason,
        "detail": row.detail,
        "at": _time(row.at),
        "hash": row.hash,
        "seal": row.seal_id,
    }


def _time(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()
