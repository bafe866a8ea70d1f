"""What an answer says, and what became of it: plain values that the verbs of `hitl/parks.py` pass.

Touches no row.
"""

import logging
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from hitl import audit, conf, states, values
from hitl.audit import Actor
from hitl.models import Park, Verb
from hitl.states import ParkStatus

logger = logging.getLogger(__name__)


class _Unset:
    """The default of `payload`: no payload was given, which is not the same as None."""

    def __repr__(self) -> str:
        return "<unset>"


UNSET: Any = _Unset()


@dataclass(frozen=True, slots=True)
class Given:
    """An answer as it came through the door: read, cleaned, and with a name to it.

    `arguments` are those that shall run in place of the proposed ones; None leaves them as they
    are. `seen` is the digest of what was shown to whoever answers; blank when that is not known.
    """

    status: ParkStatus
    answer: dict[str, Any]
    reason: str
    who: Actor
    arguments: dict[str, Any] | None = None
    seen: str = ""

    @property
    def approves(self) -> bool:
        return self.status == ParkStatus.APPROVED

    @property
    def has_payload(self) -> bool:
        return "payload" in self.answer

    def may_mean_a_job(self, park: Park) -> bool:
        """Tell whether an answer to this gate may be for what its tool, once allowed, waits for.

        Without a payload it is the yes or the no to the gate that is sent again.
        """
        is_allowed_gate = park.status == ParkStatus.APPROVED and not park.is_job
        return is_allowed_gate and not park.was_answered_with_result and self.has_payload

    def verb(self, park: Park) -> Verb:
        """Return what the trail calls this answer to this park."""
        if not self.approves:
            return Verb.REJECTED
        stands_in = self.has_payload and park.takes_payload == "result"
        return Verb.ANSWERED if stands_in else Verb.APPROVED


def read(
    approved: object,
    who: Actor,
    *,
    payload: Any = UNSET,
    reason: str = "",
    arguments: dict[str, Any] | None = None,
) -> Given:
    """Read an answer at the door: which way it goes, and what it carries.

    Raises `TooLarge` or `NotJson` for a payload that cannot be stored.
    """
    opens, understood = states.reads_as(approved)
    if not understood:
        logger.warning("a decision %.80r by %s was not understood, read as no", approved, who.name)
    answer = {}
    if payload is not UNSET:
        answer["payload"] = values.clean(payload, size_max=conf.payload_bytes_max())
    text = values.clean_text(reason, chars_max=audit.REASON_CHARS_MAX)
    status = ParkStatus.APPROVED if opens else ParkStatus.REJECTED
    return Given(status, answer, text, who, arguments if opens else None)


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of an answer.

    `delivered` tells whether it counts. When it does not, `code` is one of `already_answered`,
    `expired`, `not_found`, `moved_on`, `changed`, or of a refusal (`not_allowed`,
    `not_an_approver`, `own_request`, `already_voted`, `needs_several`, `not_editable`,
    `invalid_payload`), and `error`
    says so in a sentence. A vote that counts and does not decide yet is delivered with the code
    `counted`, and `outstanding` says what is still needed.
    """

    delivered: bool
    code: str | None = None
    error: str | None = None
    request_id: UUID | None = None
    outstanding: str = ""
