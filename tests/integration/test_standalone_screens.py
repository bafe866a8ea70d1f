"""Standalone requests in the admin: the page, the edit of the payload, the callbacks."""

import html
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from hitl import approval, clock, values
from hitl.callbacks import deliveries
from hitl.models import CallbackDelivery, Decision, Park
from hitl.payload_forms import PayloadForm
from tests.integration.admin_site import Document, address, boss, page, person, said

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("clock")]

PAYLOAD = {"order": "o17", "amount": 249.0, "big": 9007199254740993, "note": "<b>x</b>\u202e"}
LIST = "/admin/hitl/callbackdelivery/"


def asked(**more: Any) -> Park:
    given: dict[str, Any] = {"topic": "refund", "payload": PAYLOAD, "on_decide": "/decide/?k=1"}
    return Park.objects.get(id=approval.request(**(given | more)).approval_id)


def callback(park: Park) -> CallbackDelivery:
    return CallbackDelivery.objects.get(park=park)


def dead(park: Park) -> CallbackDelivery:
    """Decide a request whose callback has been given up."""
    approval.cancel(park.id)
    found = callback(park)
    CallbackDelivery.objects.filter(id=found.id).update(
        status="dead", next_attempt_at=None, attempts=12, last_error="The receiver answered 500."
    )
    found.refresh_from_db()
    return found


def edit(client: Client, park: Park, *, seen: str | None = None, **changed: str) -> Any:
    """Send the form of the payload with these values changed."""
    form = PayloadForm(payload=Park.objects.get(id=park.id).arguments)
    data = {row.field.name: changed.get(row.name, row.field.value()) for row in form.rows}
    data["seen"] = seen or form["seen"].value()
    return client.post(reverse("admin:hitl_park_edit", args=[park.id]), data, follow=True)


def text(response: HttpResponse) -> str:
    return " ".join(Document(response).text.split())


# ── The page ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("U2", "I1", "U5")
def test_the_page_shows_the_payload_in_full_and_who_is_told() -> None:
    park = asked(title="Refund 249 €?", description="It arrived broken.")
    shown = boss().get(page(park))
    words = text(shown)
    for expected in (
        "Refund 249 €?",
        "A program asks about refund",
        "It arrived broken.",
        "Payload as JSON, in full",
        "9007199254740993",
        "249.0",
        "Waits The decision will be sent to /decide/?…",
        "Whoever asked is told yes, and gets exactly this payload.",
    ):
        assert expected in words, expected
    assert "<b>x</b>⟨U+202E⟩" in words
    for wrong in ("The tool", "wants to run", "Arguments", "open the thread", "Answer with"):
        assert wrong not in words, wrong
    assert "k=1" not in shown.content.decode()


@pytest.mark.promise("U1", "I1")
def test_the_inbox_lists_it_among_the_others() -> None:
    asked(title="Refund 249 €?")
    words = text(boss().get("/admin/hitl/park/"))
    assert "Refund 249 €?" in words
    assert "refund" in words


@pytest.mark.promise("U2", "I6")
def test_approving_in_the_admin_approves_what_was_seen() -> None:
    park, client = asked(), boss()
    [seen] = {
        attrs["value"]
        for attrs in Document(client.get(page(park))).all("input")
        if attrs.get("name") == "seen"
    }
    assert seen == values.digest(PAYLOAD)
    edit(person("ed", "hitl.view_park", "hitl.edit_park"), park, amount="1.0")
    late = client.post(address(park, "approve"), {"seen": seen}, follow=True)
    [(level, message)] = said(late)
    assert (level, "changed after you looked" in message) == ("error", True)
    assert Park.objects.get(id=park.id).is_pending
    fresh = {"seen": values.digest(PAYLOAD | {"amount": 1.0}), "reason": "fine"}
    [(level, message)] = said(client.post(address(park, "approve"), fresh, follow=True))
    assert (level, message) == ("success", "Approved. Whoever asked is told so.")


@pytest.mark.promise("I1")
@pytest.mark.parametrize("act", ["answer"])
def test_what_makes_no_sense_for_it_cannot_be_done(act: str) -> None:
    park = asked()
    written = {"reason": "", "result": "x", "kind": "text"}
    assert boss().post(address(park, act), written).status_code == 403
    assert Park.objects.get(id=park.id).is_pending


# ── Editing ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("I6", "I2", "U2")
def test_a_reviewer_changes_the_payload_and_the_page_shows_both() -> None:
    park, client = asked(), boss()
    answer = edit(client, park, amount="100.0")
    assert said(answer) == [("success", "Changed. The requester will get this payload.")]
    changed = Park.objects.get(id=park.id)
    assert values.dumps(changed.arguments) == values.dumps(PAYLOAD | {"amount": 100.0})
    words = text(answer)
    assert "What was asked first, before it was changed" in words
    assert "Edited by boss" in words
    row = Decision.objects.get(park=park, verb="edited")
    assert (row.actor, row.channel) == ("boss", "admin")


