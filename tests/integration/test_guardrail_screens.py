"""Guardrails in the admin: who may, the form for each check, trying a rule, and what is held."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from agents import Agent, doctor, threads, tool
from agents.guardrails import Subject, custom, guardrail_check, rulebook, trying
from agents.models import GuardrailChange, GuardrailRule
from agents.testing import ScriptedModel, call, run_worker
from tests.desk import Desk
from tests.integration.admin_site import Document, boss, page, person
from tests.integration.test_guardrails import LOOK, SECRET, limit, rule

VIEW, ADD, CHANGE, DELETE = (
    f"agents.{verb}_guardrailrule" for verb in ("view", "add", "change", "delete")
)
LIST = "admin:agents_guardrailrule_changelist"
FILLED: dict[str, dict[str, Any]] = {
    "words": {"words": "bad\r\nvery bad\r\n\r\nbad", "whole_words": "on"},
    "pattern": {"pattern": r"\bAB-\d{6}\b", "ignore_case": "on", "label": "ticket"},
    "personal_data": {"kinds": ["email", "card"], "countries": ["us"]},
    "threshold": {"path": "copies", "must_be": "at_most", "limit": "3.50", "tools": ["mail"]},
    "custom": {"function": "screened"},
}
KEPT = {
    "words": {"words": ["bad", "very bad"], "whole_words": True},
    "pattern": {"pattern": r"\bAB-\d{6}\b", "ignore_case": True, "label": "ticket"},
    "personal_data": {"kinds": ["email", "card"], "countries": ["us"]},
    "threshold": {"path": "copies", "must_be": "at_most", "limit": "3.50"},
    "custom": {"function": "screened"},
}


@pytest.fixture(autouse=True)
def _known(db: None) -> Any:
    @tool
    def mail(to: str, copies: int = 1) -> str:
        """Send a mail."""
        return "mailed"

    @guardrail_check("screened")
    def screened(subject: Subject) -> bool:
        """True when it is screened."""
        return "screen" in subject.text

    Agent("mailman", model=ScriptedModel(["Hello"]), tools=[mail])
    yield
    custom._checks.pop("screened")


def at(made: GuardrailRule, name: str = "page") -> str:
    return reverse(f"admin:agents_guardrailrule_{name}", args=[made.id])


def add(check: str = "") -> str:
    return reverse("admin:agents_guardrailrule_add") + (f"?check={check}" if check else "")


def filled(check: str, **more: Any) -> dict[str, Any]:
    where = "tool_call" if check == "threshold" else "output"
    common = {"name": "the rule", "where": where, "action": "block", "mode": "on", "order": ""}
    return common | FILLED[check] | more


@pytest.mark.promise("G1", "G4")
@pytest.mark.parametrize("check", FILLED)
def test_each_check_has_a_form_that_writes_a_rule_and_its_trail(check: str) -> None:
    client = boss()
    assert client.get(add(check)).status_code == 200
    response = client.post(add(check), filled(check), follow=True)
    made = GuardrailRule.objects.get()
    assert (made.name, made.check_name, made.settings) == ("the rule", check, KEPT[check])
    assert response.redirect_chain[-1][0] == at(made)
    assert "from the next turn on" in Document(response).text
    [change] = GuardrailChange.objects.all()
    assert (change.actor, change.channel, change.before) == ("boss", "admin", None)


@pytest.mark.promise("G1")
@pytest.mark.parametrize("check", FILLED)
def test_a_form_shows_what_was_saved_and_saving_it_again_changes_nothing(check: str) -> None:
    client = boss()
    client.post(add(check), filled(check, order="70", mode="shadow"))
    made = GuardrailRule.objects.get()
    form = client.get(at(made, "change")).context["form"]
    again = {name: form[name].value() for name in form.fields}
    written = {name: value for name, value in again.items() if value not in (None, False)}
    response = client.post(at(made, "change"), written)
    assert response.status_code == 302
    after = GuardrailRule.objects.get()
    assert rulebook.described(after) == rulebook.described(made)
    assert (after.version, after.shadow, after.order) == (1, True, 70)
    assert GuardrailChange.objects.count() == 1


def test_the_first_page_of_a_new_rule_offers_the_checks() -> None:
    response = boss().get(add())
    links = [link.get("href") for link in Document(response).all("a")]
    assert [f"?check={check}" in links for check in FILLED] == [True] * len(FILLED)


@pytest.mark.promise("G1")
@pytest.mark.parametrize(
    ("check", "wrong", "field"),
    [
        ("words", {"words": " "}, "words"),
        ("pattern", {"pattern": "("}, "pattern"),
        ("pattern", {"pattern": "a*"}, "pattern"),
        ("pattern", {"label": "No label"}, "label"),
        ("personal_data", {"kinds": [], "countries": []}, "kinds"),
        ("threshold", {"limit": "many"}, "limit"),
        ("threshold", {"path": "a b"}, "path"),
        ("threshold", {"tools": []}, "tools"),
        ("threshold", {"where": "input"}, "where"),
        ("custom", {"action": "redact"}, "action"),
        ("custom", {"function": "gone"}, "function"),
        ("words", {"name": ""}, "name"),
        ("words", {"order": "-1"}, "order"),
        ("words", {"agents": ["nobody"]}, "agents"),
        ("words", {"tools": ["mail"]}, "tools"),
    ],
)
def test_what_is_wrong_is_told_beside_its_field_and_nothing_is_saved(
    check: str, wrong: dict[str, Any], field: str
) -> None:
    response = boss().post(add(check), filled(check, **wrong))
    assert response.status_code == 400
    assert list(response.context["form"].errors) == [field]
    assert not GuardrailRule.objects.exists()


def test_two_who_change_one_rule_do_not_overwrite_each_other() -> None:
    made, client = rule(), boss()
    form = client.get(at(made, "change")).context["form"]
    assert form["version"].value() == 1
    rulebook.change(made.id, action="redact", actor="somebody else")
    late = filled("personal_data", version="1", name="mine")
    response = client.post(at(made, "change"), late)
    assert response.status_code == 400
    assert "Somebody else" in Document(response).text
    assert GuardrailRule.objects.get().name == "no addresses"


def test_a_second_rule_of_a_name_is_refused_beside_the_name() -> None:
    rule(name="the rule")
    response = boss().post(add("words"), filled("words"))
    assert list(response.context["form"].errors) == ["name"]


@pytest.mark.promise("U6", "G1")
def test_each_act_needs_its_own_permission_and_a_post() -> None:
    made = rule()
    nobody, viewer = person("nobody"), person("viewer", VIEW)
    for address in (at(made), at(made, "change")):
        assert nobody.get(address).status_code == 404
    assert nobody.get(reverse(LIST)).status_code == 403
    assert viewer.get(reverse(LIST)).status_code == 200
    assert viewer.get(at(made)).status_code == 200
    for address in (add(), add("words"), at(made, "change")):
        assert viewer.get(address).status_code == 403
        assert viewer.post(address, filled("words")).status_code == 403
    assert viewer.post(at(made, "delete")).status_code == 403
    assert nobody.post(at(made, "delete")).status_code == 404
    deleter = person("deleter", VIEW, DELETE)
    assert deleter.get(at(made, "delete")).status_code == 405
    assert Client().get(at(made)).status_code == 302
    assert Client(enforce_csrf_checks=True).post(at(made, "delete")).status_code in (302, 403)
    assert GuardrailRule.objects.count() == 1
    assert person("adder", VIEW, ADD).get(add("words")).status_code == 200
    assert person("changer", VIEW, CHANGE).get(at(made, "change")).status_code == 200
    assert deleter.post(at(made, "delete")).status_code == 302
    assert not GuardrailRule.objects.exists()
    assert GuardrailChange.objects.latest("id").actor == "deleter"
    assert deleter.post(at(made, "delete")).status_code == 302, "gone already"


def test_the_trail_of_changes_is_for_those_who_may_see_it() -> None:
    made = rule(actor="ana")
    rulebook.change(made.id, action="redact", actor="bo")
    text = Document(boss().get(at(made))).text
    assert "changed by bo" in " ".join(text.split())
    assert "created by ana" in " ".join(text.split())
    assert "Changes" not in Document(person("viewer", VIEW).get(at(made))).text


@pytest.mark.promise("G1")
def test_a_sample_is_judged_on_the_page_and_changes_nothing(
    django_assert_num_queries: Any,
) -> None:
    made, client = rule(action="redact", shadow=True), person("viewer", VIEW)
    found = Document(client.post(at(made), {"sample": f"Ask {SECRET}"})).text
    assert "It would be redacted." in found
    assert "Ask [EMAIL]" in found
    assert "It would pass." in Document(client.post(at(made), {"sample": "Ask Ana"})).text
    assert GuardrailChange.objects.count() == 1


@pytest.mark.promise("G1")
def test_a_call_is_tried_with_the_arguments_as_its_tool_would_get_them() -> None:
    made, client = limit(tools=["mail"]), boss()
    for sample, says in (
        ('{"to": "ana", "copies": 4}', "It would wait for a person."),
        ('{"to": "ana"}', "It would pass."),
        ('{"to": "ana", "copies": "4x"}', "would not take these arguments"),
        ("no json", "not valid JSON"),
    ):
        assert says in Document(client.post(at(made), {"sample": sample})).text


@pytest.mark.promise("G5", "G4")
def test_a_rule_is_replayed_over_what_was_recorded_without_showing_it(desk: Desk) -> None:
    desk.open([f"Asking {SECRET}", LOOK, call("look", what=SECRET)], "Done", message=SECRET)
    client, expected = boss(), {"input": "1 of 1", "output": "1 of 2", "tool_call": "1 of 2"}
    for where, says in expected.items():
        made = rule(name=where, where=where, enabled=False)
        response = client.post(at(made), {"recorded": "1"})
        text = " ".join(Document(response).text.split())
        assert f"{says} break the rule." in text
        assert "email: 1" in text
        assert SECRET not in text
        assert str(desk.thread.id) in response.content.decode()
    assert threads.events(desk.thread)[-1]["type"] == "RUN_COMPLETED"


@pytest.mark.promise("G3", "U2")
def test_the_page_of_a_held_reply_shows_exactly_what_is_held_and_releases_it(desk: Desk) -> None:
    rule(action="require_approval")
    thread = desk.open([f"Asking {SECRET}", LOOK], "Done")
    [park] = desk.parks()
    client = boss()
    inbox = Document(client.get(reverse("admin:hitl_park_changelist"))).text
    assert "Held by a guardrail" in inbox
    shown = Document(client.get(page(park))).text
    assert f"Asking {SECRET}" in shown
    assert "no addresses" in shown
    assert "Let it go on" in shown
    assert "Answer with a result" not in shown
    shown = Document(client.get(reverse("admin:agents_thread_change", args=[thread.id]))).text
    assert "A reply that nobody has seen" in shown
    assert SECRET not in shown
    client.post(reverse("admin:hitl_park_approve", args=[park.id]), {"reason": ""})
    run_worker()
    assert thread.status == "COMPLETED"
    shown = Document(client.get(reverse("admin:agents_thread_change", args=[thread.id]))).text
    assert f"Asking {SECRET}" in shown


@pytest.mark.promise("G3")
def test_a_hold_cannot_be_answered_with_a_result(desk: Desk) -> None:
    rule(action="require_approval")
    desk.open(f"Asking {SECRET}")
    [park] = desk.parks()
    written = {"reason": "", "result": "x", "kind": "text"}
    answered = boss().post(reverse("admin:hitl_park_answer", args=[park.id]), written)
    assert answered.status_code == 403
    assert desk.parks()[0].is_pending


def test_the_thread_tells_what_a_guardrail_did_to_a_message_and_a_call(desk: Desk) -> None:
    rule(where="input", action="redact")
    rule(name="no calls", where="tool_call", tools=["look"])
    thread = desk.open([call("look", what=SECRET)], "Done", message=SECRET)
    shown = Document(boss().get(reverse("admin:agents_thread_change", args=[thread.id]))).text
    text = " ".join(shown.split())
    assert "no addresses redacted this message for the model: email" in text
    assert "no calls refused this call: email" in text


@pytest.mark.promise("G2", "O6")
def test_a_rule_whose_check_has_left_the_code_is_told_of_on_its_page_and_by_the_doctor() -> None:
    made = rule(check="custom", settings={"function": "screened"})
    assert doctor.guardrails().status == "ok"
    kept = custom._checks.pop("screened")
    verdict = doctor.guardrails()
    assert verdict.status == "warn"
    assert "no addresses" in verdict.sentence
    text = " ".join(Document(boss().get(at(made))).text.split())
    assert "everything breaks it" in text
    assert boss_form(made).status_code == 200
    custom._checks["screened"] = kept


def boss_form(made: GuardrailRule) -> Any:
    client = Client()
    client.force_login(User.objects.get(username="boss"))
    return client.get(at(made, "change"))


def test_a_replay_stops_after_a_while(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.open("Done", message=SECRET)
    monkeypatch.setattr(trying, "SECONDS_MAX", -1.0)
    made = rule(where="input")
    assert trying.on_recorded(rulebook.as_rule(made)).judged == 0
