"""The screens of the admin: what they show, to whom, that it is inert, and what it costs."""

import os
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from types import ModuleType
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

import hitl
from agents import Agent, requires_confirmation, threads, tool
from agents.models import Thread
from agents.testing import ScriptedModel, call, run_worker
from hitl import parks, waiters
from hitl.admin import theme
from hitl.ids import new_id
from hitl.models import Park
from hitl.openings import Opening, open_all
from tests.desk import Desk
from tests.integration.admin_site import Document, boss, page, person, said

VIEW_PARK, VIEW_THREAD, STOP_THREAD = (
    "hitl.view_park",
    "agents.view_thread",
    "agents.stop_thread",
)
INBOX = "/admin/hitl/park/"
THREADS = "/admin/agents/thread/"

EVIL = (
    "</script><script>alert(1)</script>'\"><img src=x onerror=alert(2)>{{7*7}}{% now %}"
    " \u202egnp.exe\u202c zero\u200bwidth \0 nul \x1b[31mred"
)
SPELLED = ("{{7*7}}{% now %}", "⟨U+202E⟩", "⟨U+200B⟩", "␀")


def inbox_titles(client: Client, query: str = "") -> list[str]:
    response = client.get(INBOX + query)
    assert response.status_code == 200
    return [str(park) for park in response.context["cl"].result_list]


# ── Inert (field report ADM-01) ──────────────────────────────────────────────────────────────────


@pytest.fixture
def evil_thread(db: None) -> Thread:
    """A thread in which everything that a model, a tool or a person can write is hostile."""

    @requires_confirmation(summary=lambda args: EVIL)
    @tool(description=EVIL)
    def send(text: str, more: dict[str, str]) -> str:
        """Send."""
        return EVIL

    @tool
    def fail(text: str) -> str:
        """Fail."""
        raise RuntimeError(EVIL)

    turns = [
        [EVIL, call("fail", text=EVIL), call(EVIL, text=EVIL), call("send", text=EVIL, more={})],
        [call("send", text=EVIL + "x" * 1_000_000, more={EVIL: EVIL})],
        EVIL,
    ]
    Agent("desk", model=ScriptedModel(turns), tools=[send, fail])
    thread = threads.start("desk", EVIL, metadata={EVIL: EVIL})
    run_worker()
    [first] = hitl.pending(thread)
    hitl.respond(thread.id, first.tool_call_id, True, payload=EVIL, reason=EVIL, actor=EVIL)
    hitl.respond(thread.id, first.tool_call_id, True, reason=EVIL, actor=EVIL, channel="mail")
    run_worker()
    stored = EVIL.replace("\0", "␀")
    Park.objects.update(asker=stored[:100], asker_path=[stored])
    return thread


def check_inert(response: Any, *, shows: bool = True) -> None:
    """Check that hostile text is text and nothing else, and that what hides in it is spelled."""
    document = Document(response)
    assert not any("alert(" in script for script in document.scripts)
    for tag, attributes in document.elements:
        assert tag != "img" or "onerror" not in attributes
        for name, value in attributes.items():
            assert not name.startswith("on"), (tag, name)
            if name.startswith(("x-", "hx-", ":", "@")):  # what the theme's scripts evaluate
                assert "alert" not in (value or "")
    raw = response.content.decode()
    for hidden in ("\u202e", "\u202c", "\u200b", "\0", "\x1b"):
        assert hidden not in raw
    if shows:
        assert all(text in document.text for text in ("<script>alert(1)</script>", *SPELLED))


@pytest.mark.promise("U5")
@pytest.mark.parametrize("query", ["", "?status=approved", "?status=all", "?q=send"])
def test_the_inbox_is_inert(evil_thread: Thread, query: str) -> None:
    check_inert(boss().get(INBOX + query))


@pytest.mark.promise("U5")
def test_the_request_pages_are_inert_and_show_everything(evil_thread: Thread) -> None:
    client = boss()
    for park in Park.objects.order_by("id"):
        response = client.get(page(park))
        check_inert(response)
    assert "x" * 1_000_000 in response.content.decode()


