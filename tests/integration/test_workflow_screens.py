"""The pages of runs, triggers and events: inert, careful, of one cost whatever they hold."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from agents.models import Run, Trigger, TriggerDelivery
from agents.states import RunStatus
from agents.testing import run_worker
from agents.triggers import deliveries
from agents.workflows import authoring, define_hook, request_approval, retry, step, workflow
from hitl import clock
from tests.integration.admin_site import boss, person, said
from tests.integration.test_admin_screens import EVIL, check_inert

pytestmark = pytest.mark.django_db

SECRET = "a-shared-secret-of-24-chars"
ping = define_hook("ping")
works: list[bool] = []


@pytest.fixture(autouse=True)
def _workflows(settings: Any) -> Iterator[None]:
    settings.AGENTS = {**settings.AGENTS, "TRIGGER_SECRETS": {"mail": SECRET}}
    works.clear()
    before = dict(authoring._workflows)
    define()
    yield
    authoring._workflows.clear()
    authoring._workflows.update(before)


def define() -> None:
    @step(name="say", retries=0)
    def say(text: str) -> str:
        if not works:
            raise RuntimeError(EVIL)
        return EVIL

    @workflow
    async def evil(text: str, amount: float = 1.0, tags: list[str] | None = None) -> Any:
        await request_approval("evil", {"text": text}, title=EVIL, description=EVIL)
        return await say(text)

    @workflow
    async def counting(count: int) -> int:
        for number in range(count):
            await say(str(number))
        return count

    @workflow
    async def keyed(key: str) -> Any:
        await ping.create(token=key)
        return await say(key)


def begun(name: str = "evil", **given: Any) -> Run:
    run = authoring.get(name).start(**(given or {"text": EVIL}))
    run_worker()
    return fresh(run)


def fresh(run: Run) -> Run:
    return Run.objects.get(id=run.id)


def trigger(**fields: Any) -> Trigger:
    return Trigger.objects.create(
        **{
            "slug": "mail",
            "workflow": "evil",
            "enabled": True,
            "verification": "secret",
            "secret": "mail",
            "created_at": clock.now(),
            **fields,
        }
    )


def page(name: str, row: Any = None) -> str:
    return reverse(f"admin:agents_{name}", args=[] if row is None else [row.id])


@pytest.mark.promise("U4", "U5")
def test_the_pages_of_runs_are_inert(db: None) -> None:
    run = begun()
    client = boss()
    check_inert(client.get(page("run_change", run)))
    works.append(True)
    from tests.integration.test_workflow_console import answered

    done = answered(run)
    assert done.status == "COMPLETED", done.error
    check_inert(client.get(page("run_change", done)))
    works.clear()
    failed = answered(begun())
    assert failed.status == "FAILED"
    check_inert(client.get(page("run_change", failed)))
    check_inert(client.get(page("run_changelist")), shows=False)


@pytest.mark.promise("K5", "U5")
def test_the_pages_of_triggers_and_events_are_inert(db: None) -> None:
    made = trigger(correlation_key="text", input="{nope: text}")
    for number in range(2):
        deliveries.receive(
            made, delivery_id=f"{number}{EVIL}", digest="", body={"text": EVIL[:150]}
        )
    Trigger.objects.update(
        refused_count=1, refused_at=clock.now(), refused_why=EVIL[:200].replace("\0", "␀")
    )
    run_worker()
    client = boss()
    shown = client.get(page("trigger_page", made))
    check_inert(shown, shows=False)
    assert "{{7*7}}" in shown.content.decode().replace("&#x27;", "'")
    tried = client.post(page("trigger_page", made), {"event": json.dumps({"text": EVIL[:150]})})
    check_inert(tried, shows=False)
    for delivery in TriggerDelivery.objects.all():
        check_inert(client.get(page("triggerdelivery_change", delivery)), shows=False)
    check_inert(client.get(page("triggerdelivery_changelist")), shows=False)
    check_inert(client.get(page("trigger_changelist")), shows=False)


def queries(client: Client, path: str) -> int:
    client.get(path)
    with CaptureQueriesContext(
        connection,
    ) as captured:
        assert client.get(path).status_code == 200
    return len(captured)


@pytest.mark.promise("U4")
def test_a_page_costs_the_same_whatever_the_journal_holds(db: None) -> None:
    works.append(True)
    client = boss()
    few, many = begun("counting", count=2), begun("counting", count=250)
    assert many.status == "COMPLETED"
    assert queries(client, page("run_change", few)) == queries(client, page("run_change", many))
    shown = client.get(page("run_change", many))
    assert "Show earlier entries" in shown.content.decode()
    earlier = client.get(page("run_change", many), {"before": "50"})
    assert earlier.status_code == 200
    assert "Show earlier entries" not in earlier.content.decode()
    assert client.get(page("run_change", many), {"before": "x" * 50}).status_code == 200


@pytest.mark.promise("W12", "U6")
def test_the_start_form_takes_typed_fields_and_refuses_what_start_would(db: None) -> None:
    client = boss()
    address = page("run_start") + "?workflow=evil"
    assert client.get(page("run_start") + "?workflow=nobody").status_code == 404
    for given in (
        {"input-text": "a", "input-amount": "much"},
        {"input-text": "a", "input-amount": "1e999"},
        {"input-text": "a", "input-tags": "{"},
        {"input-text": "a", "input-tags": "7"},
    ):
        assert client.post(address, given).status_code == 200, given
    assert client.post(address, {"input-text": "a" * 3_000_000}).status_code == 400
    assert not Run.objects.exists()
    given = {"input-text": "a\r\nb", "input-amount": "2.5", "input-tags": '["x"]'}
    for _ in range(2):
        done = client.post(address, {**given, "idempotency_key": "k"})
        assert done.status_code == 302
    [run] = Run.objects.all()
    assert run.input == {"text": "a\nb", "amount": 2.5, "tags": ["x"]}
    looker = person("looker", "agents.view_run")
    assert looker.post(address, given).status_code == 403
    assert looker.post(page("run_cancel", run), {"reason": ""}).status_code == 403
    assert looker.post(page("run_retry", run)).status_code == 403
    assert fresh(run).status == RunStatus.QUEUED


@pytest.mark.promise("U4", "U6", "W8")
def test_cancel_and_retry_tell_what_came_of_them(db: None) -> None:
    client, run = boss(), begun()
    done = client.post(page("run_cancel", run), {"reason": "enough"}, follow=True)
    assert said(done)[0][0] == "success"
    assert fresh(run).error == "enough"
    late = client.post(page("run_cancel", run), {"reason": ""}, follow=True)
    assert said(late)[0][0] == "warning"
    assert said(client.post(page("run_retry", run), follow=True))[0][0] == "warning"


@pytest.mark.promise("K2", "W8")
def test_a_retried_run_leaves_events_to_the_run_that_took_its_key(db: None) -> None:
    made = trigger(workflow="keyed", correlation_key="key", input="{key: key}")
    for name in ("e1", "e2"):
        deliveries.receive(made, delivery_id=name, digest="", body={"key": "k"})
        run_worker()
    [first] = Run.objects.all()
    assert first.status == "FAILED"
    deliveries.receive(made, delivery_id="e3", digest="", body={"key": "k"})
    run_worker()
    second = Run.objects.order_by("id").last()
    assert second is not None
    assert (second.status, second.correlation_key) == ("WAITING_FOR_INPUT", "k")
    works.append(True)
    assert retry(first)
    run_worker()
    assert (fresh(first).status, fresh(first).correlation_key) == ("COMPLETED", None)
    assert fresh(second).correlation_key == "k"


@pytest.mark.promise("K5", "U6")
def test_a_trigger_is_created_disabled_and_enabled_only_when_it_can_work(db: None) -> None:
    client = boss()
    fields = {
        "slug": "new",
        "workflow": "evil",
        "verification": "secret",
        "secret": "absent",
        "buffer_window": "5m",
        "starts_runs": "on",
        "enabled": "on",
    }
    assert client.post(page("trigger_add"), fields).status_code == 302
    made = Trigger.objects.get()
    assert not made.enabled
    change = page("trigger_change", made)
    assert b"has no secret of this name" in client.post(change, fields).content
    for window in ("soon", "0s", "9d", ""):
        refused = client.post(change, {**fields, "secret": "mail", "buffer_window": window})
        assert refused.status_code == 200, window
    Trigger.objects.update(refused_count=3)
    assert client.post(change, {**fields, "secret": "mail"}).status_code == 302
    made.refresh_from_db()
    assert (made.enabled, made.refused_count) == (True, 3)
    looker = person("looker", "agents.view_trigger")
    assert looker.get(page("trigger_page", made)).status_code == 200
    assert looker.post(change, fields).status_code == 403
