"""Signatures and secrets of triggers: what is trusted, and everything else that is not."""

import base64
import hashlib
import hmac
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook

from agents.triggers import verification
from agents.triggers.verification import SECRET, SHA256, STANDARD, Incoming

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
KEY = "whsec_" + base64.b64encode(b"k" * 32).decode()
PLAIN = "a-shared-secret-of-24-chars"
BODY = b'{"id": 7}'
SCHEMES = [STANDARD, SHA256, SECRET]


def judge(scheme: str, headers: dict[str, str], **more: Any) -> str | None:
    lowered = {name.lower(): value for name, value in headers.items()}

    class Headers(dict[str, str]):
        def get(self, name: str, default: Any = None) -> Any:
            return super().get(name.lower(), default)

    secrets = more.get("secrets", [KEY if scheme == STANDARD else PLAIN])
    incoming = Incoming(Headers(lowered), more.get("body", BODY), more.get("at", NOW))
    return verification.fault(
        incoming, scheme=scheme, secrets=secrets, header=more.get("header", "")
    )


def standard(body: bytes = BODY, at: datetime = NOW, key: str = KEY) -> dict[str, str]:
    return {
        "webhook-id": "msg_1",
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": Webhook(key).sign("msg_1", at, body.decode()),
    }


def sha256(body: bytes = BODY, secret: str = PLAIN) -> str:
    return "sha256=" + hmac.digest(secret.encode(), body, hashlib.sha256).hex()


def good(scheme: str) -> dict[str, str]:
    return {
        STANDARD: standard(),
        SHA256: {"X-Hub-Signature-256": sha256()},
        SECRET: {"X-Webhook-Secret": PLAIN},
    }[scheme]


@pytest.mark.promise("K5")
@pytest.mark.parametrize("scheme", SCHEMES)
def test_what_the_sender_signed_is_trusted_and_without_a_secret_nothing_is(scheme: str) -> None:
    assert judge(scheme, good(scheme)) is None
    assert judge(scheme, good(scheme), secrets=[]) == "no secret is set"
    assert judge("none", good(scheme)) == "unknown kind of verification"


@pytest.mark.promise("K5")
@pytest.mark.parametrize("scheme", SCHEMES)
def test_any_of_several_secrets_is_accepted_while_one_is_replaced(scheme: str) -> None:
    mine = KEY if scheme == STANDARD else PLAIN
    other = "whsec_" + base64.b64encode(b"o" * 32).decode()
    assert judge(scheme, good(scheme), secrets=[other, mine]) is None
    assert judge(scheme, good(scheme), secrets=[other]) in ("bad signature", "bad secret")


@pytest.mark.promise("K5")
def test_a_standard_signature_counts_for_its_body_its_id_and_five_minutes() -> None:
    assert judge(STANDARD, standard(), body=b'{"id": 8}') == "bad signature"
    assert judge(STANDARD, standard() | {"webhook-id": "msg_2"}) == "bad signature"
    assert judge(STANDARD, standard(at=NOW - timedelta(minutes=6))) == "stale timestamp"
    assert judge(STANDARD, standard(at=NOW + timedelta(minutes=6))) == "stale timestamp"
    assert judge(STANDARD, standard(at=NOW - timedelta(minutes=4))) is None
    assert judge(STANDARD, standard() | {"webhook-timestamp": "soon"}) == "unreadable timestamp"
    signature = standard()["webhook-signature"]
    several = {"webhook-signature": f"v1a,AAAA v1,BBBB {signature}"}
    assert judge(STANDARD, standard() | several) is None
    assert judge(STANDARD, {}) == "no signature"


@pytest.mark.promise("K5")
def test_the_other_schemes_look_at_the_header_that_the_trigger_names() -> None:
    named = {"X-Signature": sha256().removeprefix("sha256=").upper()}
    assert judge(SHA256, named, header="X-Signature") is None
    assert judge(SHA256, named) == "no signature"
    assert judge(SHA256, {"X-Hub-Signature-256": sha256(secret="x" * 20)}) == "bad signature"
    assert judge(SECRET, {"X-Token": PLAIN}, header="X-Token") is None
    assert judge(SECRET, {"X-Webhook-Secret": PLAIN + "x"}) == "bad secret"
    assert judge(SECRET, {}) == "no secret"


HEADERS = st.dictionaries(
    st.sampled_from(
        [
            *("webhook-id", "webhook-timestamp", "webhook-signature"),
            *("x-hub-signature-256", "x-webhook-secret"),
        ]
    ),
    st.text() | st.integers().map(str) | st.binary().map(lambda one: one.decode("latin-1")),
)


@pytest.mark.promise("K5")
@given(st.sampled_from(SCHEMES), HEADERS, st.binary(max_size=40))
def test_no_made_up_request_is_trusted_or_crashes(
    scheme: str, headers: dict[str, str], body: bytes
) -> None:
    assert judge(scheme, headers, body=body)