@pytest.mark.promise("U5")
@pytest.mark.parametrize("path", ["{}/", "{}/events/", ""])
def test_the_thread_pages_are_inert(evil_thread: Thread, path: str) -> None:
    # The title of a thread is cut before its direction characters.
    response = boss().get(THREADS + path.format(evil_thread.id))
    if path:
        check_inert(response)
    else:
        assert not any("alert" in script for script in Document(response).scripts)


@pytest.mark.promise("U5")
def test_messages_and_error_pages_are_inert(evil_thread: Thread) -> None:
    client, park = boss(), Park.objects.latest("id")
    # A form refuses a NUL; what one typed comes back as one typed it, inside of its field.
    refused = Document(client.post(f"{page(park)}deny/", {"reason": EVIL}))
    assert "Null characters are not allowed" in refused.text
    assert not any("alert" in script for script in refused.scripts)
    check_inert(client.post(f"{page(park)}deny/", {"reason": EVIL.replace("\0", "␀")}, follow=True))
    check_inert(person("viewer", VIEW_PARK).post(f"{page(park)}deny/"), shows=False)


@pytest.mark.promise("U5")
def test_the_landing_page_is_inert(evil_thread: Thread) -> None:
    check_inert(boss().get("/admin/"))


@pytest.mark.promise("U5", "U6")
def test_no_page_has_a_script_of_its_own(desk: Desk) -> None:
    desk.open([call("send", to="ana")], "Done.")
    client = boss()
    [park] = desk.parks()
    for url in (page(park), f"{THREADS}{desk.thread.id}/"):
        document = Document(client.get(url))
        assert [script for script in document.scripts if script.strip()] == []
        assert [tag for tag, attributes in document.elements if "onclick" in attributes] == []


# ── The list ─────────────────────────────────────────────────────────────────────────────────────


class Nobody:
    """A waiter that is always there and whom nothing wakes."""

    kind = "nobody"
    permission = ""

    def lock(self, waiter_id: UUID) -> UUID:
        return waiter_id

    def settled(self, waiter: UUID, parks: object) -> None:
        pass

    def url(self, park: Park) -> None:
        return None


@pytest.fixture(autouse=True)
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(waiters._registry, Nobody.kind, Nobody())  # type: ignore[arg-type]


def open_parks(*titles: str, **more: Any) -> list[Park]:
    """Open requests that no run waits for."""
    waiter = new_id()
    openings = [
        Opening(
            key=f"{new_id()}",
            reason="approval",
            title=title,
            **{"ttl": timedelta(minutes=10 + place), "topic": "send", "asker": "desk"} | more,
        )
        for place, title in enumerate(titles)
    ]
    return open_all(Nobody.kind, waiter, waiter, openings)


@pytest.mark.promise("U1", "I1")
def test_the_inbox_shows_what_is_pending_the_nearest_deadline_first(db: None) -> None:
    client = boss()
    assert "Nothing waits for an answer" in Document(client.get(INBOX)).text
    open_parks("late", ttl=timedelta(hours=2))
    open_parks("never", ttl=None, on_timeout="ignore")
    open_parks("soon", ttl=timedelta(minutes=1))
    [gone] = open_parks("gone")
    parks.decide(gone.id, False)
    open_parks("a timer", ttl=timedelta(seconds=1))
    Park.objects.filter(title="a timer").update(reason="retry")
    assert inbox_titles(client) == ["soon", "late", "never"]
    assert inbox_titles(client, "?status=rejected") == ["gone"]
    assert inbox_titles(client, "?status=all") == ["gone", "soon", "never", "late"]


