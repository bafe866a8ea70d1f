"""Deciding in the admin: who may, by which method, once, in time, and with which words."""

from datetime import timedelta
from types import ModuleType
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import Client
from django.urls import reverse

import hitl
from agents.models import Run, ToolCall
from agents.testing import call, run_worker
from hitl import parks
from hitl.models import Decision, Park, Verb
from tests.desk import Desk
from tests.integration.admin_site import (
    ACTS,
    WRITTEN,
    Document,
    address,
    boss,
    page,
    person,
    said,
    state,
)

VIEW, DECIDE, ANSWER, CANCEL = (
    f"hitl.{act}_park" for act in ("view", "decide", "answer", "cancel")
)


def parked(desk: Desk, **gate: Any) -> Park:
    desk.open([call("send", to="ana")], "Done.", tools=desk.tools(**gate))
    [park] = desk.parks()
    return park


def in_doubt(desk: Desk) -> Park:
    """Park a call whose worker died inside its tool."""
    parked(desk)
    [request] = desk.pending
    hitl.respond(desk.thread.id, request.tool_call_id, True)
    run = desk.run
    ToolCall.objects.filter(run=run).update(phase="claimed", claimed_by=run.lease_token + 1)
    Run.objects.filter(id=run.id).update(lease_token=run.lease_token + 1)
    run_worker()
    [_, doubt] = desk.parks()
    assert doubt.reason == "in_doubt"
    return doubt


# ── Who may ──────────────────────────────────────────────────────────────────────────────────────

LOGIN, NOT_THERE, REFUSED, DONE = "login", 404, 403, "done"
PEOPLE: dict[str, tuple[tuple[str, ...], dict[str, Any], dict[str, Any]]] = {
    # name: permissions, what else is known of the user, and what becomes of each act
    "no_staff": ((VIEW, DECIDE, ANSWER, CANCEL), {"is_staff": False}, dict.fromkeys(ACTS, LOGIN)),
    "inactive": ((VIEW, DECIDE, ANSWER, CANCEL), {"is_active": False}, dict.fromkeys(ACTS, LOGIN)),
    "nobody": ((), {}, dict.fromkeys(ACTS, NOT_THERE)),
    "blind": ((DECIDE, ANSWER, CANCEL), {}, dict.fromkeys(ACTS, NOT_THERE)),
    "viewer": ((VIEW,), {}, dict.fromkeys(ACTS, REFUSED)),
    "decider": (
        (VIEW, DECIDE),
        {},
        {"approve": DONE, "deny": DONE, "answer": REFUSED, "cancel": REFUSED},
    ),
    "answerer": ((VIEW, ANSWER), {}, dict.fromkeys(ACTS, REFUSED) | {"answer": DONE}),
    "canceller": ((VIEW, CANCEL), {}, dict.fromkeys(ACTS, REFUSED) | {"cancel": DONE}),
    "superuser": ((), {"is_superuser": True}, dict.fromkeys(ACTS, DONE)),
}
MATRIX = [(name, act) for name in PEOPLE for act in ACTS]


@pytest.mark.promise("U6", "I2")
@pytest.mark.parametrize(("name", "act"), MATRIX, ids=[f"{name}-{act}" for name, act in MATRIX])
def test_an_act_takes_the_permission_for_it_and_the_login_is_the_actor(
    desk: Desk, name: str, act: str
) -> None:
    """Field report DEC-08."""
    park = parked(desk)
    permissions, more, outcomes = PEOPLE[name]
    before = state(park)
    # Who acts is the login: what the form says about it is not read.
    written = WRITTEN | {"actor": "someone-else", "decided_by": "someone-else"}
    response = person(name, *permissions, **more).post(address(park, act), written)
    match outcomes[act]:
        case "done":
            assert (response.status_code, response["Location"]) == (302, page(park))
            settled = Park.objects.get(id=park.id)
            assert (settled.settled_by, settled.channel) == (name, "admin")
            assert settled.answer_reason == "because"
            newest = Decision.objects.filter(park=park).latest("id")
            assert (newest.actor, newest.channel, newest.system) == (name, "admin", False)
        case "login":
            assert response.status_code == 302
            assert response["Location"] == f"{reverse('admin:login')}?next={page(park)}"
        case status:
            assert response.status_code == status
    status, rows = before
    if outcomes[act] == REFUSED:
        assert state(park) == (status, rows + 1)
        newest = Decision.objects.filter(park=park).latest("id")
        assert (newest.verb, newest.actor, newest.channel) == (Verb.REFUSED, name, "admin")
        assert newest.detail == {"tried": act, "code": "not_allowed"}
    elif outcomes[act] != DONE:
        assert state(park) == before


