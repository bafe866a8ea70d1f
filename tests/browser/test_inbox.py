"""The inbox in a real browser, under a content security policy that allows no script of a page."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse

from agents.testing import call, run_worker
from tests.desk import Desk

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

# What unfold asks for; scripts come from files alone.
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; object-src 'none'; base-uri 'none'; frame-ancestors 'none'"
)


class WithPolicy:
    """Middleware that sends the policy with each page."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        response["Content-Security-Policy"] = POLICY
        return response


@pytest.fixture
def desk(transactional_db: None) -> Desk:
    return Desk()


@pytest.fixture
def site(settings: Any, live_server: Any) -> str:
    """The address of the site, with someone on it who may do everything."""
    settings.MIDDLEWARE = [f"{__name__}.WithPolicy", *settings.MIDDLEWARE]
    User.objects.create_superuser("ana", password="secret")
    return str(live_server.url)


def log_in(page: "Page", site: str) -> None:
    page.goto(site)
    page.fill("[name=username]", "ana")
    page.fill("[name=password]", "secret")
    page.click("[type=submit]")
    page.get_by_text("request waits for an answer").wait_for()


@pytest.mark.promise("U1", "U2", "U4", "A4")
def test_a_person_finds_a_request_approves_it_and_sees_the_thread_finish(
    desk: Desk, page: "Page", site: str
) -> None:
    desk.open([call("send", to="ana@example.com", copies=2)], "The letter is out.")
    log_in(page, site)
    page.get_by_role("link", name="Open the inbox").click()
    page.get_by_role("link", name="Run send?").click()
    approve = page.get_by_role("button", name="Approve", exact=True)
    # Nobody has to hunt for it: it is on the screen before anyone scrolls.
    box, size = approve.bounding_box(), page.viewport_size
    assert box is not None
    assert size is not None
    assert box["y"] + box["height"] <= size["height"]
    assert '"to": "ana@example.com"' in page.locator("#arguments").inner_text()
    assert "left" in page.locator("time[data-deadline]").inner_text()
    approve.click()
    page.get_by_text("Approved. The tool will run").wait_for()
    run_worker()
    page.get_by_role("link", name="Open the thread", exact=True).click()
    page.get_by_text("The letter is out.").wait_for()
    page.get_by_text("Completed").first.wait_for()
    assert desk.effects == ["send ana@example.com 2"]


@pytest.mark.promise("U2", "A7")
def test_a_person_denies_with_a_reason_by_the_keyboard_alone(
    desk: Desk, page: "Page", site: str
) -> None:
    desk.open([call("send", to="ana@example.com")], "I did not.")
    log_in(page, site)
    [park] = desk.parks()
    page.goto(f"{site}/admin/hitl/park/{park.id}/")
    page.locator("summary", has_text="Deny").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.type("not today")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.get_by_text("Denied. The tool does not run.").wait_for()
    page.get_by_text("not today").first.wait_for()
    run_worker()
    assert desk.effects == []