@pytest.mark.promise("U1", "E6")
def test_the_inbox_says_how_each_request_stands(db: None, clock: ModuleType) -> None:
    open_parks("overdue", ttl=timedelta(minutes=1))
    [answered] = open_parks("answered")
    parks.decide(answered.id, True, payload={"a": 1})
    [allowed] = open_parks("allowed")
    parks.decide(allowed.id, True)
    open_parks("in doubt")
    Park.objects.filter(title="in doubt").update(reason="in_doubt")
    clock.advance(minutes=3)
    text = Document(boss().get(INBOX + "?status=all")).text
    for words in ("overdue by 2m", "Overdue", "Answered", "Approved", "In doubt", "3m ago"):
        assert words in text


@pytest.mark.promise("U1")
def test_the_inbox_is_filtered_and_searched(db: None) -> None:
    open_parks("refund Ana", topic="refund", asker="desk")
    open_parks("write to Ana", topic="mail", asker="mailer")
    client = boss()
    assert inbox_titles(client, "?tool=refund") == ["refund Ana"]
    assert inbox_titles(client, "?asker=mailer") == ["write to Ana"]
    assert inbox_titles(client, "?q=ana") == ["refund Ana", "write to Ana"]
    assert inbox_titles(client, "?q=mailer") == ["write to Ana"]
    assert inbox_titles(client, "?tool=%00&asker=%00") == []
    assert "No such requests" in Document(client.get(INBOX + "?q=nothing")).text
    assert client.get(INBOX + "?status=garbage")["Location"].endswith("?e=1")
    assert client.get(INBOX + "?q=%00").status_code == 200


@pytest.mark.promise("U6")
def test_nothing_can_be_added_changed_or_deleted(db: None) -> None:
    [park] = open_parks("one")
    client = boss()
    for path in ("add/", f"{park.id}/delete/", f"{park.id}/change/", f"{park.id}/history/"):
        assert client.get(INBOX + path).status_code == 404
        assert client.post(INBOX + path, {"post": "yes"}).status_code in (404, 405)
    bulk = {"action": "delete_selected", "_selected_action": [str(park.id)], "post": "yes"}
    client.post(INBOX, bulk)
    client.post(THREADS, bulk)
    assert Park.objects.filter(id=park.id).exists()
    for url in (INBOX, "/admin/auth/user/"):
        assert "delete_selected" not in client.get(url).content.decode()


@pytest.mark.promise("U6")
def test_who_has_no_permission_sees_nothing(desk: Desk) -> None:
    desk.open([call("send", to="ana")], "Done.")
    [park] = desk.parks()
    nobody = person("nobody")
    index = Document(nobody.get("/admin/"))
    assert INBOX not in [link.get("href") for link in index.all("a")]
    assert "waits for an answer" not in index.text
    assert nobody.get(INBOX).status_code == 403
    assert nobody.get(THREADS).status_code == 403
    assert nobody.get(page(park)).status_code == 404
    assert nobody.get(f"{THREADS}{desk.thread.id}/").status_code == 404
    assert nobody.get(f"{THREADS}{desk.thread.id}/events/").status_code == 404
    assert Client().get(page(park))["Location"].startswith(reverse("admin:login"))


@pytest.mark.promise("U1")
def test_the_sidebar_and_the_landing_page_count_what_waits(db: None) -> None:
    viewer = person("viewer", VIEW_PARK)
    assert viewer.get("/admin/").context["sidebar_navigation"][0]["items"][0].get("badge") is None
    open_parks("one", "two")
    response = viewer.get("/admin/")
    [[inbox]] = [group["items"] for group in response.context["sidebar_navigation"]]
    assert (inbox["title"], inbox["badge"]) == ("Inbox", "2")
    assert "2 requests wait for an answer" in Document(response).text
    open_parks(*["more"] * 100)
    assert viewer.get("/admin/").context["waiting_count"] == "99+"


# ── What it costs ────────────────────────────────────────────────────────────────────────────────


def queries(act: Callable[[], Any]) -> int:
    with CaptureQueriesContext(
        connection,
    ) as captured:
        assert act().status_code == 200
    return len(captured)


def test_the_inbox_costs_the_same_for_one_request_and_for_forty(db: None) -> None:
    client = boss()
    open_parks("one")
    few = queries(lambda: client.get(INBOX))
    open_parks(*[f"more {number}" for number in range(40)])
    assert queries(lambda: client.get(INBOX)) == few
    assert queries(lambda: client.get(INBOX + "?status=all&_facets=True")) == few


