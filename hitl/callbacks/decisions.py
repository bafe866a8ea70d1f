"""The decision of a standalone request as its requester is told it: in Python and as JSON.

Made from a settled park, so it is the same whenever it is told. Only an approval and a rejection
carry payload, approver and reason (C3). A deadline that counts as a yes (`on_timeout="approve"`) is
an approval by the system, and told with `timed_out`.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from hitl import values
from hitl.errors import ApprovalInvalidRequest, BadJson
from hitl.models import Park
from hitl.states import OnTimeout, ParkStatus

TYPE = "approval.decided"
DECIDED = (ParkStatus.APPROVED, ParkStatus.REJECTED)
SETTLED = tuple(str(status) for status in ParkStatus if status != ParkStatus.PENDING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What was decided about a standalone request. Times are aware, in UTC.

    `status` is `approved`, `rejected`, `timed_out` or `cancelled`. `payload` is what was approved,
    as a reviewer may have edited it; `approver` is who decided. `webhook_id` is the same for every
    attempt to tell this decision: a receiver that has seen it may answer 200 and do nothing.
    """

    status: str
    approval_id: str
    topic: str
    decided_at: datetime
    payload: Any = None
    approver: str | None = None
    reason: str | None = None
    timed_out: bool = False
    metadata: dict[str, Any] = field(default_factory=dict)
    webhook_id: str = ""

    @property
    def approved(self) -> bool:
        """Tell whether this is a yes."""
        return self.status == ParkStatus.APPROVED


def of(park: Park) -> Decision:
    """Return the decision of a request that is settled."""
    assert park.settled_at is not None, "a decision comes with its time"
    status = ParkStatus(park.status)
    told: dict[str, Any] = {}
    if status in DECIDED:
        answer = park.answer or {}
        told = {
            "payload": answer.get("payload", park.arguments),
            "approver": park.settled_by,
            "reason": park.answer_reason or None,
        }
    return Decision(
        status=str(status),
        approval_id=str(park.id),
        topic=park.topic,
        decided_at=park.settled_at,
        timed_out=_timed_out(park),
        metadata=park.metadata,
        **told,
    )


def _timed_out(park: Park) -> bool:
    """Tell whether it was the deadline that decided: no answer counts from that moment on."""
    if park.status == ParkStatus.TIMED_OUT:
        return True
    at, deadline = park.settled_at, park.expires_at
    return (
        park.status == ParkStatus.APPROVED
        and park.on_timeout == OnTimeout.APPROVE
        and at is not None
        and deadline is not None
        and at >= deadline
    )


def body(decision: Decision) -> bytes:
    """Return the decision as the exact bytes that are signed and sent."""
    told: dict[str, Any] = {
        "type": TYPE,
        "approval_id": decision.approval_id,
        "topic": decision.topic,
        "status": decision.status,
        "decided_at": decision.decided_at.isoformat(),
        "timed_out": decision.timed_out,
        "metadata": decision.metadata,
    }
    if decision.status in DECIDED:
        told |= {
            "payload": decision.payload,
            "approver": decision.approver,
            "reason": decision.reason,
        }
    return values.dumps(told).encode("ascii")


def read(raw: bytes, *, webhook_id: str) -> Decision:
    """Return the decision that a body tells. Raises ApprovalInvalidRequest for any other body."""
    try:
        told = values.parse(raw.decode("utf-8"))
        assert isinstance(told, dict), "a decision is an object"
        if told["type"] != TYPE or told["status"] not in SETTLED:
            raise ValueError("another type or status")
        decided_at = datetime.fromisoformat(_text(told["decided_at"]))
        if decided_at.tzinfo is None:
            raise ValueError("a time without its zone")
        metadata = told.get("metadata") or {}
        assert isinstance(metadata, dict), "metadata is an object"
        return Decision(
            status=_text(told["status"]),
            approval_id=_text(told["approval_id"]),
            topic=_text(told["topic"]),
            decided_at=decided_at,
            payload=told.get("payload"),
            approver=_maybe_text(told.get("approver")),
            reason=_maybe_text(told.get("reason")),
            timed_out=told.get("timed_out") is True,
            metadata=metadata,
            webhook_id=webhook_id,
        )
    except (BadJson, ValueError, KeyError, TypeError, AssertionError) as error:
        raise ApprovalInvalidRequest("The callback's body is no decision.") from error


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("a text is needed")
    return value


def _maybe_text(value: Any) -> str | None:
    return None if value is None else _text(value)
