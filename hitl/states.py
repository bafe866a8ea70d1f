"""The statuses of a park, its legal moves and how an answer is read. Pure.

```
                 ┌─ a person, or a program that says so ─→ approved | rejected
  pending ───────┼─ its deadline passed ─────────────────→ timed_out
                 └─ withdrawn (stop, edit, supersede) ───→ cancelled
```

A park leaves `pending` once; the four other statuses are final.
"""

from enum import StrEnum


class ParkStatus(StrEnum):
    """Where a durable question stands."""

    PENDING = "pending"
    """Open: nobody has answered and the deadline has not been acted on."""
    APPROVED = "approved"
    """Someone allowed it, perhaps with a payload."""
    REJECTED = "rejected"
    """Someone said no."""
    TIMED_OUT = "timed_out"
    """Nobody answered before the deadline; the system closed it."""
    CANCELLED = "cancelled"
    """Withdrawn: the work that asked has stopped or moved on."""


class Reason(StrEnum):
    """Why a park waits. Anything else that a tool names is shown as it is (J6)."""

    APPROVAL = "approval"
    """A person decides before a gated tool runs."""
    IN_DOUBT = "in_doubt"
    """A worker died inside a tool: a person says whether it happened."""
    GUARDRAIL = "guardrail"
    """A rule keeps a message or a reply back: a person decides whether it goes on."""
    RETRY = "retry"
    """Nobody is asked: a call to the model, or a step, is tried again at the deadline."""
    SLEEP = "sleep"
    """Nobody is asked: a workflow goes on at the deadline."""
    HOOK = "hook"
    """A program ends the wait, by its token."""


TIMERS = frozenset({Reason.RETRY, Reason.SLEEP})
"""Reasons that only wait for their deadline: no card, no answer, no audit row."""


FOR_PEOPLE = frozenset({Reason.APPROVAL, Reason.IN_DOUBT, Reason.GUARDRAIL})
"""Reasons that call for a person: a card. What waits for anything else has a status line (J6)."""


class OnTimeout(StrEnum):
    """What the deadline means for the one who waits."""

    REJECT = "reject"
    APPROVE = "approve"
    IGNORE = "ignore"
    """No deadline: it waits for ever."""


class CallbackStatus(StrEnum):
    """Where the callback of a standalone request stands.

    ```
      waiting ── the request is settled ──→ owed ─┬─ a POST was accepted ──→ delivered ─┐
         └──── nobody is to be called ──→ none    └─ too many have failed ──→ dead ─────┤
                                            ↑                                           │
                                           owed ←──────────── sent again ───────────────┘
    ```
    """

    WAITING = "waiting"
    """The request is open."""
    OWED = "owed"
    """A POST is due, now or after a failed one."""
    DELIVERED = "delivered"
    """The receiver has accepted it."""
    DEAD = "dead"
    """Given up; a person may send it again."""
    NONE = "none"
    """The request is settled, and nobody asked to be called."""


class Code(StrEnum):
    """Why an answer was not delivered."""

    ALREADY_ANSWERED = "already_answered"
    EXPIRED = "expired"
    NOT_FOUND = "not_found"
    MOVED_ON = "moved_on"
    INVALID_PAYLOAD = "invalid_payload"
    NOT_ALLOWED = "not_allowed"
    NOT_AN_APPROVER = "not_an_approver"
    OWN_REQUEST = "own_request"
    ALREADY_VOTED = "already_voted"
    NEEDS_SEVERAL = "needs_several"
    NOT_EDITABLE = "not_editable"
    NOT_EXTENDED = "not_extended"
    COUNTED = "counted"
    """A vote that counts and does not decide yet: the one code of an answer that was delivered."""
    CHANGED = "changed"


SENTENCES = {
    Code.ALREADY_ANSWERED: "This request was already answered.",
    Code.EXPIRED: "This request expired before the answer came.",
    Code.NOT_FOUND: "No such request is waiting.",
    Code.MOVED_ON: "This request was withdrawn: the work that asked has moved on.",
    Code.INVALID_PAYLOAD: "The payload does not fit what this request asks for.",
    Code.ALREADY_VOTED: "You have said so already; each person counts once.",
    Code.NOT_EDITABLE: "What this request asks for cannot be changed.",
    Code.CHANGED: "This request was changed after you looked at it. Look again, then decide.",
}

_TOO_LATE = {
    ParkStatus.APPROVED: Code.ALREADY_ANSWERED,
    ParkStatus.REJECTED: Code.ALREADY_ANSWERED,
    ParkStatus.TIMED_OUT: Code.EXPIRED,
    ParkStatus.CANCELLED: Code.MOVED_ON,
}

TOO_LATE = frozenset(_TOO_LATE.values())
"""The codes of an answer that somebody else was before, or the deadline."""

_READINGS: dict[str, bool] = {
    "approved": True,
    "approve": True,
    "rejected": False,
    "reject": False,
}


def too_late(status: str) -> Code:
    """Return the code for an answer that met a park in this final status."""
    return _TOO_LATE[ParkStatus(status)]


def reads_as(decision: object) -> tuple[bool, bool]:
    """Read a decision value: (does it open the gate, is it one of the documented values).

    Only the exact strings `approved`/`approve` and the bool True open a gate (A10). `rejected`,
    `reject` and False close it. Everything else closes it too and is reported as not understood,
    so that the caller can log it.
    """
    if isinstance(decision, bool):
        return decision, True
    if isinstance(decision, str) and decision in _READINGS:
        return _READINGS[decision], True
    return False, False
