"""How a tool parks itself: it raises what it waits for, after starting work elsewhere. Pure.

if ctx.approval:                      # second call: the job finished
    return ctx.approval.payload
job = farm.submit(scene, notify=ctx.resume_url)
raise park_for_input(reason="job", payload={"job_id": job.id}, ttl="30m")
"""

from datetime import timedelta
from typing import Any

from hitl import durations, values
from hitl.errors import HitlError
from hitl.states import TIMERS, Reason

REASON_CHARS_MAX = 40
PAYLOAD_BYTES_MAX = 65_536
RESERVED = frozenset({*TIMERS, Reason.IN_DOUBT, Reason.GUARDRAIL})


class InvalidPark(HitlError):
    """A tool cannot park itself this way."""

    code = "invalid_park"


class ParkRequested(BaseException):
    """A tool waits for something. Not an `Exception`, so that a tool's own handler lets it pass."""

    def __init__(self, reason: str, payload: Any, ttl: timedelta | None) -> None:
        super().__init__("This run parks; let the exception pass.")
        self.reason = reason
        self.payload = payload
        self.ttl = ttl


def park_for_input(
    reason: str = "job", payload: Any = None, ttl: str | timedelta | float | None = None
) -> ParkRequested:
    """Return what a tool raises to wait for an answer without holding a worker (J1).

    `reason` tells a screen what it waits for ("job", or "approval" for a card), `payload` (JSON of
    at most 64 KiB) is shown with it, `ttl` bounds the wait (default: the agent's, then the
    project's). The same call runs again with `ctx.approval.payload` once somebody answers; after
    the deadline it runs with `ctx.approval` None and `ctx.resumed` True and returns what it can
    (J5). Parking again from there is a tool error (J4). Raises `InvalidPark`, `BadDuration`,
    `TooLarge`, `NotJson`.
    """
    if not isinstance(reason, str) or not reason.isprintable() or len(reason) > REASON_CHARS_MAX:
        raise InvalidPark(f"reason={reason!r}; write a word of at most {REASON_CHARS_MAX} letters.")
    if reason in RESERVED:
        raise InvalidPark(f"reason={reason!r} is the platform's own; use another word.")
    return ParkRequested(
        reason or Reason.APPROVAL,
        values.clean(payload, size_max=PAYLOAD_BYTES_MAX),
        None if ttl is None else durations.parse(ttl),
    )
