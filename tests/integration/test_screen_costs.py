"""What a screen costs: statements, exactly, and nothing worked out anew for each row of a list."""

import os
import subprocess
import sys
from typing import Any

import pytest
from django.db import connection
from django.http import HttpResponse
from django.template import engines
from django.test import Client
from django.test.utils import CaptureQueriesContext

from agents.testing import call
from hitl import approval
from hitl.admin import table
from hitl.models import Park
from tests.desk import Desk
from tests.integration.admin_site import Document, boss, page, person

INBOX = "/admin/hitl/park/"
SESSION_AND_USER = 2
BADGE = 1
# The choices of the filters, the count, the rows.
LIST = {"choices": 1, "count": 1, "rows": 1}


@pytest.fixture
def client(desk: Desk) -> Client:
    for name in ("ana", "bob", "eve"):
        desk.open([call("send", to=name)], "Done.")
    return boss()


def sent(client: Client, path: str) -> list[str]:
    """Return the statements of a page that has been looked at before."""
    client.get(path)
    with CaptureQueriesContext(connection) as captured:
        assert client.get(path).status_code == 200
    return [query["sql"][:200] for query in captured.captured_queries]


@pytest.mark.parametrize("query", ["", "?status=all", "?tool=send", "?o=5", "?asker=nobody"])
def test_the_inbox_asks_six_questions_however_it_is_filtered(client: Client, query: str) -> None:
    statements = sent(client, INBOX + query)
    assert len(statements) == SESSION_AND_USER + BADGE + sum(LIST.values()), statements


def test_a_search_asks_one_more(client: Client) -> None:
    statements = sent(client, f"{INBOX}?q=send")
    assert len(statements) == SESSION_AND_USER + BADGE + sum(LIST.values()) + 1, statements


def test_who_is_no_superuser_is_asked_for_permissions_once(client: Client) -> None:
    few = person("few", "hitl.view_park", "hitl.decide_park")
    statements = sent(few, INBOX)
    own, of_groups = 1, 1
    assert len(statements) == SESSION_AND_USER + BADGE + sum(LIST.values()) + own + of_groups


@pytest.mark.parametrize(("path", "own"), [("agents/thread/", 2), ("agents/run/", 2)])
def test_the_other_lists_ask_for_a_count_and_their_rows(
    client: Client, path: str, own: int
) -> None:
    statements = sent(client, f"/admin/{path}")
    assert len(statements) == SESSION_AND_USER + BADGE + own, statements


def test_a_request_and_a_thread_ask_a_known_number_of_questions(client: Client, desk: Desk) -> None:
    park = Park.objects.latest("id")
    statements = sent(client, page(park))
    assert len(statements) == SESSION_AND_USER + BADGE + 3, statements
    statements = sent(client, f"/admin/agents/thread/{desk.thread.id}/")
    assert len(statements) == SESSION_AND_USER + BADGE + 7, statements


def test_the_heads_of_a_list_are_worked_out_once(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Django's and unfold's tags would do it again, once for each row."""
    worked_out: list[str] = []

    def note(changelist: Any) -> Any:
        worked_out.append("heads")
        return heads(changelist)

    heads = table.result_headers
    monkeypatch.setattr(table, "result_headers", note)
    monkeypatch.setattr("unfold.templatetags.unfold_list.result_headers", note)
    assert client.get(INBOX).context["rows"]
    assert worked_out == ["heads"]


@pytest.mark.parametrize(
    "path", ["hitl/park/?o=5.-4&status=all", "agents/thread/", "hitl/callbackdelivery/?status=all"]
)
def test_a_table_is_that_of_the_theme(client: Client, path: str) -> None:
    """Each element and each word; only the label of a first column, seen on phones, is its own."""
    approval.request(topic="refund", payload={"amount": 249.0}, on_decide="/decide/")
    response = client.get(f"/admin/{path}")
    ours = table_in(response)
    theirs = engines["django"].from_string("{% load unfold_list %}{% unfold_result_list cl %}")
    shown = theirs.render(
        {name: response.context[name] for name in ("cl", "opts")}, response.wsgi_request
    )
    theme = table_in(HttpResponse(shown))
    assert theme == ours
    assert len(ours[0]) > 20


def table_in(response: HttpResponse) -> tuple[list[Any], list[str]]:
    """Return the elements of the table and its words, without what the columns say to a phone."""
    html = response.content.decode()
    cut = html[html.index('<table id="result_list"') : html.index("</table>")]
    document = Document(HttpResponse(cut))
    for _, attributes in document.elements:
        attributes.pop("data-label", None)
        attributes.pop("x-data", None)
        attributes |= {"class": " ".join((attributes.get("class") or "").split())}
    return document.elements, document.text.split()


def test_the_web_process_spares_the_collector_what_its_imports_made() -> None:
    for module in ("project.asgi", "project.wsgi"):
        code = f"import gc, {module}; print(gc.get_freeze_count())"
        environment = os.environ | {"DJANGO_SETTINGS_MODULE": "tests.settings"}
        run = [sys.executable, "-c", code]
        said = subprocess.run(run, env=environment, capture_output=True, text=True, check=True)
        assert int(said.stdout) > 10_000
