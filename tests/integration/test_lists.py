"""Lists stay quick however many requests there are: read along an index, searched in bounds."""

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import connection
from django.test import Client

from agents.testing import call
from hitl import pages, sweeping
from hitl.admin import inbox
from hitl.models import Park
from tests.desk import Desk
from tests.integration import racing

INBOX = "/admin/hitl/park/"


@pytest.fixture
def client(db: None) -> Client:
    user = get_user_model().objects.create_superuser("ana")
    browser = Client()
    browser.force_login(user)
    return browser


def plans(leg: Any) -> list[str]:
    """Return the plans of what a leg asks about requests, as if the table were a long one."""
    seen: list[tuple[str, Any]] = []

    def note(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if 'FROM "hitl_park"' in sql:
            seen.append((sql, params))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        leg()
    found = []
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute("SET LOCAL enable_bitmapscan = off")
        cursor.execute("SET LOCAL enable_sort = off")
        for sql, params in seen:
            cursor.execute(f"EXPLAIN {sql}", params)
            found.append("\n".join(row[0] for row in cursor.fetchall()))
        cursor.execute("RESET enable_seqscan")
        cursor.execute("RESET enable_bitmapscan")
        cursor.execute("RESET enable_sort")
    return found


@pytest.mark.services
@pytest.mark.promise("S4")
@pytest.mark.parametrize(
    ("query", "index"),
    [
        ("", "hitl_park_due"),
        ("?status=approved", "hitl_park_approved"),
        ("?status=cancelled", "hitl_park_cancelled"),
        ("?status=all", "hitl_park_pkey"),
        ("?status=all&tool=send", "hitl_park_topic"),
        ("?status=all&asker=desk", "hitl_park_asker"),
    ],
)
def test_each_list_of_the_inbox_is_read_in_order_along_an_index(
    desk: Desk, client: Client, query: str, index: str
) -> None:
    racing.needs_postgresql()
    desk.open([call("send", to="ana")])
    shown = plans(lambda: client.get(f"{INBOX}{query}"))
    assert any(index in plan for plan in shown)
    for plan in shown:
        assert "Seq Scan" not in plan
        assert "Sort" not in plan


@pytest.mark.services
def test_lists_of_the_command_the_badge_and_the_sweep_are_read_along_an_index(desk: Desk) -> None:
    racing.needs_postgresql()
    desk.open([call("send", to="ana")])
    for status in pages.STATUSES:
        assert "Seq Scan" not in "".join(plans(lambda status=status: pages.page(status=status)))
    [pending] = plans(lambda: pages.page(status="pending"))
    assert "hitl_park_due" in pending
    swept = plans(sweeping.sweep)
    assert len(swept) >= 2
    assert all("hitl_park_due" in plan or "hitl_park_warn" in plan for plan in swept)


def test_a_search_looks_at_the_top_of_the_list_as_it_is_filtered(
    desk: Desk, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("Ana", "ben", "cleo"):
        desk.open([call("send", to=name)])
    monkeypatch.setattr(inbox, "SEARCHED_MAX", 2)
    rows = Park.objects.soonest_first()
    for park, title in zip(rows, ("to Ana", "to Ben", "to Ana again"), strict=True):
        Park.objects.filter(id=park.id).update(title=title)
    text = client.get(f"{INBOX}?q=TO+ana").content.decode()
    assert "to Ana" in text
    assert "to Ana again" not in text, "the third of two"
    assert "to Ben" not in text
    assert "of this list by title, tool or asker" in text
    assert "to Ana" in client.get(f'{INBOX}?q="to+ana"').content.decode()
    assert "to Ana" not in client.get(f'{INBOX}?q="ana+to"').content.decode()
