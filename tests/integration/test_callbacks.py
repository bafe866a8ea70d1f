"""Callbacks: owed when a request is settled, POSTed signed, tried again, given up, sent again."""

import json
import socket
import threading
from collections.abc import Iterator
from datetime import UTC, timedelta
from email.utils import format_datetime
from time import monotonic
from typing import Any
from uuid import UUID

import pytest
from standardwebhooks import Webhook

import hitl
from hitl import approval, clock, hints, keys, signing, sweeping, tasks
from hitl.callbacks import deliveries, posting
from hitl.models import CallbackDelivery, Decision, Park
from tests import invariants
from tests.receiver import Call, Receiver

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("clock")]

PATH = "/approvals/decide/?from=sayso"


@pytest.fixture
def receiver(settings: Any) -> Iterator[Receiver]:
    with Receiver() as made:
        settings.HITL = settings.HITL | {"SITE_URL": made.url, "CALLBACK_TIMEOUT": "2s"}
        yield made


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What would have gone to the broker: the task, its ids, the delay."""
    made: list[tuple[Any, ...]] = []

    def send(task: str, *args: str, delay: Any = None) -> None:
        made.append((task, *args, delay))

    monkeypatch.setattr(hints, "send", send)
    return made


def ask(**more: Any) -> approval.Entry:
    given: dict[str, Any] = {"topic": "refund", "payload": {"amount": 249.0}, "on_decide": PATH}
    return approval.request(**(given | more))


def callback(entry: approval.Entry) -> CallbackDelivery:
    return CallbackDelivery.objects.get(park_id=entry.approval_id)


def decided(**more: Any) -> CallbackDelivery:
    entry = ask(**more)
    assert hitl.decide(entry.approval_id, True, actor="ana", reason="called her").delivered
    return callback(entry)


def deliver(delivery: CallbackDelivery) -> bool:
    accepted = posting.deliver(delivery.id)
    delivery.refresh_from_db()
    invariants.check()
    return accepted


def read(call: Call) -> Any:
    """Check a call as a receiver elsewhere does that has the public library and the shared key."""
    return Webhook(signing.shared_form(keys.current()[0])).verify(call.body, call.headers)


def verbs(delivery: CallbackDelivery) -> list[str]:
    rows = Decision.objects.filter(park_id=delivery.park_id).order_by("id")
    return [row.verb for row in rows]


# ── What is owed, and what is told ───────────────────────────────────────────────────────────────


def busy(status: int, retry_after: str) -> Any:
    """Return an answer that asks to be left alone for a while."""

    def answer(handler: Any) -> None:
        handler.send_response(status)
        handler.send_header("Retry-After", retry_after)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    return answer


@pytest.mark.promise("C1")
@pytest.mark.parametrize(
    ("status", "retry_after", "least", "most"),
    [
        (429, "120", 120, 121),
        (503, " 600 ", 600, 601),
        (503, "in 100 s", 100, 101),
        (429, "1", 3, 7),  # sooner than it would be anyway
        (429, "999999999999999999", 6 * 3600, 6 * 3600 + 1),
        (429, "soon", 3, 7),
        (429, "-5", 3, 7),
        (429, "Thu, 01 Jan 1970 00:00:00 GMT", 3, 7),
        (429, "Thu, 01 Jan 1970 00:00:00 -0000", 3, 7),
        (500, "120", 3, 7),
    ],
)
def test_a_receiver_that_asks_for_time_is_given_it_within_the_longest_wait(
    receiver: Receiver, status: int, retry_after: str, least: float, most: float
) -> None:
    if retry_after.startswith("in "):
        at = clock.now().astimezone(UTC) + timedelta(seconds=101)
        retry_after = format_datetime(at, usegmt=True)
    receiver.answers = [busy(status, retry_after)]
    delivery = decided()
    before = clock.now()
    assert not deliver(delivery)
    assert delivery.next_attempt_at is not None
    assert least <= (delivery.next_attempt_at - before).total_seconds() <= most
    assert delivery.last_error == f"The receiver answered {status}."


@pytest.mark.promise("C1", "I2")
def test_a_decision_is_told_to_whoever_asked(receiver: Receiver) -> None:
    entry = ask(metadata={"order": 17})
    assert (callback(entry).status, deliveries.owing()) == ("waiting", [])
    hitl.decide(entry.approval_id, True, actor="ana", reason="called her")
    delivery = callback(entry)
    assert delivery.status == "owed"
    assert deliver(delivery)
    assert (delivery.status, delivery.attempts) == ("delivered", 1)
    [call] = receiver.calls
    assert call.path == PATH
    told = read(call)
    assert told.pop("decided_at")
    assert told == {
        "type": "approval.decided",
        "approval_id": entry.approval_id,
        "topic": "refund",
        "status": "approved",
        "timed_out": False,
        "payload": {"amount": 249.0},
        "approver": "ana",
        "reason": "called her",
        "metadata": {"order": 17},
    }
    assert b'"amount":249.0' in call.body
    assert verbs(delivery) == ["opened", "approved", "callback_sent"]
    row = Decision.objects.get(verb="callback_sent")
    assert (row.system, row.channel, row.detail["attempt"]) == (True, "callback", 1)
    assert row.detail["to"] == "/approvals/decide/?…"
    assert not deliver(delivery), "it is not owed any more"
    assert len(receiver.calls) == 1


@pytest.mark.promise("C1", "C3")
@pytest.mark.parametrize("status", ["rejected", "timed_out", "cancelled"])
def test_a_no_an_expiry_and_a_withdrawal_are_told_too(receiver: Receiver, status: str) -> None:
    entry = ask(timeout="1h")
    if status == "rejected":
        hitl.decide(entry.approval_id, False, actor="ana")
    elif status == "cancelled":
        approval.cancel(entry.approval_id, "gone")
    else:
        clock.advance(hours=2)
        sweeping.settle_due()
    assert deliver(callback(entry))
    told = json.loads(receiver.calls[0].body)
    assert told["status"] == status
    assert (
        ("payload" in told) == ("approver" in told) == ("reason" in told) == (status == "rejected")
    )
    assert told["metadata"] == ({"cancel_reason": "gone"} if status == "cancelled" else {})


@pytest.mark.promise("C1")
def test_without_an_address_nobody_is_called(receiver: Receiver) -> None:
    delivery = decided(on_decide=None)
    assert delivery.status == "none"
    assert deliveries.owing() == []
    assert not deliver(delivery)
    assert not deliveries.resend(delivery.id, actor="ana", channel="admin")
    assert receiver.calls == []


@pytest.mark.promise("C1", "E4")
def test_the_hint_leaves_with_the_decision_and_the_sweep_repeats_it(
    receiver: Receiver, sent: list[Any]
) -> None:
    delivery = decided()
    hint = ("hitl.deliver", str(delivery.id), None)
    assert sent.count(hint) == 1
    assert sweeping.sweep()["callbacks_hinted"] == 1
    assert sent.count(hint) == 2
    tasks.deliver(str(delivery.id))
    assert sweeping.sweep()["callbacks_hinted"] == 0
    assert not hitl.reclaim_if_orphaned(delivery.park_id)


@pytest.mark.promise("E8")
def test_a_lost_callback_can_be_reclaimed(receiver: Receiver, sent: list[Any]) -> None:
    delivery = decided()
    sent.clear()
    assert hitl.reclaim_if_orphaned(delivery.park_id)
    assert sent == [("hitl.deliver", str(delivery.id), None)]


# ── Failures ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("C1")
@pytest.mark.parametrize("status", [500, 404, 410, 302, 301, 307])
def test_anything_but_success_is_tried_again_with_the_same_id(
    receiver: Receiver, sent: list[Any], status: int
) -> None:
    receiver.answers = [status]
    delivery = decided()
    assert not deliver(delivery)
    assert delivery.status == "owed"
    assert str(status) in delivery.last_error
    assert not deliver(delivery), "too early"
    at = delivery.next_attempt_at
    assert at is not None
    [hint] = [one for one in sent if one[2] is not None]
    assert hint[:2] == ("hitl.deliver", str(delivery.id))
    assert 3 <= hint[2].total_seconds() <= 7
    clock.advance(seconds=7)
    assert deliver(delivery)
    assert (delivery.attempts, delivery.last_error) == (2, "")
    first, second = receiver.calls
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.headers["webhook-timestamp"] != second.headers["webhook-timestamp"]
    assert first.body == second.body
    assert verbs(delivery)[-2:] == ["callback_failed", "callback_sent"]


@pytest.mark.promise("C5")
def test_a_redirect_is_not_followed(receiver: Receiver) -> None:
    def redirect(handler: Any) -> None:
        handler.send_response(307)
        handler.send_header("Location", f"{receiver.url}/elsewhere")
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    receiver.answers = [redirect]
    assert not deliver(decided())
    assert len(receiver.calls) == 1


@pytest.mark.promise("C1")
def test_waits_grow_and_the_last_failure_gives_up_visibly(
    receiver: Receiver, settings: Any
) -> None:
    settings.HITL = settings.HITL | {"CALLBACK_ATTEMPTS_MAX": 4}
    receiver.answers = [500] * 4
    delivery = decided()
    waits = []
    for _ in range(3):
        before = clock.now()
        deliver(delivery)
        assert delivery.next_attempt_at is not None
        waits.append((delivery.next_attempt_at - before).total_seconds())
        clock.advance(seconds=waits[-1] + 1)
    assert waits == sorted(waits)
    for wait, expected in zip(waits, (5, 15, 45), strict=True):
        assert expected * 0.74 <= wait <= expected * 1.27
    deliver(delivery)
    assert (delivery.status, delivery.next_attempt_at) == ("dead", None)
    clock.advance(days=30)
    assert deliveries.owing() == []
    row = Decision.objects.filter(verb="callback_failed").latest("id")
    assert row.detail["given_up"] is True
    assert row.reason == "The receiver answered 500."


@pytest.mark.promise("C1")
def test_the_longest_wait_is_six_hours() -> None:
    assert deliveries.backoff(1).total_seconds() == 5
    assert deliveries.backoff(12).total_seconds() == 6 * 3600
    assert deliveries.backoff(10_000).total_seconds() == 6 * 3600


@pytest.mark.promise("C1", "I2")
def test_a_dead_letter_is_sent_again_by_hand(receiver: Receiver, settings: Any) -> None:
    settings.HITL = settings.HITL | {"CALLBACK_ATTEMPTS_MAX": 1}
    receiver.answers = [500]
    delivery = decided()
    deliver(delivery)
    assert delivery.status == "dead"
    assert deliveries.resend(delivery.id, actor="ben", channel="admin")
    delivery.refresh_from_db()
    assert (delivery.status, delivery.attempts) == ("owed", 0)
    assert deliver(delivery)
    assert deliveries.resend(delivery.id, actor="ben", channel="admin"), "the receiver lost it"
    assert deliver(delivery)
    assert len({call.headers["webhook-id"] for call in receiver.calls}) == 1
    row = Decision.objects.filter(verb="callback_resent").first()
    assert row is not None
    assert (row.actor, row.system) == ("ben", False)


@pytest.mark.promise("C1")
def test_a_pending_request_has_nothing_to_send_again(receiver: Receiver) -> None:
    assert not deliveries.resend(callback(ask()).id, actor="ben", channel="admin")


@pytest.mark.promise("C1")
def test_a_receiver_that_drips_is_left_after_the_time_is_up(
    receiver: Receiver, settings: Any
) -> None:
    """A byte at a time, each well within any limit for one read."""
    settings.HITL = settings.HITL | {"CALLBACK_TIMEOUT": "400ms"}

    def drip(handler: Any) -> None:
        pause = threading.Event()
        try:
            for _ in range(100):
                handler.wfile.write(b"H")
                handler.wfile.flush()
                pause.wait(0.05)
        except OSError:
            handler.close_connection = True

    receiver.answers = [drip]
    delivery, began = decided(), monotonic()
    assert not deliver(delivery)
    assert monotonic() - began < 4
    assert "Timeout" in delivery.last_error or "time for one callback" in delivery.last_error


@pytest.mark.promise("C1")
def test_a_huge_answer_is_not_read(receiver: Receiver) -> None:
    def flood(handler: Any) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(10**12))
        handler.end_headers()
        try:
            while True:
                handler.wfile.write(b"x" * 65_536)
        except OSError:
            handler.close_connection = True

    receiver.answers = [flood]
    assert deliver(decided())


@pytest.mark.promise("C1")
def test_nobody_at_the_address_is_a_failed_attempt(settings: Any) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    settings.HITL = settings.HITL | {"SITE_URL": f"http://127.0.0.1:{port}"}
    delivery = decided()
    assert not deliver(delivery)
    assert delivery.last_error.startswith("ConnectError")


@pytest.mark.promise("C5")
def test_a_public_name_with_a_private_address_is_never_called(
    receiver: Receiver, settings: Any
) -> None:
    """An allowed host whose name has come to stand for this machine."""
    hosts = {"CALLBACK_HOSTS": [f"localhost:{receiver.port}"]}
    settings.HITL = settings.HITL | hosts
    delivery = decided(on_decide=f"https://localhost:{receiver.port}/x")
    assert not deliver(delivery)
    assert delivery.last_error.startswith("AddressRefused")
    assert receiver.calls == []


@pytest.mark.promise("C5")
def test_a_host_that_is_allowed_no_more_is_not_called(receiver: Receiver, settings: Any) -> None:
    settings.HITL = settings.HITL | {"CALLBACK_INTERNAL_HOSTS": [f"localhost:{receiver.port}"]}
    first = decided(on_decide=f"http://localhost:{receiver.port}/x")
    assert deliver(first)
    second = decided(on_decide=f"http://localhost:{receiver.port}/x")
    settings.HITL = settings.HITL | {"CALLBACK_INTERNAL_HOSTS": []}
    assert not deliver(second)
    assert "cannot be called" in second.last_error
    assert len(receiver.calls) == 1


@pytest.mark.promise("C5")
def test_a_proxy_of_the_environment_is_not_used(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert deliver(decided())


@pytest.mark.promise("C4")
def test_a_key_that_is_gone_is_a_failed_attempt(receiver: Receiver, settings: Any) -> None:
    delivery = decided()
    settings.HITL = settings.HITL | {"HMAC_SECRET": "changeme"}
    assert not deliver(delivery)
    assert "HMAC_SECRET" in delivery.last_error
    assert receiver.calls == []


@pytest.mark.promise("C1")
def test_while_keys_rotate_both_sign(receiver: Receiver, settings: Any) -> None:
    settings.HITL = settings.HITL | {"HMAC_SECRET": ["n" * 40, "o" * 40]}
    assert deliver(decided())
    [call] = receiver.calls
    for secret in ("n" * 40, "o" * 40):
        assert Webhook(signing.shared_form(signing.derive(secret))).verify(call.body, call.headers)
    assert call.headers["webhook-signature"].count("v1,") == 2


# ── The lease ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("C1")
def test_a_worker_that_dies_leaves_a_lease_that_lapses(receiver: Receiver) -> None:
    delivery = decided()
    dead = deliveries.claim(delivery.id)
    assert dead is not None
    assert deliveries.owing() == []
    assert not deliver(delivery)
    clock.advance(minutes=5)
    assert deliveries.owing() == [delivery.id]
    assert deliver(delivery)
    assert not deliveries.note(dead, "too late"), "it lost its lease"
    delivery.refresh_from_db()
    assert (delivery.status, delivery.last_error) == ("delivered", "")


@pytest.mark.promise("C1")
def test_attempts_that_kill_their_worker_are_bounded(receiver: Receiver, settings: Any) -> None:
    settings.HITL = settings.HITL | {"CALLBACK_ATTEMPTS_MAX": 3}
    delivery = decided()
    for _ in range(3):
        assert deliveries.claim(delivery.id) is not None
        clock.advance(minutes=5)
    assert not posting.deliver(delivery.id)
    delivery.refresh_from_db()
    assert (delivery.status, receiver.calls) == ("dead", [])
    invariants.check()


@pytest.mark.promise("C1")
def test_an_unknown_callback_is_left_alone() -> None:
    unknown = UUID(int=7)
    assert not posting.deliver(unknown)
    assert not deliveries.resend(unknown, actor="ana", channel="cli")
    assert Park.objects.count() == 0
