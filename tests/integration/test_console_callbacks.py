"""`manage.py hitl` and standalone requests: list, decide, who was told, telling again."""

from typing import Any

import pytest
from standardwebhooks import Webhook

import hitl
from hitl import approval, clock, keys
from hitl.models import CallbackDelivery, Decision, Park
from tests.console import raw_escapes, run
from tests.desk import Desk
from tests.integration.test_console import SEND

pytestmark = pytest.mark.django_db


def ask(**more: Any) -> str:
    given: dict[str, Any] = {
        "topic": "refund",
        "payload": {"amount": 249.0},
        "on_decide": "/d/?k=1",
    }
    return approval.request(**(given | more)).approval_id


def dead(**more: Any) -> str:
    one = ask(**more)
    hitl.decide(one, True)
    CallbackDelivery.objects.filter(park_id=one).update(
        status="dead", next_attempt_at=None, attempts=12, last_error="The receiver answered 500."
    )
    return one


@pytest.mark.promise("L1", "I1")
def test_a_standalone_request_is_listed_shown_and_decided_as_any_other() -> None:
    first, second = ask(title="Refund?"), ask()
    listed = run("list", "--json").document["requests"]
    assert {one["request_id"] for one in listed} == {first, second}
    shown = run("get", first)
    assert shown.code == 0
    for expected in ("Refund?", "249.0", "refund"):
        assert expected in shown.out
    for wrong in ("Thread", "Call  ", "runs with"):
        assert wrong not in shown.out
    told = run("approve", first, "--yes", "--reason", "fine")
    assert told.code == 0
    assert "Whoever asked is told yes" in told.out
    assert run("reject", second, "--yes", "--json").document["effect"].startswith("Whoever asked")
    third = ask()
    assert run("cancel", third, "--yes", "--reason", "gone").code == 0
    assert approval.get(third).metadata == {"cancel_reason": "gone"}
    assert run("approve", third, "--yes").code == 1


@pytest.mark.promise("C1", "L1")
def test_dead_letters_are_listed_and_sent_again() -> None:
    assert "No callback has been given up." in run("callbacks").out
    one = dead(title="\x1b[31mRed?")
    shown = run("callbacks")
    assert raw_escapes(shown.out) == []
    for expected in (one, "Given up", "/d/?…", "attempt 12: The receiver answered 500."):
        assert expected in shown.out
    [found] = run("callbacks", "--json").document["callbacks"]
    assert (found["request_id"], found["status"], found["attempts"]) == (one, "dead", 12)
    again = run("resend", one, "--json")
    assert (again.code, again.document["callbacks"]) == (
        0,
        [{"request_id": one, "ordered": True}],
    )
    assert CallbackDelivery.objects.get().status == "owed"
    row = Decision.objects.get(verb="callback_resent")
    assert (row.channel, row.system, "@" in row.actor) == ("cli", False, True)
    assert run("callbacks", "--status", "owed", "--json").document["callbacks"]
    assert "There is no such callback." in run("callbacks", "--status", "delivered").out


@pytest.mark.promise("C1", "L1")
def test_what_cannot_be_sent_again_ends_with_one(desk: Desk) -> None:
    pending, given_up = ask(), dead()
    both = run("resend", pending, given_up, "--json")
    assert both.code == 1
    assert both.document["error"]["code"] == "not_resent"
    assert [one["ordered"] for one in both.document["callbacks"]] == [False, True]
    desk.open([SEND], "Done")
    [gate] = desk.pending
    assert run("resend", str(gate.request_id)).code == 2
    assert run("resend", "x").code == 4


@pytest.mark.promise("O5", "C1")
def test_a_blanked_payload_is_not_sent_again() -> None:
    one = dead()
    Park.objects.filter(id=one).update(blanked_at=clock.now())
    assert run("resend", one).code == 1


@pytest.mark.promise("C1", "C4")
def test_the_key_is_printed_as_other_libraries_take_it(settings: Any) -> None:
    [key] = run("callback-key").out.split()
    assert Webhook(key).sign("msg_1", clock.now(), "{}").startswith("v1,")
    assert run("callback-key", "--json").document["keys"] == [key]
    settings.HITL = settings.HITL | {"HMAC_SECRET": "changeme"}
    missing = run("callback-key", "--json")
    assert (missing.code, missing.document["error"]["code"]) == (1, "approval_signing_key_missing")
    with pytest.raises(approval.ApprovalSigningKeyMissing):
        keys.current()