@pytest.mark.promise("U6")
def test_a_refusal_says_why(desk: Desk) -> None:
    response = person("viewer", VIEW).post(address(parked(desk), "approve"))
    assert response.status_code == 403
    assert "You do not have the permission for this act" in Document(response).text


@pytest.mark.promise("U6")
def test_a_page_offers_only_the_acts_that_its_reader_may_do(desk: Desk) -> None:
    park = parked(desk)

    def offered(client: Client) -> set[str]:
        forms = Document(client.get(page(park))).all("form")
        return {act for form in forms for act in ACTS if form.get("action") == address(park, act)}

    assert offered(person("viewer", VIEW)) == set()
    assert offered(person("decider", VIEW, DECIDE)) == {"approve", "deny"}
    assert offered(person("answerer", VIEW, ANSWER)) == {"answer"}
    assert offered(person("canceller", VIEW, CANCEL)) == {"cancel"}
    assert offered(boss()) == set(ACTS)


@pytest.mark.promise("U6")
@pytest.mark.parametrize("act", ACTS)
def test_an_act_without_a_csrf_token_is_refused(desk: Desk, act: str) -> None:
    park = parked(desk)
    before = state(park)
    client = Client(enforce_csrf_checks=True)
    client.cookies = boss().cookies
    assert client.post(address(park, act), WRITTEN).status_code == 403
    assert state(park) == before


@pytest.mark.promise("U6", "U7")
@pytest.mark.parametrize("act", [*ACTS, None])
def test_no_safe_or_odd_method_changes_anything(desk: Desk, act: str | None) -> None:
    park = parked(desk)
    before, client = state(park), boss()
    url = address(park, act) if act else page(park)
    for method in ("get", "head", "options", "put", "patch", "delete", "trace"):
        response = getattr(client, method)(url)
        shown = act is None and method in ("get", "head")
        assert response.status_code == (200 if shown else 405), method
        assert state(park) == before
    if act is None:
        assert client.post(url, WRITTEN).status_code == 405
        assert state(park) == before


@pytest.mark.promise("U6")
@pytest.mark.parametrize(
    "garbage",
    [
        "x",
        "0",
        "%00",
        "..",
        "None",
        "%F0%9F%98%80",
        "a" * 3000,
        "0198a000-0000-7000-8000-000000000000",
    ],
)
def test_an_id_that_nobody_has_is_not_found(db: None, garbage: str) -> None:
    client = boss()
    base = reverse("admin:hitl_park_changelist") + garbage
    assert client.get(f"{base}/").status_code == 404
    for act in ACTS:
        assert client.post(f"{base}/{act}/", WRITTEN).status_code == 404


@pytest.mark.promise("U6")
def test_a_timer_has_no_page_and_no_acts(desk: Desk) -> None:
    park = parked(desk)
    Park.objects.filter(id=park.id).update(reason="retry")
    client = boss()
    assert client.get(page(park)).status_code == 404
    assert client.post(address(park, "approve")).status_code == 404
    assert state(park)[0] == "pending"


# ── What becomes of it ───────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("A4", "I1", "U2")
def test_approving_runs_the_tool_once_and_the_run_goes_on(desk: Desk) -> None:
    park = parked(desk)
    response = boss().post(address(park, "approve"), follow=True)
    assert said(response) == [
        ("success", "Approved. The tool will run, with exactly these arguments.")
    ]
    run_worker()
    assert desk.effects == ["send ana 1"]
    assert desk.thread.status == "COMPLETED"


@pytest.mark.promise("A7", "U2")
def test_denying_gives_the_model_the_reason_and_runs_nothing(desk: Desk) -> None:
    park = parked(desk)
    response = boss().post(address(park, "deny"), {"reason": "not today"}, follow=True)
    assert said(response) == [("success", "Denied. The tool does not run.")]
    run_worker()
    assert desk.effects == []
    assert desk.results["send"].content["reason"] == "not today"


