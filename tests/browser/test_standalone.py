"""A standalone request in a real browser: changed, approved, told, and told again."""

from typing import TYPE_CHECKING

import pytest

import hitl
from hitl import approval
from hitl.models import CallbackDelivery
from tests.browser.test_inbox import log_in, site  # noqa: F401  (a fixture)
from tests.browser.test_jobs import fits

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def entry(transactional_db: None) -> approval.Entry:
    return approval.request(
        topic="refund",
        title="Refund 249.00 € on order o17?",
        description="The espresso machine arrived broken. The customer has sent pictures.",
        payload={
            "order": "o17",
            "amount": 249.0,
            "reference": 9007199254740993,
            "express": True,
            "note": "Please pay to the account that the order was paid from.\nThank you!",
            "items": [{"sku": "espresso-machine", "price": 249.0}],
        },
        on_decide="/approvals/decide/",
        timeout="4h",
    )


@pytest.mark.promise("I6", "C1", "U2")
def test_a_person_changes_the_payload_approves_it_and_sends_the_callback_again(
    entry: approval.Entry,
    page: "Page",
    site: str,  # noqa: F811
) -> None:
    log_in(page, site)
    page.goto(f"{site}/admin/hitl/park/{entry.approval_id}/")
    page.get_by_text("The decision will be sent to").wait_for()
    assert fits(page)
    page.locator("summary", has_text="Change the payload").click()
    form = page.locator("#edit form")
    form.get_by_label("amount").fill("100.50")
    assert fits(page)
    form.get_by_role("button", name="Save the payload").click()
    page.get_by_text("Changed. The requester will get this payload.").wait_for()
    page.get_by_text("What was asked first, before it was changed").wait_for()
    page.get_by_role("button", name="Approve", exact=True).click()
    page.get_by_text("Approved. Whoever asked is told so.").wait_for()
    told = approval.get(entry.approval_id).decision
    assert told is not None
    assert told.payload == entry.payload | {"amount": 100.5}
    CallbackDelivery.objects.update(
        status="dead", next_attempt_at=None, attempts=12, last_error="The receiver answered 500."
    )
    page.goto(f"{site}/admin/hitl/callbackdelivery/")
    assert fits(page)
    page.get_by_role("link", name="Refund 249.00").click()
    page.get_by_role("button", name="Send it again").click()
    page.get_by_text("The callback is sent again.").wait_for()
    assert fits(page)
    assert hitl.decide(entry.approval_id, False).code == "already_answered"