def test_the_inbox_counts_so_far_and_no_further(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(theme, "COUNTED_MAX", 3)
    client = boss()
    open_parks("one", "two")
    assert client.get(INBOX).context["cl"].result_count == 2
    open_parks("three", "four")
    response = client.get(INBOX)
    assert response.context["cl"].result_count == "3+"
    assert "3+" in Document(response).text


def test_a_request_page_costs_the_same_with_a_long_trail(db: None) -> None:
    client = boss()
    [park] = open_parks("one")
    few = queries(lambda: client.get(page(park)))
    for _ in range(250):
        parks.decide(park.id, True)
    open_parks(*["more"] * 20)
    response = client.get(page(park))
    assert "Only the first 200 entries" in Document(response).text
    assert queries(lambda: client.get(page(park))) <= few


def test_a_thread_page_costs_the_same_for_many_steps_calls_and_requests(desk: Desk) -> None:
    client = boss()
    desk.open([call("send", to="ana")], "Done.")
    small = queries(lambda: client.get(f"{THREADS}{desk.thread.id}/"))
    step = [call("send", to="ana"), call("look", what="x"), call("send", to="bob")]
    desk.open(step, step, step, "Done.")
    for _ in range(3):
        for request in desk.pending:
            hitl.respond(desk.thread.id, request.tool_call_id, True)
        run_worker()
    for number in range(25):
        Agent("desk", model=ScriptedModel(["Yes."]), tools=desk.tools())
        threads.send(desk.thread, f"and then {number}?")
        run_worker()
    assert queries(lambda: client.get(f"{THREADS}{desk.thread.id}/")) == small
    many = queries(lambda: client.get(THREADS))
    Thread.objects.exclude(id=desk.thread.id).delete()
    assert queries(lambda: client.get(THREADS)) == many


# ── Threads ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("U4", "N1")
def test_the_thread_page_tells_what_happened_in_order(desk: Desk) -> None:
    desk.open(["Let me look.", call("look", what="it"), call("send", to="ana")], "All done.")
    [park] = desk.parks()
    client = boss()
    url = f"{THREADS}{desk.thread.id}/"
    document = Document(client.get(url))
    assert "Waits for an answer" in document.text
    assert page(park) in [link.get("href") for link in document.all("a")]
    desk.answer(False, reason="not today", actor="ana")
    text = Document(client.get(url)).text
    story = ["Go on", "Let me look.", "look", "seen it", "send", "Denied", "not today", "All done."]
    places = [text.index(words) for words in story]
    assert places == sorted(places)
    assert "NOT performed" in text
    assert "Completed" in text


@pytest.mark.promise("U4")
def test_a_long_thread_is_shown_in_pages(desk: Desk) -> None:
    desk.open("Yes.", message="first")
    for number in range(2, 24):
        Agent("desk", model=ScriptedModel(["Yes."]))
        threads.send(desk.thread, f"message {number}.")
        run_worker()
    client, url = boss(), f"{THREADS}{desk.thread.id}/"
    newest = Document(client.get(url))
    assert "message 23." in newest.text
    assert "message 3." not in newest.text
    [earlier] = [a["href"] for a in newest.all("a") if "before=" in (a.get("href") or "")]
    oldest = Document(client.get(f"{url}{earlier}")).text
    assert "first" in oldest
    assert "message 3." in oldest
    assert "message 4." not in oldest
    for odd in ("x", "-1", "9" * 40, "²", "%00"):
        assert client.get(f"{url}?before={odd}").status_code == 200
        assert client.get(f"{url}events/?after={odd}").status_code == 200


@pytest.mark.promise("H5", "U4")
def test_the_events_of_a_thread_are_listed_by_their_numbers(desk: Desk) -> None:
    desk.open([call("send", to="ana")], "Done.")
    url = f"{THREADS}{desk.thread.id}/events/"
    client = boss()
    text = Document(client.get(url)).text
    places = [text.index(f"{seq} {kind}") for seq, kind in enumerate(desk.event_types(), 1)]
    assert places == sorted(places)
    assert "1 RUN_STARTED" not in Document(client.get(f"{url}?after=1")).text


@pytest.mark.promise("H8", "U4", "U6", "I2")
def test_stopping_takes_its_own_permission_and_withdraws_what_is_open(desk: Desk) -> None:
    desk.open([call("send", to="ana")], "Done.")
    url = f"{THREADS}{desk.thread.id}/stop/"
    viewer = person("viewer", VIEW_THREAD)
    assert "Stop the run" not in Document(viewer.get(f"{THREADS}{desk.thread.id}/")).text
    assert viewer.post(url).status_code == 403
    assert person("blind", STOP_THREAD).post(url).status_code == 404
    assert Client().post(url)["Location"].startswith(reverse("admin:login"))
    stopper = person("stopper", VIEW_THREAD, STOP_THREAD)
    for method in ("get", "head", "options", "put", "delete"):
        assert getattr(stopper, method)(url).status_code == 405
    unchecked = Client(enforce_csrf_checks=True)
    unchecked.cookies = stopper.cookies
    assert unchecked.post(url).status_code == 403
    assert desk.thread.status == "WAITING_FOR_INPUT"

    response = stopper.post(url, {"reason": "enough"}, follow=True)
    assert [level for level, _ in said(response)] == ["success"]
    assert desk.thread.status == "CANCELLED"
    [park] = desk.parks()
    assert (park.status, park.settled_by, park.channel) == ("cancelled", "stopper", "admin")
    again = stopper.post(url, follow=True)
    assert [level for level, _ in said(again)] == ["warning"]


@pytest.mark.promise("U6")
@pytest.mark.parametrize("garbage", ["x", "%00", "None", "0198a000-0000-7000-8000-000000000000"])
def test_a_thread_that_nobody_has_is_not_found(db: None, garbage: str) -> None:
    client = boss()
    assert client.get(f"{THREADS}{garbage}/").status_code == 404
    assert client.get(f"{THREADS}{garbage}/events/").status_code == 404
    assert client.post(f"{THREADS}{garbage}/stop/").status_code == 404


@pytest.mark.promise("U6")
def test_links_lead_only_where_their_reader_may_go(desk: Desk) -> None:
    desk.open([call("send", to="ana")], "Done.")
    [park] = desk.parks()
    thread_page = f"{THREADS}{desk.thread.id}/"

    def links(client: Client, url: str) -> list[str | None]:
        return [link.get("href") for link in Document(client.get(url)).all("a")]

    assert thread_page not in links(person("approver", VIEW_PARK), page(park))
    assert page(park) not in links(person("watcher", VIEW_THREAD), thread_page)
    both = person("both", VIEW_PARK, VIEW_THREAD)
    assert thread_page in links(both, page(park))
    assert page(park) in links(both, thread_page)


# ── The rest of the admin ────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("L7")
def test_the_screens_work_in_a_project_without_the_theme() -> None:
    walk = [sys.executable, "-W", "error", "-m", "tests.integration.plain_admin"]
    environment = os.environ | {"DJANGO_SETTINGS_MODULE": "tests.integration.plain_admin"}
    done = subprocess.run(walk, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "path",
    [
        "auth/user/",
        "auth/user/add/",
        "auth/group/add/",
        "django_celery_beat/periodictask/",
        "django_celery_beat/periodictask/add/",
        "django_celery_beat/crontabschedule/add/",
        "django_celery_beat/clockedschedule/add/",
        "django_celery_beat/intervalschedule/",
        "django_celery_beat/solarschedule/add/",
    ],
)
def test_the_admins_of_others_open_in_the_theme(db: None, path: str) -> None:
    response = boss().get(f"/admin/{path}")
    assert response.status_code == 200
    assert "unfold/css/styles.css" in response.content.decode()
