"""Several at once, changed arguments and approvers in a real browser, on a desktop and a phone."""

from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import User

from agents import requires_confirmation, tool
from agents.testing import call, run_worker
from hitl.models import Park
from tests.browser.test_inbox import log_in
from tests.desk import Desk

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

ran: list[dict[str, Any]] = []


@requires_confirmation(editable=True, summary=lambda args: f"Refund {args['order']}")
@tool
def refund(order: str, amount: float, note: str) -> str:
    """Pay money back."""
    ran.append({"order": order, "amount": amount, "note": note})
    return "ok"


@pytest.fixture
def desk(transactional_db: None) -> Desk:
    ran.clear()
    return Desk()


@pytest.fixture
def site(live_server: Any) -> str:
    User.objects.create_superuser("ana", password="secret")
    return str(live_server.url)


@pytest.mark.promise("I11", "U1", "U2")
def test_a_person_ticks_two_requests_looks_at_them_and_approves(
    desk: Desk, page: "Page", site: str
) -> None:
    made = [call("refund", order=f"A{n}", amount=n * 1.5, note="") for n in range(3)]
    desk.open(made, "Done.", tools=[refund])
    log_in_to_several(page, site)
    boxes = page.locator("input[name=request]")
    boxes.nth(0).check()
    boxes.nth(2).check()
    page.get_by_role("button", name="Approve the ticked").click()
    page.get_by_text("Approve 2 requests?").wait_for()
    page.get_by_role("button", name="Approve them").click()
    page.get_by_text("2 of 2 approved").wait_for()
    assert list(Park.objects.pending().values_list("title", flat=True)) == ["Refund A1"]


def log_in_to_several(page: "Page", site: str) -> None:
    page.goto(f"{site}/admin/login/?next=/admin/hitl/park/")
    page.fill("[name=username]", "ana")
    page.fill("[name=password]", "secret")
    page.click("[type=submit]")
    page.locator("#result_list").wait_for()


@pytest.mark.promise("A9", "U2")
def test_a_person_changes_an_amount_and_what_was_not_touched_runs_exactly(
    desk: Desk, page: "Page", site: str
) -> None:
    given = {"order": "A1", "amount": 249.0, "note": "\nfirst\r\nsecond  \n"}
    desk.open([call("refund", **given)], "Done.", tools=[refund])
    log_in(page, site)
    page.get_by_role("link", name="Open the inbox").click()
    page.get_by_role("link", name="Refund A1").click()
    page.get_by_text("Change the arguments and approve…").click()
    page.locator("#revise textarea").first.fill("24.5")
    page.get_by_role("button", name="Approve with these arguments").click()
    page.get_by_text("What a reviewer changed").wait_for()
    run_worker()
    assert ran == [{**given, "amount": 24.5}]
