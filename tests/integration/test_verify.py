"""Reading a signed callback, in a Django view and elsewhere: whatever comes, nothing crashes."""

import gzip
import json
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.http import HttpRequest
from django.test import RequestFactory
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from standardwebhooks import Webhook

from hitl import approval, clock, keys, signing

BODY = {
    "type": "approval.decided",
    "approval_id": "0198c0de-0000-7000-8000-000000000001",
    "topic": "refund",
    "status": "approved",
    "decided_at": "2026-05-01T12:00:00+00:00",
    "timed_out": False,
    "payload": {"amount": 249.0, "big": 9007199254740993},
    "approver": "ana",
    "reason": None,
    "metadata": {"order": 17},
}
OF_VERIFY = (
    approval.ApprovalInvalidSignature,
    approval.ApprovalStaleTimestamp,
    approval.ApprovalInvalidRequest,
)


def headers(body: bytes, *, by: Any = None, at: Any = None, name: str = "msg_1") -> dict[str, str]:
    moment = str(int((at or clock.now()).timestamp()))
    signature = signing.sign(
        by or keys.current(), message_id=name.encode(), timestamp=moment.encode(), body=body
    )
    return {"webhook-id": name, "webhook-timestamp": moment, "webhook-signature": signature}


def request(body: bytes, signed: dict[str, str], **more: Any) -> HttpRequest:
    return RequestFactory().post(
        "/decide/", data=body, content_type="application/json", headers=signed, **more
    )


def call(body: Any = None, **changed: Any) -> HttpRequest:
    """Return a call whose headers are right but for the ones given; None leaves one out."""
    raw = body if isinstance(body, bytes) else json.dumps(BODY if body is None else body).encode()
    signed: dict[str, Any] = headers(raw) | {
        name.replace("_", "-"): value for name, value in changed.items()
    }
    return request(raw, {name: value for name, value in signed.items() if value is not None})


def code(made: Any, **more: Any) -> str:
    with pytest.raises(OF_VERIFY) as refused:
        approval.verify(made, **more)
    return str(refused.value.code)


# ── What is accepted ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("C2", "C3")
def test_a_signed_decision_is_read() -> None:
    told = approval.verify(call())
    assert (told.status, told.approved, told.topic) == ("approved", True, "refund")
    assert told.payload == {"amount": 249.0, "big": 9007199254740993}
    assert (told.approver, told.reason, told.metadata) == ("ana", None, {"order": 17})
    assert told.decided_at == datetime(2026, 5, 1, 12, tzinfo=UTC)
    assert told.approval_id == BODY["approval_id"]
    assert told.webhook_id == "msg_1"


@pytest.mark.promise("C2")
def test_what_the_public_library_signs_is_read() -> None:
    raw, now = json.dumps(BODY), clock.now()
    hook = Webhook(signing.shared_form(keys.current()[0]))
    signed = headers(raw.encode(), at=now) | {"webhook-signature": hook.sign("msg_1", now, raw)}
    assert approval.verify(request(raw.encode(), signed)).approved


@pytest.mark.promise("C2")
@pytest.mark.parametrize("as_text", [True, False])
def test_any_object_with_headers_and_a_body_will_do(as_text: bool) -> None:
    raw = json.dumps(BODY).encode()
    signed = {name.title(): value for name, value in headers(raw).items()}
    made = SimpleNamespace(headers=signed, body=raw.decode() if as_text else raw)
    assert approval.verify(made).approved


@pytest.mark.promise("C2")
@pytest.mark.parametrize(
    "raw",
    [
        json.dumps(BODY, indent=4).encode() + b"\n\n ",
        json.dumps(BODY).replace("/", "\\/").encode(),
        json.dumps(BODY | {"reason": "é"}, ensure_ascii=False).encode(),
        json.dumps(dict(reversed(BODY.items()))).encode(),
    ],
)
def test_the_exact_bytes_count_however_they_are_written(raw: bytes) -> None:
    """Field report WEB-02."""
    assert approval.verify(call(raw)).approved
    for nth in range(0, len(raw), 7):
        flipped = raw[:nth] + bytes([raw[nth] ^ 1]) + raw[nth + 1 :]
        assert code(request(flipped, headers(raw))) == "approval_invalid_signature"


@pytest.mark.promise("C2")
def test_a_middleware_that_looked_at_the_form_first_does_no_harm() -> None:
    made = call()
    assert not made.POST
    assert approval.verify(made).approved


@pytest.mark.promise("C2")
def test_keys_rotate_without_a_gap(settings: Any) -> None:
    """Field report WEB-03."""
    old, new = "o" * 40, "n" * 40
    raw = json.dumps(BODY).encode()
    by_old = headers(raw, by=[signing.derive(old)])
    settings.HITL = settings.HITL | {"HMAC_SECRET": [new, old]}
    assert approval.verify(request(raw, by_old)).approved
    assert approval.verify(call()).approved
    settings.HITL = settings.HITL | {"HMAC_SECRET": new}
    assert code(request(raw, by_old)) == "approval_invalid_signature"


# ── What is refused ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("C2")
@pytest.mark.parametrize("seconds", [301, -301, 10**9, -(10**9)])
def test_a_skew_is_refused_both_ways(seconds: int) -> None:
    raw = json.dumps(BODY).encode()
    at = clock.now() + timedelta(seconds=seconds)
    assert code(request(raw, headers(raw, at=at))) == "approval_stale_timestamp"


