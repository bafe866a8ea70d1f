"""Signatures in the Standard Webhooks form: made, and compared. Pure.

What is signed is `{id}.{timestamp}.{body}`, the body byte for byte, with HMAC-SHA256. The key is
derived from a secret (HKDF, RFC 5869), so the secret itself signs nothing and may serve elsewhere.
The wire form: https://github.com/standard-webhooks/standard-webhooks
"""

import base64
import hashlib
import hmac
from collections.abc import Iterable, Sequence

VERSION = "v1"
SIGNATURES_MAX = 128  # more of them in one header are not looked at
PURPOSE = b"sayso callbacks v1"

# How the secrets begin that Django, tutorials and this project write into files anybody can read.
SAMPLES = ("django-insecure-", "insecure", "changeme", "change-me", "secret", "only-for-tests")
SECRET_CHARS_MIN = 32


def is_sample(secret: str) -> bool:
    """Tell whether a secret is one that anybody can read somewhere."""
    return secret.strip().lower().startswith(SAMPLES)


def derive(secret: str, *, purpose: bytes = PURPOSE) -> bytes:
    """Return the key of 32 bytes that a secret stands for: HKDF-SHA256 without a salt."""
    pseudorandom = hmac.digest(bytes(32), secret.encode(), hashlib.sha256)
    return hmac.digest(pseudorandom, purpose + b"\x01", hashlib.sha256)


def shared_form(key: bytes) -> str:
    """Return a key as other Standard Webhooks libraries take it: "whsec_…"."""
    return "whsec_" + base64.b64encode(key).decode("ascii")


def sign(keys: Iterable[bytes], *, message_id: bytes, timestamp: bytes, body: bytes) -> str:
    """Return the value of `webhook-signature`: one signature for each key, the first key's first.

    During a rotation a receiver that holds any of the keys finds its own.
    """
    return " ".join(
        f"{VERSION},{signature.decode('ascii')}"
        for signature in _signatures(keys, message_id, timestamp, body)
    )


def is_signed(
    keys: Iterable[bytes], signatures: bytes, *, message_id: bytes, timestamp: bytes, body: bytes
) -> bool:
    """Tell whether one of these signatures is by one of these keys. Takes any bytes.

    Unknown versions are passed over; at most 128 signatures are looked at.
    """
    ours = _signatures(keys, message_id, timestamp, body)
    prefix = f"{VERSION},".encode("ascii")
    given = [one.removeprefix(prefix) for one in signatures.split() if one.startswith(prefix)]
    found = False
    for one in given[:SIGNATURES_MAX]:
        for expected in ours:
            found |= hmac.compare_digest(one, expected)
    return found


def _signatures(
    keys: Iterable[bytes], message_id: bytes, timestamp: bytes, body: bytes
) -> Sequence[bytes]:
    content = b".".join((message_id, timestamp, body))
    return [base64.b64encode(hmac.digest(key, content, hashlib.sha256)) for key in keys]