@pytest.mark.promise("I6")
def test_a_value_that_makes_no_sense_is_sent_back_with_what_was_written() -> None:
    park = asked()
    answer = edit(boss(), park, amount="a lot", order="o99")
    assert answer.status_code == 400
    body = html.unescape(answer.content.decode())
    assert "a lot" in body
    assert "o99" in body
    assert "not valid JSON" in body
    assert Park.objects.get(id=park.id).arguments == PAYLOAD


@pytest.mark.promise("I6", "U6")
def test_only_a_holder_of_the_permission_sees_the_form_and_edits() -> None:
    park = asked()
    viewer = person("vera", "hitl.view_park", "hitl.decide_park")
    assert 'id="edit"' not in viewer.get(page(park)).content.decode()
    assert edit(viewer, park, amount="1.0").status_code == 403
    assert edit(person("nobody"), park, amount="1.0").status_code == 404
    editor = person("ed", "hitl.view_park", "hitl.edit_park")
    assert 'id="edit"' in editor.get(page(park)).content.decode()
    where = reverse("admin:hitl_park_edit", args=[park.id])
    assert editor.get(where).status_code == 405
    assert Client().post(where).status_code == 302
    assert Client(enforce_csrf_checks=True).post(where).status_code in (302, 403)
    assert Park.objects.get(id=park.id).arguments == PAYLOAD
    assert not Decision.objects.filter(verb="edited").exists()


@pytest.mark.promise("I6", "U3")
@pytest.mark.parametrize("how", ["decided", "overdue", "edited"])
def test_a_late_edit_is_told_that_it_is_late(how: str) -> None:
    park, client = asked(timeout="1h"), boss()
    if how == "decided":
        approval.cancel(park.id)
    elif how == "overdue":
        clock.advance(hours=2)
    else:
        edit(client, park, order="o1")
    answer = edit(client, park, seen=values.digest(PAYLOAD), amount="1.0")
    [(level, message)] = said(answer)
    assert (level, message.startswith("Too late")) == ("warning", True)


# ── Callbacks ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("C1", "I2", "U2")
def test_a_dead_letter_shows_on_its_page_and_in_the_list_and_is_sent_again() -> None:
    park, client = asked(title="Refund?"), boss()
    delivery = dead(park)
    assert "Given up after 12 attempts to reach /decide/?…" in text(client.get(page(park)))
    listed = text(client.get(LIST))
    for expected in ("Refund?", "/decide/?…", "Given up", "The receiver answered 500."):
        assert expected in listed
    where = reverse("admin:hitl_callbackdelivery_resend", args=[delivery.id])
    answer = client.post(where, follow=True)
    assert said(answer) == [("success", "The callback is sent again.")]
    assert "To be sent" in text(answer)
    assert "Callback ordered again by boss" in text(answer)
    assert deliveries.owing() == [delivery.id]
    assert "No callback has been given up." in text(client.get(LIST))
    assert "Refund?" in text(client.get(f"{LIST}?status=owed"))
    assert "No such callbacks." in text(client.get(f"{LIST}?status=delivered"))


@pytest.mark.promise("U6", "C1")
def test_only_a_holder_of_the_permission_sends_again() -> None:
    park = asked()
    delivery = dead(park)
    where = reverse("admin:hitl_callbackdelivery_resend", args=[delivery.id])
    viewer = person("vera", "hitl.view_park", "hitl.view_callbackdelivery")
    assert "Send it again" not in viewer.get(page(park)).content.decode()
    assert viewer.get(LIST).status_code == 200
    assert viewer.post(where).status_code == 403
    assert person("nobody").post(where).status_code == 404
    assert person("nina", "hitl.view_park").get(LIST).status_code == 403
    sender = person("sam", "hitl.view_park", "hitl.resend_callbackdelivery")
    assert sender.get(where).status_code == 405
    assert Client().post(where).status_code == 302
    assert sender.post(f"{LIST}x/resend/").status_code == 404
    assert callback(park).status == "dead"
    assert sender.post(where).status_code == 302
    assert callback(park).status == "owed"


@pytest.mark.promise("C1")
def test_a_request_without_a_callback_says_so() -> None:
    words = text(boss().get(page(asked(on_decide=None))))
    assert "Nobody asked to be called." in words


@pytest.mark.promise("U6")
def test_a_callback_has_no_page_of_its_own() -> None:
    park = asked()
    client = boss()
    for rest in (f"{callback(park).id}/change/", f"{callback(park).id}/delete/", "add/"):
        assert client.get(LIST + rest).status_code == 404