@pytest.mark.promise("C2")
def test_the_tolerance_can_be_set(clock: Any) -> None:
    raw = json.dumps(BODY).encode()
    made = request(raw, headers(raw))
    clock.advance(minutes=9)
    assert code(made) == "approval_stale_timestamp"
    assert approval.verify(made, tolerance_seconds=600).approved
    for bad in (-1, float("nan"), float("inf"), "5", None):
        with pytest.raises(ValueError, match="tolerance_seconds"):
            approval.verify(made, tolerance_seconds=bad)


@pytest.mark.promise("C4")
@pytest.mark.parametrize("secret", ["", "  ", "changeme", "secret", [], ["insecure-x"], None])
def test_without_a_key_nothing_is_accepted(settings: Any, secret: Any) -> None:
    """Field report WEB-04."""
    made = call()
    settings.HITL = settings.HITL | {"HMAC_SECRET": secret}
    with pytest.raises(approval.ApprovalSigningKeyMissing) as refused:
        approval.verify(made)
    assert refused.value.code == "approval_signing_key_missing"


@pytest.mark.promise("C4")
def test_what_debug_signs_is_accepted_in_debug_alone(settings: Any) -> None:
    settings.DEBUG = True
    settings.HITL = settings.HITL | {"HMAC_SECRET": ""}
    made = call()
    assert approval.verify(made).approved
    settings.DEBUG = False
    settings.HITL = settings.HITL | {"HMAC_SECRET": keys._OF_DEBUG}
    with pytest.raises(approval.ApprovalSigningKeyMissing):
        approval.verify(made)


@pytest.mark.promise("C2")
@pytest.mark.parametrize("name", ["webhook_id", "webhook_timestamp", "webhook_signature"])
@pytest.mark.parametrize(
    "value", [None, "", " ", "v1", "v1,", "garbage", "é", "\xe9" * 9, "v1,é", "x" * 20_000, ","]
)
def test_a_malformed_header_is_refused(name: str, value: str | None) -> None:
    """Field report WEB-01."""
    assert code(call(**{name: value})) == "approval_invalid_signature"


@pytest.mark.promise("C2")
@pytest.mark.parametrize("written", ["1e3", "-5", "٣", "12.0", "0x10", "9" * 13, "soon"])
def test_a_signed_time_that_is_no_number_is_refused(written: str) -> None:
    raw = json.dumps(BODY).encode()
    signature = signing.sign(
        keys.current(), message_id=b"msg_1", timestamp=written.encode(), body=raw
    )
    signed = {"webhook-id": "msg_1", "webhook-timestamp": written, "webhook-signature": signature}
    made = SimpleNamespace(headers=signed, body=raw)
    assert code(made) == "approval_invalid_signature"


@pytest.mark.promise("C2", "C3")
@pytest.mark.parametrize(
    "body",
    [
        *(
            b"",
            b"{}",
            b"null",
            b"[]",
            b"\xff\xfe",
            b"\xef\xbb\xbf{}",
            b"{" * 5000,
            b'{"a":1,"a":2}',
        ),
        gzip.compress(b"{}", mtime=0),
        BODY | {"status": "pending"},
        BODY | {"status": ["approved"]},
        BODY | {"status": {"approved": True}},
        BODY | {"type": "other"},
        BODY | {"decided_at": "soon"},
        BODY | {"decided_at": "2026-05-01T12:00:00"},
        BODY | {"decided_at": 7},
        BODY | {"approval_id": None},
        BODY | {"approver": 7},
        BODY | {"metadata": [1]},
        {name: value for name, value in BODY.items() if name != "topic"},
    ],
)
def test_a_signed_body_that_is_no_decision_is_refused(body: Any) -> None:
    """Field report WEB-02: a good signature does not make a crash."""
    assert code(call(body)) == "approval_invalid_request"


@pytest.mark.promise("C2")
def test_a_body_that_was_read_away_is_refused() -> None:
    made = call()
    made.read()
    assert code(made) == "approval_invalid_signature"


@pytest.mark.promise("C2")
def test_a_body_beyond_djangos_limit_is_refused(settings: Any) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 10
    assert code(call()) == "approval_invalid_signature"


NAMES = ["webhook-id", "webhook-timestamp", "webhook-signature"]
STATUSES = ("approved", "rejected", "timed_out", "cancelled")
TEXT = st.text(max_size=60) | st.binary(max_size=60) | st.none() | st.integers()


@pytest.mark.promise("C2")
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["webhook-id", "webhook-timestamp", "webhook-signature"]), TEXT
    ),
    TEXT,
)
def test_no_headers_and_no_body_crash_it(found: dict[str, Any], body: Any) -> None:
    assert code(SimpleNamespace(headers=found, body=body)) == "approval_invalid_signature"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=9,
)


@pytest.mark.promise("C2")
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(JSON, st.sampled_from([*BODY, "other"]))
def test_no_signed_body_crashes_it(value: Any, name: str) -> None:
    for body in (value, BODY | {name: value}):
        raw = json.dumps(body).encode()
        made = SimpleNamespace(headers=headers(raw), body=raw)
        try:
            assert approval.verify(made).status in (
                "approved",
                "rejected",
                "timed_out",
                "cancelled",
            )
        except approval.ApprovalInvalidRequest:
            continue
