"""Several requests in the admin, extending, approvers on the page, evidence, what few may see."""

import json
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from django.urls import reverse

import hitl
from agents import requires_confirmation, tool
from agents.testing import call, run_worker
from hitl.models import Decision, Park, Verb
from tests.desk import Desk
from tests.integration.admin_site import Document, address, boss, page, person, said

VIEW, DECIDE, EXTEND = (f"hitl.{act}_park" for act in ("view", "decide", "extend"))
SEVERAL = reverse("admin:hitl_park_several")
UNKNOWN = "0198a000-0000-7000-8000-000000000000"


def parked(desk: Desk, count: int = 3, **gate: Any) -> list[Park]:
    desk.open([call("send", to=f"{n}") for n in range(count)], "Done.", tools=desk.tools(**gate))
    return desk.parks()


def confirmed(parks: list[Park], decision: str = "approve", **more: Any) -> dict[str, Any]:
    """Return what the page of several sends once its reader confirms."""
    return {
        "decision": decision,
        "request": [str(park.id) for park in parks],
        "confirmed": "yes",
        **{f"seen-{park.id}": park.digest for park in parks},
        **more,
    }


# ── Several ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("I11")
def test_what_was_ticked_is_shown_in_full_before_anything_is_decided(desk: Desk) -> None:
    parks = parked(desk)
    ticked = {"decision": "approve", "request": [str(park.id) for park in parks[:2]]}
    response = boss().post(SEVERAL, ticked)
    shown = Document(response)
    assert "Approve 2 requests?" in shown.text
    assert '"to": "0"' in shown.text
    assert '"to": "2"' not in shown.text
    seen = {attrs["name"]: attrs.get("value") for attrs in shown.all("input") if attrs.get("name")}
    assert seen[f"seen-{parks[0].id}"] == parks[0].digest
    assert len(desk.pending) == 3


@pytest.mark.promise("I11", "I2")
def test_each_has_its_own_result(desk: Desk) -> None:
    first, second, third = parked(desk)
    hitl.decide(second.id, False)
    sent = confirmed([first, second, third], reason="fine")
    sent["request"].append(UNKNOWN)
    text = Document(boss().post(SEVERAL, sent)).text
    assert "2 of 4 approved" in text
    assert "This request was already answered." in text
    assert "No such request is waiting." in text
    run_worker()
    assert desk.effects == ["send 0 1", "send 2 1"]
    rows = Decision.objects.filter(verb=Verb.APPROVED, actor="boss", channel="admin")
    assert [row.reason for row in rows] == ["fine", "fine"]


@pytest.mark.promise("I11", "A7")
def test_several_are_denied(desk: Desk) -> None:
    parks = parked(desk)
    assert "3 of 3 denied" in Document(boss().post(SEVERAL, confirmed(parks, "deny"))).text
    run_worker()
    assert desk.effects == []


@pytest.mark.promise("I11", "M4")
def test_nothing_is_decided_that_was_not_shown_as_it_is(desk: Desk) -> None:
    [park] = parked(desk, 1)
    for seen in ("sha256:other", ""):
        boss_sent = confirmed([park]) | {f"seen-{park.id}": seen}
        client = Client()
        client.force_login(User.objects.get_or_create(username="b", is_superuser=True)[0])
        User.objects.filter(username="b").update(is_staff=True)
        assert "0 of 1 approved" in Document(client.post(SEVERAL, boss_sent)).text
    assert Park.objects.get(id=park.id).is_pending


@pytest.mark.promise("I11", "U6")
def test_several_take_the_permission_and_a_sane_form(desk: Desk) -> None:
    parks = parked(desk)
    assert person("viewer", VIEW).post(SEVERAL, confirmed(parks)).status_code == 403
    assert person("blind", DECIDE).post(SEVERAL, confirmed(parks)).status_code == 403
    client = boss()
    for wrong in (
        {},
        {"decision": "approve"},
        {"decision": "maybe", "request": [str(parks[0].id)]},
        {"decision": "approve", "request": [str(n) for n in range(51)]},
    ):
        assert client.post(SEVERAL, wrong).status_code == 400
    assert client.get(SEVERAL).status_code == 405
    junk = {"decision": "approve", "request": ["\0", "x" * 5000, "<b>"], "confirmed": "yes"}
    assert client.post(SEVERAL, junk).status_code == 200
    assert len(desk.pending) == 3


