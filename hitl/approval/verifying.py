"""Reading a callback: is it from this project, is it fresh, what does it say. Touches no row.

Whatever arrives, the outcome is a decision or one of the documented errors, never a crash (C2).
"""

import math
from typing import Any

from django.core.exceptions import SuspiciousOperation
from django.http import UnreadablePostError
from django.http.request import RawPostDataException

from hitl import clock, keys, signing
from hitl.callbacks import decisions
from hitl.callbacks.decisions import Decision
from hitl.errors import ApprovalInvalidSignature, ApprovalStaleTimestamp

HEADER_BYTES_MAX = 16 * 1024
TIMESTAMP_DIGITS_MAX = 12


def verify(request: Any, tolerance_seconds: float = 300) -> Decision:
    """Return the decision that a signed callback tells.

    `request` is Django's HttpRequest, or anything with `headers` (a mapping) and `body` (bytes or
    text). The view that calls this must be `csrf_exempt`: the signature is the permission. Each
    callback may come more than once; `webhook_id` and `approval_id` tell which it is.

    Raises ApprovalSigningKeyMissing without a key to check with, ApprovalInvalidSignature for
    missing, malformed or wrong headers, ApprovalStaleTimestamp when it was signed more than
    `tolerance_seconds` ago or ahead, and ApprovalInvalidRequest for a signed body that is no
    decision. Answer all of them with 400.
    """
    if not isinstance(tolerance_seconds, int | float) or not 0 <= tolerance_seconds < math.inf:
        raise ValueError("tolerance_seconds is a number of seconds, at least 0")
    in_use = keys.current()
    headers = _lowered(request.headers)
    message_id = _header(headers, "webhook-id")
    timestamp = _header(headers, "webhook-timestamp")
    signatures = _header(headers, "webhook-signature")
    body = _body(request)
    if not signing.is_signed(
        in_use, signatures, message_id=message_id, timestamp=timestamp, body=body
    ):
        raise ApprovalInvalidSignature
    if abs(clock.now().timestamp() - _seconds(timestamp)) > tolerance_seconds:
        raise ApprovalStaleTimestamp
    return decisions.read(body, webhook_id=message_id.decode("utf-8", "replace"))


def _lowered(headers: Any) -> dict[str, Any]:
    """Return the headers by their names in lower case, whatever mapping they come in."""
    return {str(name).lower(): value for name, value in dict(headers).items()}


def _header(headers: dict[str, Any], name: str) -> bytes:
    """Return a header as bytes. Raises ApprovalInvalidSignature when it is missing or too long."""
    value = headers.get(name)
    if isinstance(value, str):
        value = value.encode("utf-8", "surrogatepass")
    if not isinstance(value, bytes) or not 0 < len(value) <= HEADER_BYTES_MAX:
        raise ApprovalInvalidSignature(f"The header {name} is missing, or too long.")
    return value


def _body(request: Any) -> bytes:
    try:
        body = request.body
    except (RawPostDataException, UnreadablePostError, SuspiciousOperation) as error:
        raise ApprovalInvalidSignature(f"The body cannot be read: {error}") from error
    if isinstance(body, str):
        return body.encode("utf-8", "surrogatepass")
    if not isinstance(body, bytes | bytearray | memoryview):
        raise ApprovalInvalidSignature("The body is neither bytes nor text.")
    return bytes(body)


def _seconds(timestamp: bytes) -> int:
    """Read the signed time. Raises ApprovalInvalidSignature unless it is a whole number."""
    if not timestamp.isdigit() or len(timestamp) > TIMESTAMP_DIGITS_MAX:
        raise ApprovalInvalidSignature("The header webhook-timestamp is no number of seconds.")
    return int(timestamp)
