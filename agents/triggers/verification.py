"""Is this request from whom it should be? Signatures and shared secrets of triggers. Pure.

Standard Webhooks: https://github.com/standard-webhooks/standard-webhooks. The other signature is
that of GitHub and many others: `sha256=` and the hexadecimal HMAC-SHA256 of the body.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

STANDARD, SHA256, SECRET = "standard", "sha256", "secret"
SKEW_MAX = timedelta(minutes=5)
SIGNATURES_MAX = 16  # in one header: several only while a secret is replaced
SECRET_PREFIX = "whsec_"  # noqa: S105  (how such secrets begin)
STANDARD_ID = "webhook-id"
DEFAULT_HEADERS = {SHA256: "X-Hub-Signature-256", SECRET: "X-Webhook-Secret"}


@dataclass(frozen=True, slots=True)
class Incoming:
    """A request as it came: its headers, asked for in any case, and its body byte for byte."""

    headers: Mapping[str, str]
    body: bytes
    at: datetime


def fault(incoming: Incoming, *, scheme: str, secrets: Sequence[str], header: str) -> str | None:
    """Say in a few words why this request is not to be trusted; None when it is.

    Any of the `secrets` may have signed it. `header` is the name of the header that is looked at,
    "" for the usual one. Without a secret nothing is trusted, nor by an unknown scheme.
    """
    if not secrets:
        return "no secret is set"
    judge = _SCHEMES.get(scheme)
    if judge is None:
        return "unknown kind of verification"
    return judge(incoming, [one.strip() for one in secrets], header or DEFAULT_HEADERS.get(scheme))


def _standard(incoming: Incoming, secrets: list[str], header: str | None) -> str | None:
    message_id = incoming.headers.get(STANDARD_ID, "")
    timestamp = incoming.headers.get("webhook-timestamp", "")
    signatures = incoming.headers.get("webhook-signature", "")
    if not message_id or not timestamp or not signatures:
        return "no signature"
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 12):
        return "unreadable timestamp"
    if abs(incoming.at.timestamp() - int(timestamp)) > SKEW_MAX.total_seconds():
        return "stale timestamp"
    content = b".".join((_bytes(message_id), _bytes(timestamp), incoming.body))
    ours = [
        base64.b64encode(hmac.digest(_key(secret), content, hashlib.sha256)) for secret in secrets
    ]
    given = [one.removeprefix("v1,") for one in signatures.split() if one.startswith("v1,")]
    return None if _any_same(given[:SIGNATURES_MAX], ours) else "bad signature"


def _sha256(incoming: Incoming, secrets: list[str], header: str | None) -> str | None:
    given = incoming.headers.get(header or "", "").strip()
    if not given:
        return "no signature"
    ours = [
        hmac.digest(secret.encode(), incoming.body, hashlib.sha256).hex().encode()
        for secret in secrets
    ]
    return None if _any_same([given.removeprefix("sha256=").lower()], ours) else "bad signature"


def _secret(incoming: Incoming, secrets: list[str], header: str | None) -> str | None:
    given = incoming.headers.get(header or "", "").strip()
    if not given:
        return "no secret"
    ours = [secret.encode() for secret in secrets]
    return None if _any_same([given], ours) else "bad secret"


_SCHEMES: dict[str, Callable[[Incoming, list[str], str | None], str | None]] = {
    STANDARD: _standard,
    SHA256: _sha256,
    SECRET: _secret,
}


def _key(secret: str) -> bytes:
    """Return the key that a Standard Webhooks secret stands for: base64 after `whsec_`."""
    if not secret.startswith(SECRET_PREFIX):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except binascii.Error:
        return secret.encode()


def _any_same(given: list[str], ours: list[bytes]) -> bool:
    """Compare all with all, in a time that tells nothing."""
    found = False
    for one in given:
        for expected in ours:
            found |= hmac.compare_digest(_bytes(one), expected)
    return found


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