@pytest.mark.promise("I11", "U6")
def test_boxes_are_for_those_who_may_decide(desk: Desk) -> None:
    parked(desk)
    inbox = reverse("admin:hitl_park_changelist")

    def boxes(client: Client, query: str = "") -> int:
        inputs = Document(client.get(inbox + query)).all("input")
        return sum(attrs.get("name") == "request" for attrs in inputs)

    assert boxes(person("viewer", VIEW)) == 0
    assert boxes(person("decider", VIEW, DECIDE)) == 3
    assert boxes(boss(), "?status=all") == 0


# ── Extending, approvers ─────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("E10", "U2")
def test_the_page_gives_more_time(desk: Desk) -> None:
    [park] = parked(desk, 1)
    client = person("ana", VIEW, EXTEND)
    assert "Give more time" in Document(client.get(page(park))).text
    response = client.post(address(park, "extend"), {"by": "4h", "reason": "later"}, follow=True)
    assert said(response) == [("success", "Extended. The new deadline is shown.")]
    row = Decision.objects.get(verb=Verb.EXTENDED)
    assert (row.actor, row.channel, row.reason) == ("ana", "admin", "later")
    assert client.post(address(park, "extend"), {"by": "9d"}).status_code == 400
    assert person("eve", VIEW).post(address(park, "extend"), {"by": "4h"}).status_code == 403


@pytest.mark.promise("I8", "U2")
def test_the_page_says_who_has_to_approve_and_offers_it_to_them_alone(desk: Desk) -> None:
    [park] = parked(desk, 1, approver={"group:finance": 2})
    eve = person("eve", VIEW, DECIDE)
    shown = Document(eve.get(page(park)))
    assert "2 of group finance" in shown.text
    assert "Only group finance may decide this request." in shown.text
    assert address(park, "approve") not in [form.get("action") for form in shown.all("form")]
    response = eve.post(address(park, "approve"), follow=True)
    assert said(response)[0][0] == "error"
    for name in ("ana", "ben"):
        client = person(name, VIEW, DECIDE)
        User.objects.get(username=name).groups.add(Group.objects.get_or_create(name="finance")[0])
        response = client.post(address(park, "approve"), follow=True)
        if name == "ana":
            assert said(response) == [("success", "Counted. Still needed: 1 of group finance.")]
            assert "Still needed: 1 of group finance" in Document(response).text
    assert Park.objects.get(id=park.id).status == "approved"


# ── Evidence, redaction ──────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("I12", "U6")
def test_the_evidence_is_for_those_who_may_see_the_trail(desk: Desk) -> None:
    [park] = parked(desk, 1)
    url = reverse("admin:hitl_park_evidence", args=[park.id])
    auditor = person("auditor", VIEW, "hitl.view_decision")
    assert url in [link.get("href") for link in Document(auditor.get(page(park))).all("a")]
    response = auditor.get(url)
    assert response["Content-Type"] == "application/json"
    assert json.loads(response.content)["request_id"] == str(park.id)
    assert person("viewer", VIEW).get(url).status_code == 403
    assert person("nobody").get(url).status_code == 404
    assert auditor.post(url).status_code == 405
    assert auditor.get(reverse("admin:hitl_park_evidence", args=[UNKNOWN])).status_code == 404


@pytest.mark.promise("O6", "U6")
def test_a_redacted_value_is_shown_to_those_who_may_see_it(desk: Desk) -> None:
    @requires_confirmation(redact=["card"])
    @tool
    def pay(card: str, amount: float) -> str:
        """Pay."""
        return "paid"

    desk.open([call("pay", card="4111111111111111", amount=1.0)], "Done.", tools=[pay])
    [park] = desk.parks()
    assert "4111" not in person("ana", VIEW, DECIDE).get(page(park)).content.decode()
    shown = person("eve", VIEW, "hitl.reveal_park").get(page(park)).content.decode()
    assert "4111111111111111" in shown
    assert "Hidden from others" in shown
    thread = reverse("admin:agents_thread_change", args=[desk.thread.id])
    assert "4111" not in boss().get(thread).content.decode()


@pytest.mark.promise("A9", "U2")
def test_the_page_shows_what_a_reviewer_changed(desk: Desk) -> None:
    [park] = parked(desk, 1, editable=True)
    hitl.decide(park.id, True, arguments={"to": "ben"})
    text = Document(boss().get(page(park))).text
    assert "What a reviewer changed" in text
    assert '"0"' in text
    assert '"ben"' in text
