"""What `manage.py check` and the doctor say of secrets, hosts and callbacks."""

from typing import Any

import pytest

import hitl
from hitl import approval, checks, doctor
from hitl.models import CallbackDelivery

GOOD = "k8sN2vXq-of-a-test-and-of-nothing-else"


def found(settings: Any, **hitl_settings: Any) -> list[str]:
    """Return the ids of what the checks find with these settings."""
    settings.HITL = settings.HITL | hitl_settings
    return [str(one.id) for one in checks.check_settings() + checks.check_callbacks()]


@pytest.mark.promise("C4", "O2")
@pytest.mark.parametrize(
    ("secret", "expected"),
    [
        (GOOD, []),
        ([GOOD, GOOD[::-1]], []),
        ("", ["hitl.W001"]),
        ("   ", ["hitl.W001"]),
        ([], ["hitl.W001"]),
        ("changeme", ["hitl.E005"]),
        ([GOOD, "secret-of-the-sample"], ["hitl.E005"]),
        ("short", ["hitl.W002"]),
    ],
)
def test_the_secret_is_checked(settings: Any, secret: Any, expected: list[str]) -> None:
    assert found(settings, HMAC_SECRET=secret) == expected
    settings.DEBUG = True
    assert found(settings, HMAC_SECRET=secret) == []


@pytest.mark.promise("C5")
@pytest.mark.parametrize("key", ["CALLBACK_HOSTS", "CALLBACK_INTERNAL_HOSTS"])
def test_hosts_are_checked(settings: Any, key: str) -> None:
    good = ["hooks.example.com", "billing:8080", "10.0.0.5", "[::1]:8000"]
    assert found(settings, **{key: good}) == []
    for bad in ("hooks.example.com", ["https://hooks.example.com"], ["*"], ["a b"], [""], [7]):
        assert found(settings, **{key: bad}) == ["hitl.E004"]


@pytest.mark.promise("E9")
def test_durations_and_counts_are_checked(settings: Any) -> None:
    assert found(settings, CALLBACK_TIMEOUT="soon") == ["hitl.E002"]
    assert found(settings, CALLBACK_TIMEOUT="1s", CALLBACK_ATTEMPTS_MAX=0) == ["hitl.E003"]


def one(name: str) -> tuple[str, str]:
    finding = next(finding for finding in doctor.examine() if finding.name == name)
    return str(finding.status), finding.sentence


@pytest.mark.promise("C4", "O2")
@pytest.mark.parametrize(
    ("secret", "status"),
    [(GOOD, "ok"), ([GOOD, GOOD], "ok"), ("", "skip"), ("changeme", "fail"), ("short", "warn")],
)
def test_the_doctor_looks_at_the_secret(db: None, settings: Any, secret: Any, status: str) -> None:
    settings.HITL = settings.HITL | {"HMAC_SECRET": secret}
    assert one("callback key")[0] == status
    settings.DEBUG = True
    assert one("callback key")[0] == "skip"


@pytest.mark.promise("C1", "O2", "O3")
def test_the_doctor_tells_of_callbacks_that_are_late_or_given_up(db: None, clock: Any) -> None:
    assert one("callbacks")[0] == "ok"
    entry = approval.request(topic="refund", payload={}, on_decide="/decide/")
    hitl.decide(entry.approval_id, True)
    assert one("callbacks")[0] == "ok"
    clock.advance(minutes=2)
    status, sentence = one("callbacks")
    assert (status, "over a minute: 1" in sentence) == ("fail", True)
    CallbackDelivery.objects.update(status="dead", next_attempt_at=None)
    status, sentence = one("callbacks")
    assert (status, "given up: 1" in sentence) == ("warn", True)
