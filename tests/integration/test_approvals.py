"""Standalone requests: opened once, read, edited, withdrawn, decided, expired."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import transaction

import hitl
from agents.testing import call
from hitl import approval, clock, editing, pages, sweeping, values
from hitl.errors import HitlError
from hitl.models import CallbackDelivery, Decision, Park
from hitl.trail import evidence
from tests import invariants
from tests.desk import Desk

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("clock")]

PAYLOAD = {"order_id": "o1", "amount": 249.0, "big": 9007199254740993}


def ask(**more: Any) -> approval.Entry:
    given: dict[str, Any] = {"topic": "refund", "payload": PAYLOAD} | more
    return approval.request(**given)


def trail(entry: approval.Entry) -> list[tuple[str, str, bool]]:
    rows = Decision.objects.filter(park_id=entry.approval_id).order_by("id")
    return [(row.verb, row.channel, row.system) for row in rows]


def edit(entry: approval.Entry, payload: Any, *, seen: Any = None) -> hitl.Answer:
    seen = values.digest(entry.payload if seen is None else seen)
    return editing.edit(entry.approval_id, payload, seen=seen, actor="ana", channel="admin")


# ── Asking ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("I3", "I1", "E1")
def test_a_request_is_a_pending_entry_with_a_day_to_answer() -> None:
    entry = ask(title="Approve?", description="Broken.", metadata={"a": 1}, on_decide="/decide/")
    assert (entry.status, entry.topic, entry.title) == ("pending", "refund", "Approve?")
    assert (entry.payload, entry.metadata, entry.decision) == (PAYLOAD, {"a": 1}, None)
    assert entry.expires_at == entry.created_at + timedelta(hours=24)
    assert approval.get(entry.approval_id) == entry
    [open_here] = hitl.pending(entry.approval_id)
    assert open_here.arguments == PAYLOAD
    assert trail(entry) == [("opened", "python", False)]
    invariants.check()


@pytest.mark.promise("A13", "I3")
def test_a_request_joins_the_transaction_of_its_caller() -> None:
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        ask()
        raise ZeroDivisionError
    assert not Park.objects.exists()
    assert not CallbackDelivery.objects.exists()


BAD: dict[str, Any] = {
    "topic": ["", "  ", None, 7, "x" * 101],
    "payload": [object(), {"a": "x" * 300_000}],
    "title": [7, "x" * 201],
    "description": ["x" * 4001],
    "on_decide": ["", "decide", "//evil.example.com/", "https://evil.example.com/", 7],
    "timeout": ["soon", "0s", -1, float("nan"), "99999d", True],
    "on_timeout": ["approved", "APPROVE", None, ""],
    "idempotency_key": ["", 7, "x" * 201],
    "metadata": [[1], "x", {"a": "x" * 20_000}],
    "approver": ["ana", 7, {}, {"group:legal": 0}],
}


@pytest.mark.promise("I3", "E9", "C5")
@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, found in BAD.items() for value in found]
)
def test_bad_input_is_refused_before_any_row(name: str, value: Any) -> None:
    with pytest.raises(approval.ApprovalInvalidRequest, match=name) as refused:
        ask(**{name: value})
    assert refused.value.code == "approval_invalid_request"
    assert isinstance(refused.value, HitlError)
    assert not Park.objects.exists()


@pytest.mark.promise("C4")
@pytest.mark.parametrize("secret", ["", "   ", "changeme", [], ["", "secret"]])
def test_without_a_key_no_callback_can_be_asked_for(settings: Any, secret: Any) -> None:
    settings.HITL = settings.HITL | {"HMAC_SECRET": secret}
    with pytest.raises(approval.ApprovalSigningKeyMissing) as refused:
        ask(on_decide="/decide/")
    assert refused.value.code == "approval_signing_key_missing"
    assert not Park.objects.exists()
    assert ask().status == "pending"


@pytest.mark.promise("I7")
def test_the_same_key_gives_the_same_entry() -> None:
    """Field report ADM-04."""
    first = ask(idempotency_key="k1", timeout="1h")
    assert ask(idempotency_key="k1", timeout="1h") == first
    assert edit(first, {"order_id": "o2"}).delivered
    hitl.decide(first.approval_id, False)
    assert ask(idempotency_key="k1", timeout="1h").status == "rejected"
    assert ask(idempotency_key="k2").approval_id != first.approval_id
    assert Park.objects.count() == 2


@pytest.mark.promise("I7")
@pytest.mark.parametrize(
    "more",
    [
        {"payload": {"order_id": "o2"}},
        {"topic": "other"},
        {"timeout": "2h"},
        {"on_timeout": "approve"},
        {"metadata": {"a": 1}},
        {"on_decide": "/decide/"},
        {"title": "Another"},
    ],
)
def test_the_same_key_for_something_else_is_an_error(more: dict[str, Any]) -> None:
    ask(idempotency_key="k1")
    with pytest.raises(approval.ApprovalInvalidRequest, match="k1"):
        ask(idempotency_key="k1", **more)
    assert Park.objects.count() == 1


# ── Reading ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("I3")
@pytest.mark.parametrize("name", ["nope", "", "0198c0de-0000-7000-8000-000000000000", None, 7])
def test_an_unknown_id_is_not_found(name: Any) -> None:
    for act in (approval.get, approval.cancel):
        with pytest.raises(approval.ApprovalNotFound) as refused:
            act(name)
        assert refused.value.code == "approval_not_found"


@pytest.mark.promise("I3")
def test_the_list_comes_newest_first_and_goes_on_by_its_cursor() -> None:
    ids = [ask(topic=f"t{n % 2}", timeout=f"{9 - n}h").approval_id for n in range(5)]
    first = approval.list(limit=2)
    second = approval.list(limit=2, cursor=first.next_cursor)
    last = approval.list(limit=2, cursor=second.next_cursor)
    assert last.next_cursor is None
    found = [entry.approval_id for page in (first, second, last) for entry in page]
    assert found == ids[::-1]
    assert [entry.approval_id for entry in approval.list(topic="t1")] == [ids[3], ids[1]]
    approval.cancel(ids[0])
    assert len(approval.list()) == 4
    assert [entry.approval_id for entry in approval.list(status="cancelled")] == [ids[0]]
    assert len(approval.list(status=None)) == len(approval.list("all")) == 5


@pytest.mark.promise("I3")
@pytest.mark.parametrize(
    "bad", [{"status": "open"}, {"limit": 0}, {"limit": 201}, {"limit": "2"}, {"cursor": "x"}]
)
def test_a_list_that_is_not_understood_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(approval.ApprovalInvalidRequest):
        approval.list(**bad)


# ── Deciding ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("I1", "I2", "C3")
@pytest.mark.parametrize(("approved", "status"), [(True, "approved"), (False, "rejected")])
def test_a_decision_carries_payload_approver_and_reason(approved: bool, status: str) -> None:
    entry = ask()
    answer = hitl.decide(entry.approval_id, approved, reason="called her", actor="ana")
    assert answer.delivered
    found = approval.get(entry.approval_id)
    assert found.status == status
    told = found.decision
    assert told is not None
    assert (told.status, told.approved, told.payload) == (status, approved, PAYLOAD)
    assert (told.approver, told.reason, told.timed_out) == ("ana", "called her", False)
    assert (told.approval_id, told.topic) == (entry.approval_id, "refund")
    late = hitl.decide(entry.approval_id, not approved, actor="ben")
    assert (late.delivered, late.code) == (False, "already_answered")
    assert approval.get(entry.approval_id) == found
    invariants.check()


@pytest.mark.promise("I6")
def test_a_payload_given_with_the_answer_is_what_the_requester_gets() -> None:
    entry = ask()
    hitl.decide(entry.approval_id, True, payload={"amount": 1}, actor="ana")
    found = approval.get(entry.approval_id)
    assert found.decision is not None
    assert (found.decision.payload, found.payload) == ({"amount": 1}, PAYLOAD)
    assert trail(entry)[-1][0] == "approved"


@pytest.mark.promise("I3", "E2", "C3")
def test_a_deadline_that_means_no_is_nobodys_no() -> None:
    entry = ask(timeout="1h")
    clock.advance(hours=2)
    late = hitl.decide(entry.approval_id, True, actor="ana")
    assert (late.delivered, late.code) == (False, "expired")
    found = approval.get(entry.approval_id)
    assert found.status == "timed_out"
    told = found.decision
    assert told is not None
    assert (told.status, told.timed_out, told.approved) == ("timed_out", True, False)
    assert (told.payload, told.approver, told.reason) == (None, None, None)
    assert ("expired", "python", True) in trail(entry)
    invariants.check()


@pytest.mark.promise("I3", "I2", "E2", "W5")
def test_a_deadline_that_means_yes_is_the_systems_yes() -> None:
    entry = ask(timeout="1h", on_timeout="approve")
    assert sweeping.settle_due() == 0
    clock.advance(hours=2)
    assert sweeping.settle_due() == 1
    found = approval.get(entry.approval_id)
    assert found.status == "approved"
    told = found.decision
    assert told is not None
    assert (told.status, told.timed_out, told.payload) == ("approved", True, PAYLOAD)
    assert told.approver == "system"
    row = Decision.objects.get(park_id=entry.approval_id, verb="approved")
    assert (row.system, row.actor) == (True, "system")
    assert not hitl.decide(entry.approval_id, False, actor="ana").delivered
    invariants.check()


@pytest.mark.promise("E1", "I3")
def test_only_ignore_waits_for_ever() -> None:
    entry = ask(timeout="1h", on_timeout="ignore")
    assert entry.expires_at is None
    clock.advance(days=4000)
    assert sweeping.settle_due() == 0
    assert hitl.decide(entry.approval_id, True).delivered


@pytest.mark.promise("I4", "C3")
def test_a_cancelled_entry_says_why() -> None:
    entry = ask(metadata={"a": 1})
    found = approval.cancel(entry.approval_id, "already refunded")
    assert (found.status, found.metadata) == (
        "cancelled",
        {"a": 1, "cancel_reason": "already refunded"},
    )
    told = found.decision
    assert told is not None
    assert (told.status, told.payload, told.approver, told.reason) == ("cancelled",) + (None,) * 3
    assert approval.cancel(entry.approval_id, "again") == found
    invariants.check()


@pytest.mark.promise("I4")
def test_cancelling_what_is_decided_changes_nothing_and_is_no_error() -> None:
    entry = ask()
    hitl.decide(entry.approval_id, True)
    before = approval.get(entry.approval_id)
    assert approval.cancel(entry.approval_id, "too late") == before
    assert "cancel_reason" not in before.metadata


# ── Editing ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("I6", "I2")
def test_the_requester_gets_the_edited_payload() -> None:
    entry = ask()
    edited = {**PAYLOAD, "amount": 100}
    assert edit(entry, edited).delivered
    assert approval.get(entry.approval_id).payload == edited
    row = Decision.objects.get(park_id=entry.approval_id, verb="edited")
    assert row.detail == {"from": values.digest(PAYLOAD), "digest": values.digest(edited)}
    assert (row.actor, row.channel, row.system) == ("ana", "admin", False)
    assert edit(entry, PAYLOAD | {"amount": 1}, seen=edited).delivered
    assert Park.objects.get(id=entry.approval_id).proposed == PAYLOAD
    hitl.decide(entry.approval_id, True)
    told = approval.get(entry.approval_id).decision
    assert told is not None
    assert told.payload == PAYLOAD | {"amount": 1}


@pytest.mark.promise("I6", "A2")
def test_an_edit_of_what_somebody_has_edited_meanwhile_is_refused() -> None:
    entry = ask()
    assert edit(entry, {"amount": 1}).delivered
    late = edit(entry, {"amount": 2})
    assert (late.delivered, late.code) == (False, "changed")
    assert approval.get(entry.approval_id).payload == {"amount": 1}
    assert trail(entry)[-1][0] == "refused"


@pytest.mark.promise("I6", "M4", "A2")
def test_nobody_approves_what_they_have_not_seen() -> None:
    entry, seen = ask(), values.digest(PAYLOAD)
    edit(entry, {"amount": 1})
    late = hitl.decide(entry.approval_id, True, seen=seen, actor="ben")
    assert (late.delivered, late.code) == (False, "changed")
    assert approval.get(entry.approval_id).status == "pending"
    assert hitl.decide(entry.approval_id, True, seen=values.digest({"amount": 1})).delivered


@pytest.mark.promise("I6", "E6")
def test_what_is_settled_or_overdue_is_not_edited() -> None:
    entry = ask(timeout="1h")
    clock.advance(hours=2)
    assert edit(entry, {}).code == "expired"
    other = ask()
    hitl.decide(other.approval_id, True)
    assert edit(other, {}).code == "already_answered"
    assert approval.get(other.approval_id).payload == PAYLOAD


@pytest.mark.promise("I6")
def test_an_edit_that_changes_nothing_writes_nothing() -> None:
    entry = ask()
    assert edit(entry, dict(PAYLOAD)).delivered
    assert trail(entry) == [("opened", "python", False)]


# ── Beside the rest of the house ─────────────────────────────────────────────────────────────────


def person(name: str, *codenames: str) -> User:
    user = User.objects.create_user(name)
    user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    return user


@pytest.mark.promise("I3", "I8")
def test_only_the_approver_that_was_named_decides() -> None:
    ana = person("ana", "view_park", "decide_park")
    entry = ask(approver="user:ana")
    boss = User.objects.create_superuser("boss")
    refused = hitl.decide(entry.approval_id, True, actor=boss)
    assert (refused.delivered, refused.code) == (False, "not_an_approver")
    assert hitl.decide(entry.approval_id, True, actor=ana).delivered


@pytest.mark.promise("I8", "I6")
def test_a_vote_for_a_payload_that_was_edited_does_not_count_any_more() -> None:
    first, second = (person(name, "view_park", "decide_park") for name in ("ana", "ben"))
    entry = ask(approver={"user:ana": 1, "user:ben": 1})
    assert hitl.decide(entry.approval_id, True, actor=first).code == "counted"
    assert edit(entry, {"amount": 1}).delivered
    assert hitl.decide(entry.approval_id, True, actor=second).code == "counted"
    seen = values.digest(PAYLOAD)
    assert hitl.decide(entry.approval_id, True, actor=first, seen=seen).code == "changed"
    assert approval.get(entry.approval_id).status == "pending"
    assert hitl.decide(entry.approval_id, True, actor=first).delivered
    assert approval.get(entry.approval_id).status == "approved"


@pytest.mark.promise("I6", "A9")
def test_arguments_given_with_a_yes_are_what_the_requester_gets() -> None:
    entry = ask()
    hitl.decide(entry.approval_id, True, arguments={"amount": 7.0}, actor="ana")
    told = approval.get(entry.approval_id).decision
    assert told is not None
    assert told.payload == {"amount": 7.0}
    assert Park.objects.get(id=entry.approval_id).proposed == PAYLOAD


@pytest.mark.promise("I12", "I2")
def test_its_evidence_tells_how_far_the_callback_got() -> None:
    entry = ask(on_decide="/decide/?token=secret")
    hitl.decide(entry.approval_id, True, actor="ana")
    found = evidence.of(Park.objects.get(id=entry.approval_id))
    assert "owed" in values.dumps(found)
    assert "token=secret" not in values.dumps(found)


@pytest.mark.promise("I3", "S4")
def test_a_gate_of_an_agent_is_no_standalone_request(desk: Desk) -> None:
    """One inbox holds both; `hitl.approval` looks after its own."""
    entry = ask()
    desk.open([call("send", to="ana")], "Done.")
    [gate] = desk.pending
    for act in (approval.get, approval.cancel):
        with pytest.raises(approval.ApprovalNotFound):
            act(gate.request_id)
    assert [one.approval_id for one in approval.list(status="all")] == [entry.approval_id]
    assert len(pages.page(status="all").parks) == 2
    answer = editing.edit(gate.request_id, {}, seen="", actor="ana", channel="admin")
    assert answer.code == "not_found"
    assert len(desk.pending) == 1