@pytest.mark.promise("A8", "U2")
@pytest.mark.parametrize(
    ("written", "kind", "kept"),
    [
        ("  sent by hand\r\n", "text", "  sent by hand\n"),
        ("17", "text", "17"),
        ("17", "json", 17),
        ('{"n": 9007199254740993}', "json", {"n": 9007199254740993}),
        ("null", "json", None),
    ],
)
def test_a_result_replaces_the_tool_and_is_called_so(
    desk: Desk, written: str, kind: str, kept: Any
) -> None:
    park, client = parked(desk), boss()
    offer = Document(client.get(page(park))).text
    assert "The tool will NOT run" in offer
    response = client.post(address(park, "answer"), {"result": written, "kind": kind}, follow=True)
    assert said(response) == [("success", "Answered with a result. The tool does not run.")]
    assert "The result that was given; the tool did not run" in Document(response).text
    run_worker()
    assert desk.effects == []
    assert desk.results["send"].content == kept
    assert desk.trail()[-1] == (Verb.ANSWERED, "boss")


@pytest.mark.promise("A8")
def test_information_for_a_tool_is_called_so_and_takes_both_permissions(desk: Desk) -> None:
    park = parked(desk, payload="context")
    before = state(park)
    answerer = person("answerer", VIEW, ANSWER)
    written = {"result": '{"code": 17}', "kind": "json"}
    assert answerer.post(address(park, "answer"), written).status_code == 403
    assert state(park) == (before[0], before[1] + 1)
    client = person("both", VIEW, ANSWER, DECIDE)
    offer = Document(client.get(page(park))).text
    assert "Information for the tool" in offer
    assert "NOT run" not in offer
    response = client.post(address(park, "answer"), written, follow=True)
    assert said(response) == [("success", "Approved. The tool will run and read your information.")]
    run_worker()
    assert desk.effects == ["send ana 1"]
    approval = desk.contexts[0].approval
    assert approval is not None
    assert approval.payload == {"code": 17}


@pytest.mark.promise("A12", "U2")
def test_cancelling_withdraws_the_request(desk: Desk) -> None:
    park = parked(desk)
    response = boss().post(address(park, "cancel"), {"reason": "moot"}, follow=True)
    assert said(response) == [("success", "Withdrawn. The tool does not run.")]
    run_worker()
    assert desk.effects == []
    assert desk.results["send"].outcome == "cancelled"


@pytest.mark.promise("A8", "H4")
@pytest.mark.parametrize(
    ("result", "kind", "complaint"),
    [
        ("{not json", "json", "not valid JSON"),
        ("", "json", "required"),
        ("NaN", "json", "NaN is not valid JSON"),
        ("1e999", "json", "too large"),
        ('{"a": 1, "a": 2}', "json", "twice"),
        ("[" * 100_000, "json", "nested"),
        ("[" * 65 + "]" * 65, "json", "nested deeper"),
        ('"' + "x" * 300_000 + '"', "json", "write less"),
        ("x" * 300_000, "text", "over 262144 bytes"),
        ("nul \0", "text", "Null characters"),
        ("17", "yaml", "Select a valid choice"),
        ("17", "", "text or JSON"),
    ],
)
def test_a_result_that_cannot_be_taken_comes_back_with_a_message(
    desk: Desk, result: str, kind: str, complaint: str
) -> None:
    park = parked(desk)
    before = state(park)
    response = boss().post(address(park, "answer"), {"result": result, "kind": kind})
    assert response.status_code == 400
    assert complaint in Document(response).text
    assert state(park) == before


@pytest.mark.promise("I2")
def test_a_reason_that_is_too_long_is_not_cut_but_sent_back(desk: Desk) -> None:
    park = parked(desk)
    before = state(park)
    response = boss().post(address(park, "deny"), {"reason": "x" * 4001})
    assert response.status_code == 400
    assert "at most 4000 characters" in Document(response).text
    assert state(park) == before


# ── Once, and in time ────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("A1", "A2")
def test_pressing_again_is_too_late_and_says_so(desk: Desk) -> None:
    """Field report DEC-09: the same button pressed several times."""
    park, client = parked(desk), boss()
    for _ in range(5):
        response = client.post(address(park, "approve"), follow=True)
    assert said(response) == [
        ("warning", "Too late: nothing was changed. This request was already answered.")
    ]
    run_worker()
    assert client.post(address(park, "deny"), follow=True).status_code == 200
    assert desk.effects == ["send ana 1"]
    assert Park.objects.get(id=park.id).status == "approved"
    assert [verb for verb, _ in desk.trail()].count(Verb.APPROVED) == 1
    assert [verb for verb, _ in desk.trail()].count(Verb.REFUSED) == 5


