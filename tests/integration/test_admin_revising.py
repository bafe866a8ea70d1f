"""Changing a call's arguments on its page: a form made on the server, exact values, one act."""

from typing import Any, Literal

import pytest

from agents import requires_confirmation, tool
from agents.testing import call, run_worker
from hitl.models import Decision, Park, Verb
from tests.desk import Desk
from tests.integration.admin_site import Document, address, boss, page, person, said

VIEW, DECIDE, EDIT = (f"hitl.{act}_park" for act in ("view", "decide", "edit"))
GIVEN = {
    "to": "Ana\r\nBo",
    "count": 9007199254740993,
    "amount": 249.0,
    "how": "slow",
    "urgent": False,
    "extra": {"a": [1, 2.50]},
    "note": None,
    "card": "4111111111111111",
}


@pytest.fixture
def ran(desk: Desk) -> list[dict[str, Any]]:
    """Open a request with arguments of every kind; what the tool is given is collected."""
    given: list[dict[str, Any]] = []

    @requires_confirmation(editable=True, redact=["card"])
    @tool
    def ship(
        to: str,
        count: int,
        amount: float,
        how: Literal["slow", "fast"],
        urgent: bool,
        extra: dict[str, list[float]],
        note: str | None,
        card: str,
    ) -> str:
        """Ship it.

        Args:
            to: where it goes
        """
        given.append(
            {
                **{"to": to, "count": count, "amount": amount, "how": how, "urgent": urgent},
                **{"extra": extra, "note": note, "card": card},
            }
        )
        return "shipped"

    desk.open([call("ship", **GIVEN)], "Done.", tools=[ship])
    return given


def form(park: Park, client: Any) -> dict[str, tuple[str, Any]]:
    """Return what a browser would send of the form if nobody touched it, by argument."""
    from hitl.argument_forms import ArgumentsForm

    made = ArgumentsForm(park=park)
    sent = {row.name: (row.field.html_name, row.field.value()) for row in made.rows}
    html = client.get(page(park)).content.decode()
    assert all(f'name="{name}"' in html for name, _ in sent.values())
    assert "where it goes" in html
    return sent


def send(park: Park, client: Any, **changed: str) -> Any:
    fields = form(park, client)
    written = dict(fields.values())
    for argument, value in changed.items():
        written[fields[argument][0]] = value
    # A browser sends line breaks as CR LF.
    written = {name: value.replace("\n", "\r\n") for name, value in written.items()}
    sent = {**written, "seen": park.digest, "reason": "better"}
    return client.post(address(park, "revise"), sent, follow=True)


@pytest.mark.promise("A9", "U2")
def test_what_nobody_touched_runs_exactly_and_what_was_changed_as_it_was_written(
    desk: Desk, ran: list[dict[str, Any]]
) -> None:
    [park] = desk.parks()
    response = send(park, boss(), how="fast", amount="17.5", note='"mind the dog"')
    assert said(response) == [
        ("success", "Approved. The tool will run with the arguments as you changed them.")
    ]
    text = Document(response).text
    assert "What a reviewer changed" in text
    run_worker()
    assert ran == [{**GIVEN, "how": "fast", "amount": 17.5, "note": "mind the dog"}]
    edited = Decision.objects.get(verb=Verb.EDITED)
    assert (edited.actor, edited.detail["changed"]) == ("boss", ["amount", "how", "note"])
    assert Decision.objects.get(verb=Verb.APPROVED).reason == "better"


@pytest.mark.promise("A9")
def test_a_form_that_nobody_touched_is_a_plain_yes(desk: Desk, ran: list[dict[str, Any]]) -> None:
    [park] = desk.parks()
    send(park, boss())
    run_worker()
    assert ran == [GIVEN]
    assert not Decision.objects.filter(verb=Verb.EDITED).exists()


@pytest.mark.promise("A9", "H4")
@pytest.mark.parametrize(
    ("argument", "written", "complaint"),
    [
        ("count", "many", "not valid JSON"),
        ("count", "1.5", "count"),
        ("how", "sideways", "Select a valid choice"),
        ("extra", "{", "not valid JSON"),
        ("extra", '{"a": "b"}', "extra"),
        ("extra", "[" * 100_000, "nested"),
        ("note", "17", "note"),
        ("amount", "NaN", "NaN is not valid JSON"),
        ("amount", "1e999", "too large"),
    ],
)
def test_what_does_not_fit_comes_back_with_a_message_and_changes_nothing(
    desk: Desk, ran: list[dict[str, Any]], argument: str, written: str, complaint: str
) -> None:
    [park] = desk.parks()
    response = send(park, boss(), **{argument: written})
    assert response.status_code == 400
    assert complaint in Document(response).text
    assert Park.objects.get(id=park.id).is_pending
    assert Decision.objects.filter(park=park).count() == 1


@pytest.mark.promise("A9", "U6")
def test_changing_takes_both_permissions(desk: Desk, ran: list[dict[str, Any]]) -> None:
    [park] = desk.parks()
    for name, permissions in {"editor": (VIEW, EDIT), "decider": (VIEW, DECIDE)}.items():
        client = person(name, *permissions)
        assert "Change the arguments" not in client.get(page(park)).content.decode()
        response = client.post(address(park, "revise"), {"seen": park.digest})
        assert response.status_code == 403
        assert Decision.objects.latest("id").verb == Verb.REFUSED
    assert send(park, person("both", VIEW, EDIT, DECIDE)).status_code == 200
    assert not Park.objects.get(id=park.id).is_pending


@pytest.mark.promise("A1", "A9")
def test_a_late_change_is_too_late(desk: Desk, ran: list[dict[str, Any]]) -> None:
    [park] = desk.parks()
    client = boss()
    fields = form(park, client)
    client.post(address(park, "deny"))
    sent = dict(fields.values()) | {"seen": park.digest}
    response = client.post(address(park, "revise"), sent, follow=True)
    assert said(response)[-1] == (
        "warning",
        "Nothing was changed. This request was already answered.",
    )
    run_worker()
    assert ran == []


@pytest.mark.promise("A9")
def test_a_tool_that_allows_no_change_has_no_form(desk: Desk) -> None:
    desk.open([call("send", to="ana")], "Done.")
    [park] = desk.parks()
    client = boss()
    assert "Change the arguments" not in client.get(page(park)).content.decode()
    assert client.post(address(park, "revise"), {"seen": park.digest}).status_code == 403
    assert Decision.objects.count() == 1
