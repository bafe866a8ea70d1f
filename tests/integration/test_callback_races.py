"""Standalone requests under races: one entry per key, one decision, one POST at a time.

Real threads on real PostgreSQL, staged at fault points or started at one barrier.
"""

import threading
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

import hitl
from hitl import approval, clock, editing, parks, values
from hitl.callbacks import deliveries, posting
from hitl.models import CallbackDelivery, Decision, Park
from tests import invariants
from tests.integration import racing
from tests.integration.staging import Crew, Hold, crew

pytestmark = [pytest.mark.services, pytest.mark.timeout(300)]

PAYLOAD = {"amount": 250}


@pytest.fixture(autouse=True)
def _database(transactional_db: None) -> Iterator[None]:
    racing.needs_postgresql()
    yield
    clock.reset()


@pytest.fixture
def hands() -> Iterator[Crew]:
    with crew() as made:
        yield made


class Receiver:
    """Who is told: counts what comes, from whatever thread."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self._lock = threading.Lock()

    def __call__(self, destination: Any, body: bytes, signed: dict[str, str]) -> None:
        with self._lock:
            self.ids.append(signed["webhook-id"])


def ask(**more: Any) -> approval.Entry:
    given: dict[str, Any] = {"topic": "refund", "payload": PAYLOAD, "on_decide": "/decide/"}
    return approval.request(**(given | more))


def verbs(entry: approval.Entry) -> Counter[str]:
    rows = Decision.objects.filter(park_id=entry.approval_id)
    return Counter(rows.values_list("verb", flat=True))


def callback(entry: approval.Entry) -> CallbackDelivery:
    return CallbackDelivery.objects.get(park_id=entry.approval_id)


@pytest.mark.promise("I7")
def test_ten_requests_with_one_key_open_one_entry(hands: Crew) -> None:
    for n in range(10):
        found = hands.together(*[partial(ask, idempotency_key=f"k{n}")] * 10)
        assert len({entry.approval_id for entry in found}) == 1
    assert Park.objects.count() == CallbackDelivery.objects.count() == 10
    invariants.check()


@pytest.mark.promise("I7")
def test_another_content_under_a_key_that_is_being_used_is_refused(hands: Crew) -> None:
    """The second waits for the first to commit, and is then told."""
    hold = Hold("callback:made")
    first = hands.start(partial(ask, idempotency_key="k"), holds=[hold])
    hold.wait_for_it()
    second = hands.start(partial(ask, idempotency_key="k", payload={"amount": 1}))
    assert hands.until_blocked(second) == {first.backend}
    hold.let_go()
    assert first.result().status == "pending"
    with pytest.raises(approval.ApprovalInvalidRequest, match="another request"):
        second.result()
    assert Park.objects.count() == 1


@pytest.mark.promise("A2", "I1", "C1")
def test_of_twenty_answers_at_once_one_counts_and_is_told_once(hands: Crew) -> None:
    """Field report DEC-01."""
    entry, receiver = ask(), Receiver()
    answers = hands.together(
        *[partial(hitl.decide, entry.approval_id, n % 2 == 0, actor="ana") for n in range(20)]
    )
    assert [one.delivered for one in answers].count(True) == 1
    found = verbs(entry)
    assert found["approved"] + found["rejected"] == 1
    assert found["refused"] == 19
    posts = [partial(posting.deliver, callback(entry).id, send=receiver)] * 8
    assert hands.together(*posts).count(True) == 1
    assert len(receiver.ids) == 1
    assert verbs(entry)["callback_sent"] == 1
    invariants.check()


@pytest.mark.promise("A2", "I4", "E2")
def test_an_answer_a_withdrawal_and_the_deadline_settle_it_once(hands: Crew) -> None:
    ends: Counter[str] = Counter()
    for n in range(30):
        entry = ask(timeout="1h")
        if n % 3 == 0:
            clock.advance(hours=1)
        hands.together(
            partial(hitl.decide, entry.approval_id, True, actor="ana"),
            partial(approval.cancel, entry.approval_id, "gone"),
            partial(parks.expire, parks.by_id(entry.approval_id).id, channel="countdown"),
        )
        found = approval.get(entry.approval_id)
        ends[found.status] += 1
        told = found.decision
        assert told is not None
        assert told.status == found.status
        assert ("cancel_reason" in found.metadata) == (found.status == "cancelled")
        assert callback(entry).status == "owed"
    assert "pending" not in ends
    invariants.check(f"ends: {dict(ends)}")


@pytest.mark.promise("I6", "M4")
def test_an_approval_that_waits_for_an_edit_approves_nothing_unseen(hands: Crew) -> None:
    entry, hold = ask(), Hold("edit:updated")
    seen = values.digest(PAYLOAD)
    change = partial(
        editing.edit, entry.approval_id, {"amount": 1}, seen=seen, actor="ed", channel="admin"
    )
    editor = hands.start(change, holds=[hold])
    hold.wait_for_it()
    approver = hands.start(partial(hitl.decide, entry.approval_id, True, actor="ana", seen=seen))
    assert hands.until_blocked(approver) == {editor.backend}
    hold.let_go()
    assert editor.result().delivered
    assert approver.result().code == "changed"
    assert approval.get(entry.approval_id).status == "pending"
    invariants.check()


@pytest.mark.promise("I6")
def test_an_edit_that_waits_for_an_approval_comes_too_late(hands: Crew) -> None:
    entry, hold = ask(), Hold("respond:settled")
    approver = hands.start(partial(hitl.decide, entry.approval_id, True, actor="ana"), holds=[hold])
    hold.wait_for_it()
    seen = values.digest(PAYLOAD)
    change = partial(
        editing.edit, entry.approval_id, {"amount": 1}, seen=seen, actor="ed", channel="admin"
    )
    editor = hands.start(change)
    assert hands.until_blocked(editor) == {approver.backend}
    hold.let_go()
    assert approver.result().delivered
    assert editor.result().code == "already_answered"
    told = approval.get(entry.approval_id).decision
    assert told is not None
    assert told.payload == PAYLOAD


@pytest.mark.promise("I6", "A2")
def test_of_ten_edits_of_one_payload_one_counts(hands: Crew) -> None:
    entry, seen = ask(), values.digest(PAYLOAD)
    edits = [
        partial(
            editing.edit, entry.approval_id, {"amount": n}, seen=seen, actor="ed", channel="admin"
        )
        for n in range(10)
    ]
    answers = hands.together(*edits)
    assert [one.delivered for one in answers].count(True) == 1
    assert {one.code for one in answers if not one.delivered} == {"changed"}
    assert verbs(entry)["edited"] == 1


@pytest.mark.promise("C1")
def test_a_worker_that_was_slow_writes_nothing_over_the_next_one(hands: Crew) -> None:
    """Its lease lapsed while it POSTed; the next worker has POSTed and written meanwhile."""
    entry, receiver, hold = ask(), Receiver(), Hold("callback:posted")
    hitl.decide(entry.approval_id, True, actor="ana")
    one = callback(entry).id

    def fail(destination: Any, body: bytes, signed: dict[str, str]) -> posting.Refusal:
        receiver(destination, body, signed)
        return posting.Refusal("The receiver answered 500.")

    slow = hands.start(partial(posting.deliver, one, send=fail), holds=[hold])
    hold.wait_for_it()
    assert not posting.deliver(one, send=receiver), "its lease still runs"
    clock.advance(minutes=5)
    assert posting.deliver(one, send=receiver)
    hold.let_go()
    assert slow.result() is False
    assert callback(entry).status == "delivered"
    assert len(receiver.ids) == 2
    assert len(set(receiver.ids)) == 1
    assert verbs(entry)["callback_failed"] == 0
    invariants.check()


@pytest.mark.promise("C1")
def test_sending_again_while_it_is_sent_is_refused_or_comes_after(hands: Crew) -> None:
    for _ in range(20):
        entry, receiver = ask(), Receiver()
        hitl.decide(entry.approval_id, True, actor="ana")
        one = callback(entry).id
        ordered, _ = hands.together(
            partial(deliveries.resend, one, actor="ben", channel="admin"),
            partial(posting.deliver, one, send=receiver),
        )
        posting.deliver(one, send=receiver)
        assert callback(entry).status == "delivered"
        assert verbs(entry)["callback_resent"] == int(ordered)
        assert 1 <= len(receiver.ids) <= 2
    invariants.check()