@pytest.mark.promise("E6", "A1", "I2")
@pytest.mark.parametrize("act", ["approve", "deny", "answer"])
def test_after_the_deadline_nobody_can_answer_also_before_a_sweep(
    desk: Desk, clock: ModuleType, act: str
) -> None:
    """Field reports DEC-02, DEC-03: a late yes is neither taken nor shown as one."""
    park, client = parked(desk), boss()
    clock.advance(minutes=15, seconds=1)
    overdue = Document(client.get(page(park)))
    assert "The deadline has passed" in overdue.text
    assert address(park, act) not in [form.get("action") for form in overdue.all("form")]
    response = client.post(address(park, act), WRITTEN, follow=True)
    assert said(response) == [
        ("warning", "Too late: nothing was changed. This request expired before the answer came.")
    ]
    assert "Timed out" in Document(response).text
    assert desk.trail()[1:] == [(Verb.EXPIRED, "system"), (Verb.REFUSED, "boss")]
    run_worker()
    assert desk.effects == []
    assert desk.results["send"].outcome == "timed_out"


@pytest.mark.promise("A1", "N5")
def test_a_request_of_a_stopped_run_is_too_late(desk: Desk) -> None:
    from agents import threads

    park = parked(desk)
    threads.stop(desk.thread)
    response = boss().post(address(park, "approve"), follow=True)
    [(level, sentence)] = said(response)
    assert level == "warning"
    assert "moved on" in sentence


@pytest.mark.promise("A3")
def test_an_act_commits_for_itself_where_every_request_is_a_transaction(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk()
    park, client = parked(desk), boss()
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", True)
    inside = []
    decide = parks.decide

    def watched(*args: Any, **options: Any) -> Any:
        inside.append((connection.in_atomic_block, len(connection.atomic_blocks)))
        return decide(*args, **options)

    monkeypatch.setattr(parks, "decide", watched)
    assert client.post(address(park, "approve")).status_code == 302
    assert inside == [(True, 1)]
    with transaction.atomic():  # the read-only pages may well be inside one
        assert client.get(page(park)).status_code == 200


# ── In doubt ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("A6", "U2")
def test_a_call_in_doubt_asks_what_happened_in_words_of_its_own(desk: Desk) -> None:
    document = Document(boss().get(page(in_doubt(desk))))
    for words in ("Nobody knows", "It happened, with this result", "Run it again", "Give it up"):
        assert words in document.text
    for words in ("Approve", "Deny"):
        assert words not in document.text


@pytest.mark.promise("A6")
@pytest.mark.parametrize(
    ("act", "written", "effects", "outcome"),
    [
        ("approve", {}, ["send ana 1"], "ok"),
        ("deny", {"reason": "leave it"}, [], "unknown"),
        ("answer", {"result": "sent to ana", "kind": "text"}, [], "answered"),
        ("cancel", {}, [], "unknown"),
    ],
)
def test_a_call_in_doubt_ends_as_the_person_says(
    desk: Desk, act: str, written: dict[str, str], effects: list[str], outcome: str
) -> None:
    response = boss().post(address(in_doubt(desk), act), written, follow=True)
    assert [level for level, _ in said(response)] == ["success"]
    run_worker()
    assert desk.effects == effects
    assert desk.results["send"].outcome == outcome


@pytest.mark.promise("S2")
def test_each_request_is_answered_by_its_own_address(desk: Desk) -> None:
    """Field report ADM-06: an answer on one thread's page settles nothing of another's."""
    desk.open([call("send", to="ana"), call("send", to="bob")], "Done.")
    first, second = desk.parks()
    client = boss()
    client.post(address(second, "approve"))
    assert [park.status for park in desk.parks()] == ["pending", "approved"]
    client.post(address(first, "deny"))
    run_worker()
    assert desk.effects == ["send bob 1"]


@pytest.mark.promise("U5")
def test_what_was_written_comes_back_inert(desk: Desk) -> None:
    written = '</textarea><script>alert(1)</script>{"a"'
    response = boss().post(
        address(parked(desk), "answer"), {"result": written, "kind": "json", "reason": written}
    )
    document = Document(response)
    assert not any("alert" in script for script in document.scripts)
    assert document.text.count(written) == 2


def test_a_deadline_far_away_is_shown_with_its_time(desk: Desk) -> None:
    park = parked(desk, ttl=timedelta(days=2))
    document = Document(boss().get(page(park)))
    [deadline] = [time for time in document.all("time") if "data-deadline" in time]
    assert park.expires_at is not None
    assert deadline["datetime"] == park.expires_at.isoformat()
    assert "1d 23h left" in document.text
