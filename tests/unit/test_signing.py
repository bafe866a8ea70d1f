"""Signatures, compared with the public `standardwebhooks` library in both directions."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook

from hitl import clock, signing

OLD, NEW, OTHER = (signing.derive(name * 40) for name in "onx")
BODY = json.dumps({"status": "approved", "é": 1.0}).encode()


def signed(*keys: bytes, at: datetime | None = None, body: bytes = BODY) -> dict[str, str]:
    timestamp = str(int((at or clock.now()).timestamp()))
    signature = signing.sign(keys, message_id=b"msg_1", timestamp=timestamp.encode(), body=body)
    return {
        "webhook-id": "msg_1",
        "webhook-timestamp": timestamp,
        "webhook-signature": signature,
    }


def accepts(*keys: bytes, signatures: bytes, body: bytes = BODY, at: bytes = b"100") -> bool:
    return signing.is_signed(keys, signatures, message_id=b"msg_1", timestamp=at, body=body)


@pytest.mark.promise("C1")
def test_the_public_library_verifies_what_is_signed_here() -> None:
    told = Webhook(signing.shared_form(NEW)).verify(BODY, signed(NEW))
    assert told == json.loads(BODY)


@pytest.mark.promise("C2")
def test_what_the_public_library_signs_is_accepted_here() -> None:
    at = datetime.fromtimestamp(100, UTC)
    theirs = Webhook(signing.shared_form(NEW)).sign("msg_1", at, BODY.decode())
    assert accepts(NEW, signatures=theirs.encode())
    assert not accepts(OLD, signatures=theirs.encode())


@pytest.mark.promise("C2")
@pytest.mark.parametrize("order", [(OLD, NEW), (NEW, OLD)])
def test_while_keys_rotate_whoever_holds_either_accepts(order: Any) -> None:
    """Field report WEB-03."""
    signatures = signing.sign(order, message_id=b"msg_1", timestamp=b"100", body=BODY).encode()
    assert accepts(OLD, signatures=signatures)
    assert accepts(NEW, signatures=signatures)
    assert accepts(OTHER, OLD, signatures=signatures)
    assert not accepts(OTHER, signatures=signatures)
    assert accepts(NEW, signatures=b"v9=abc v1a,xyz v1, " + signatures)


@pytest.mark.promise("C2")
def test_a_hundred_signatures_are_looked_at_and_a_thousand_are_not() -> None:
    [good] = signing.sign([NEW], message_id=b"msg_1", timestamp=b"100", body=BODY).split()
    assert accepts(NEW, signatures=b"v1,bad " * 99 + good.encode())
    assert not accepts(NEW, signatures=b"v1,bad " * 999 + good.encode())


@pytest.mark.promise("C1", "C2")
def test_id_time_and_body_are_all_signed() -> None:
    """Field report WEB-05."""
    signatures = signing.sign([NEW], message_id=b"msg_1", timestamp=b"100", body=BODY).encode()
    assert accepts(NEW, signatures=signatures)
    assert not accepts(NEW, signatures=signatures, at=b"101")
    assert not accepts(NEW, signatures=signatures, body=BODY + b" ")
    assert not signing.is_signed(
        [NEW], signatures, message_id=b"msg_2", timestamp=b"100", body=BODY
    )


@pytest.mark.promise("C1")
def test_the_secret_itself_signs_nothing() -> None:
    assert len(signing.derive("a secret")) == 32
    assert signing.derive("a secret") != signing.derive("a secret", purpose=b"another")
    assert signing.derive("a secret") == signing.derive("a secret")


@pytest.mark.promise("C1")
def test_the_key_is_derived_as_rfc_5869_says() -> None:
    """By hand: extract without a salt, then the first block of expand."""
    import hashlib
    import hmac

    pseudorandom = hmac.new(b"\0" * 32, b"a secret", hashlib.sha256).digest()
    block = hmac.new(pseudorandom, signing.PURPOSE + b"\1", hashlib.sha256).digest()
    assert signing.derive("a secret") == block


@given(st.binary(max_size=200), st.binary(max_size=60), st.binary(max_size=60), st.binary())
def test_no_bytes_crash_the_comparison(
    signatures: bytes, message_id: bytes, timestamp: bytes, body: bytes
) -> None:
    """Field report WEB-01."""
    assert not signing.is_signed(
        [NEW], signatures, message_id=message_id, timestamp=timestamp, body=body
    )


@pytest.mark.promise("C4")
@pytest.mark.parametrize(
    "secret", ["changeme", "Secret", "insecure-key", "django-insecure-abc", " change-me-please"]
)
def test_samples_are_known(secret: str) -> None:
    assert signing.is_sample(secret)
    assert not signing.is_sample("x" + secret)
