"""Runs of workflows and triggers in a real browser: started, tried, followed, cancelled."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from django.test import Client

from agents.models import Run, Trigger
from agents.testing import run_worker
from agents.workflows import (
    RetryableError,
    authoring,
    define_hook,
    gather,
    now,
    race,
    request_approval,
    sleep,
    step,
    workflow,
)
from hitl import clock
from tests.browser.test_inbox import site  # noqa: F401  (a fixture)
from tests.browser.test_jobs import fits

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

SECRET = "a-shared-secret-of-24-chars"
ADDRESS = "customer-with-a-rather-long-address.and.more@subdomain.example.com"
tried: list[str] = []


@pytest.fixture(autouse=True)
def _workflows(settings: Any) -> Iterator[None]:
    settings.AGENTS = {**settings.AGENTS, "TRIGGER_SECRETS": {"mail": SECRET}}
    tried.clear()
    before = dict(authoring._workflows)
    define()
    yield
    authoring._workflows.clear()
    authoring._workflows.update(before)


def define() -> None:
    reply = define_hook("customer replies")

    @step(name="shop.look_up", retries=3)
    def look_up(order_id: str) -> dict[str, Any]:
        tried.append(order_id)
        if len(tried) < 2:
            raise RetryableError("the shop is busy", retry_after="1s")
        return {"order_id": order_id, "item": "espresso machine", "total": 249.0, "note": "x" * 300}

    @step(name="shop.pay")
    def pay(order_id: str, amount: float) -> str:
        raise RuntimeError("the bank says: <b>no</b>")

    @workflow
    async def refund(order_id: str, amount: float = 10.0, notify: bool = True) -> Any:
        """Pay a customer back, once somebody has said yes.

        Args:
            order_id: The number of the order.
            amount: In euros.
        """
        now()
        order, _ = await gather(look_up(order_id), sleep("1s"))
        decision = await request_approval(
            "refund", {"order": order, "amount": amount}, title=f"Refund {amount} on {order_id}?"
        )
        return await pay(order_id, amount) if decision.approved else "denied"

    @workflow
    async def ask(to: str, tags: list[str] | None = None) -> Any:
        """Wait for a customer's reply, three days long."""
        return (await race(reply.create(token=to), sleep("72h"))).value


def enter(page: "Page", address: str) -> None:
    page.goto(address)
    page.fill("[name=username]", "ana")
    page.fill("[name=password]", "secret")
    page.click("[type=submit]")


def work() -> None:
    run_worker()
    clock.advance(seconds=30)
    run_worker()


@pytest.mark.promise("U4", "U6", "W12")
def test_a_person_starts_a_workflow_approves_and_sees_where_it_failed(
    page: "Page",
    site: str,  # noqa: F811
) -> None:
    enter(page, f"{site}/admin/agents/run/")
    page.get_by_role("link", name="Start a workflow").click()
    assert fits(page)
    page.get_by_role("link", name="refund Pay").click()
    page.get_by_label("order_id").fill("17")
    assert fits(page)
    page.get_by_label("amount").evaluate("field => field.type = 'text'")
    page.get_by_label("amount").fill("much")
    page.get_by_role("button", name="Start").click()
    page.get_by_role("alert").first.wait_for()
    assert not Run.objects.exists()
    page.get_by_label("amount").fill("9.5")
    page.get_by_role("button", name="Start").click()
    page.get_by_text("The number of the order.").wait_for(state="detached")
    work()
    page.reload()
    page.get_by_text("Waiting for input").wait_for()
    assert page.get_by_text("2 tries").count() == 1
    assert fits(page)
    page.get_by_role("link", name="Refund 9.5 on 17?").click()
    page.get_by_role("button", name="Approve", exact=True).click()
    page.get_by_text("Approved.").first.wait_for()
    for _ in range(6):
        clock.advance(minutes=10)
        work()
    run = Run.objects.get()
    assert run.input == {"order_id": "17", "amount": 9.5, "notify": True}
    page.goto(f"{site}/admin/agents/run/{run.id}/")
    page.get_by_text("the bank says: <b>no</b>").first.wait_for()
    assert fits(page)
    page.get_by_role("button", name="Retry").click()
    page.get_by_text("The run goes on from its journal.").wait_for()
    page.locator("summary", has_text="Cancel").click()
    page.get_by_label("Reason").fill("enough")
    page.get_by_role("button", name="Cancel the run").click()
    page.get_by_text("Cancelled: what was open is withdrawn").wait_for()
    run.refresh_from_db()
    assert run.status == "CANCELLED"


@pytest.mark.promise("K5", "U5")
def test_a_person_makes_a_trigger_tries_an_event_and_finds_what_came(
    page: "Page",
    site: str,  # noqa: F811
) -> None:
    enter(page, f"{site}/admin/agents/trigger/add/")
    page.fill("[name=slug]", "mail")
    page.select_option("[name=workflow]", "ask")
    page.select_option("[name=verification]", "secret")
    page.fill("[name=secret]", "mail")
    page.fill("[name=delivery_id]", "id")
    page.fill("[name=correlation_key]", "from.")
    page.fill("[name=input]", "{to: from}")
    page.click("[name=_save]")
    page.get_by_text("is not JMESPath").wait_for()
    assert fits(page)
    page.fill("[name=correlation_key]", "from")
    page.click("[name=_save]")
    page.get_by_text("Created, disabled.").wait_for()
    event = {"id": "m1", "from": ADDRESS, "text": "hello"}
    page.fill("#event", json.dumps(event))
    page.get_by_role("button", name="Dry run").click()
    page.get_by_text("A run of ask would start.").wait_for()
    assert fits(page)
    page.get_by_role("link", name="Change or enable").click()
    page.check("[name=enabled]")
    page.click("[name=_save]")
    page.get_by_text("Saved.").wait_for()
    for number in range(3):
        sent = Client().post(
            "/hooks/triggers/mail",
            {**event, "id": f"m{number}"},
            content_type="application/json",
            headers={"X-Webhook-Secret": SECRET if number else "wrong"},
        )
        assert sent.status_code == (202 if number else 401)
        work()
    page.reload()
    page.get_by_text("Started", exact=True).wait_for()
    page.get_by_text("bad secret").wait_for()
    assert fits(page)
    page.locator("#event").evaluate("field => field.form.noValidate = true")
    page.get_by_role("link", name="m2").click()
    page.get_by_role("heading", name="m2").wait_for()
    assert fits(page)
    page.locator(".sayso-facts").get_by_role("link", name="ask").click()
    page.get_by_text("Completed").first.wait_for()
    assert fits(page)
    page.goto(f"{site}/admin/agents/triggerdelivery/")
    assert fits(page)
    page.goto(f"{site}/admin/agents/run/")
    assert fits(page)
    page.goto(f"{site}/admin/agents/trigger/")
    assert fits(page)
    assert Trigger.objects.get().refused_count == 1
