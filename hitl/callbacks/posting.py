"""One POST of one callback: signed, bounded, and written down. No transaction is open meanwhile.

Whatever goes wrong is a failed attempt with a sentence to it, never an exception: the row then says
when the next one is due.
"""

import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from email.utils import parsedate_to_datetime
from uuid import UUID

from hitl import clock, conf, faults, keys, signing
from hitl.callbacks import addresses, decisions, deliveries
from hitl.callbacks.deliveries import Claim
from hitl.errors import HitlError

logger = logging.getLogger(__name__)

USER_AGENT = "Sayso-Callback/1"
SECONDS_MAX = 10**8  # far beyond any wait that is heeded

LATER = (429, 503)
"""The statuses whose Retry-After is heeded."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """What went wrong with a POST, and how long the receiver asks to be left alone."""

    error: str
    retry_after: timedelta | None = None


Send = Callable[[addresses.Destination, bytes, dict[str, str]], Refusal | None]


def deliver(delivery_id: UUID, *, send: Send | None = None) -> bool:
    """POST one callback that is due, and note what became of it; True when it was accepted.

    One that is not due, or that another worker is at, is left alone. `send` makes the POST in the
    network's place, for tests.
    """
    claim = deliveries.claim(delivery_id)
    if claim is None:
        return False
    faults.point("callback:claimed")
    refusal = _post(claim, send or send_by_network)
    faults.point("callback:posted")
    if refusal is None:
        noted = deliveries.note(claim, None)
    else:
        noted = deliveries.note(claim, refusal.error, not_before=refusal.retry_after)
    faults.point("callback:noted")
    if refusal is not None:
        logger.warning("callback %s of request %s: %s", delivery_id, claim.park.id, refusal.error)
    return noted and refusal is None


def message_id(claim: Claim) -> str:
    """Return the `webhook-id`: the same for every attempt, so that a receiver can tell."""
    return f"msg_{claim.delivery.id.hex}"


def headers(claim: Claim, body: bytes) -> dict[str, str]:
    """Return the headers that sign this body now. Raises ApprovalSigningKeyMissing."""
    name, timestamp = message_id(claim), str(int(clock.now().timestamp()))
    signature = signing.sign(
        keys.current(), message_id=name.encode(), timestamp=timestamp.encode(), body=body
    )
    return {
        "content-type": "application/json",
        "user-agent": USER_AGENT,
        "webhook-id": name,
        "webhook-timestamp": timestamp,
        "webhook-signature": signature,
    }


def _post(claim: Claim, send: Send) -> Refusal | None:
    """Make the POST. Returns None when it was accepted, else what went wrong."""
    if claim.delivery.attempts > conf.callback_attempts_max():
        return Refusal("Given up: the workers that tried before have died over it.")
    try:
        destination = addresses.check(claim.delivery.url)
        body = decisions.body(decisions.of(claim.park))
        signed = headers(claim, body)
    except HitlError as error:
        return Refusal(str(error))
    return send(destination, body, signed | dict(destination.headers))


def send_by_network(
    destination: addresses.Destination, body: bytes, signed: dict[str, str]
) -> Refusal | None:
    """Send one request; of what comes back only the status and Retry-After are looked at."""
    import httpx2  # the web process has no use for it

    from hitl.callbacks.network import CheckedTransport

    seconds = conf.callback_timeout().total_seconds()
    transport = CheckedTransport(internal=destination.is_internal, seconds_max=seconds)
    try:
        with httpx2.Client(transport=transport, trust_env=False, follow_redirects=False) as client:
            answer = client.post(destination.url, content=body, headers=signed)
    except Exception as error:  # whatever the network raises
        return Refusal(f"{type(error).__name__}: {error}".removesuffix(": "))
    return judge(answer.status_code, answer.headers.get("retry-after", ""))


def judge(status: int, retry_after: str = "") -> Refusal | None:
    """Say what a status means; None when the callback was accepted."""
    if 200 <= status < 300:
        return None
    if 300 <= status < 400:
        return Refusal(f"The receiver answered {status}; redirects are not followed.")
    later = asked_for(retry_after) if status in LATER else None
    return Refusal(f"The receiver answered {status}.", later)


def asked_for(retry_after: str) -> timedelta | None:
    """Read a Retry-After: seconds, or a date; None for what is neither."""
    text = retry_after.strip()
    if text.isascii() and text.isdigit():
        return timedelta(seconds=min(int(text[:10]), SECONDS_MAX))
    with contextlib.suppress(ValueError, TypeError, OverflowError):
        at = parsedate_to_datetime(text)
        return max(at - clock.now(), timedelta())
    return None
