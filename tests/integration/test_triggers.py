"""Triggers through their address: what is taken, refused, handled once, kept, and shown in rows."""

import hashlib
import hmac
import json
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.test import Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents import backlog, segments
from agents.models import Run, Trigger, TriggerDelivery
from agents.testing import run_worker
from agents.triggers import deliveries, handling, preview
from agents.waiter import RunWaiter
from agents.workflows import authoring, cancel, define_hook, sleep, step, workflow
from hitl import clock, faults, hints, sweeping
from hitl.models import Park

pytestmark = pytest.mark.django_db

SECRET = "a-shared-secret-of-24-chars"
REPLY = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}

replied = define_hook("reply", schema=REPLY)
pinged = define_hook("ping")
effects: list[Any] = []


@pytest.fixture(autouse=True)
def _secrets(settings: Any) -> Any:
    settings.AGENTS = {**settings.AGENTS, "TRIGGER_SECRETS": {"mail": SECRET}}
    effects.clear()
    before = dict(authoring._workflows)
    define()
    yield
    authoring._workflows.clear()
    authoring._workflows.update(before)


def define() -> None:
    @step(name="remember")
    def remember(what: str) -> None:
        effects.append(what)

    @workflow
    async def ask(to: str, question: str = "?") -> Any:
        hook = replied.create(token=to)
        await remember(f"asked {to}")
        answer = await hook
        return answer["text"]

    @workflow
    async def late(to: str) -> Any:
        await sleep("1h")
        return await pinged.create(token=to)

    @workflow
    async def later(to: str) -> list[Any]:
        await sleep("1h")
        hook = pinged.create(token=to)
        return [await anext(hook), await anext(hook)]

    @workflow
    async def collect(to: str, count: int) -> list[Any]:
        found: list[Any] = []
        async for one in pinged.create(token=to):
            found.append(one)
            if len(found) == count:
                break
        return found


def trigger(slug: str = "mail", **fields: Any) -> Trigger:
    return Trigger.objects.create(
        **{
            "slug": slug,
            "workflow": "ask",
            "enabled": True,
            "verification": "secret",
            "secret": "mail",
            "delivery_id": "id",
            "correlation_key": "thread",
            "input": "{to: thread}",
            "created_at": clock.now(),
            **fields,
        }
    )


def post(event: Any, slug: str = "mail", *, secret: str = SECRET, **headers: Any) -> Any:
    body = event if isinstance(event, str | bytes) else json.dumps(event)
    return Client().post(
        f"/hooks/triggers/{slug}",
        body,
        content_type="application/json",
        headers={"X-Webhook-Secret": secret, **headers},
    )


def sole() -> TriggerDelivery:
    return TriggerDelivery.objects.get()


def statuses() -> list[str]:
    return list(TriggerDelivery.objects.order_by("id").values_list("status", flat=True))


# ── At the door ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("K2", "K5")
def test_an_event_is_taken_with_its_id_and_begins_a_run_later() -> None:
    trigger()
    response = post({"id": "e1", "thread": "t1"})
    assert response.status_code == 202
    assert response.json() == {"delivery": str(sole().id), "duplicate": False}
    assert (sole().status, Run.objects.count()) == ("received", 0)
    run_worker()
    [run] = Run.objects.all()
    assert (run.target, run.input["to"], run.correlation_key) == ("ask", "t1", "t1")
    assert (sole().status, sole().run, sole().key) == ("started", run, "t1")
    assert effects == ["asked t1"]


@pytest.mark.promise("K2", "K5")
def test_the_next_event_with_the_key_goes_to_the_run_that_waits() -> None:
    trigger()
    post({"id": "e1", "thread": "t1"})
    run_worker()
    post({"id": "e2", "thread": "t1", "text": "yes"})
    post({"id": "e3", "thread": "t2"})
    run_worker()
    first, second = Run.objects.order_by("id")
    assert (first.status, first.output) == ("COMPLETED", "yes")
    assert second.status == "WAITING_FOR_INPUT"
    assert statuses() == ["started", "resumed", "started"]
    [park] = Park.objects.filter(status="approved")
    assert (park.settled_by, park.channel) == ("trigger mail", "trigger")


@pytest.mark.promise("K3")
def test_a_redelivered_event_is_answered_as_a_duplicate_and_does_nothing_twice() -> None:
    """Field report COR-02: before, between and after its handling."""
    trigger()
    event = {"id": "e1", "thread": "t1"}
    assert post(event).status_code == 202
    again = post(event)
    assert (again.status_code, again.json()["duplicate"]) == (200, True)
    run_worker()
    assert post({**event, "text": "now it would fit"}).status_code == 200
    run_worker()
    assert statuses() == ["started"]
    assert Run.objects.get().status == "WAITING_FOR_INPUT"
    other = trigger("other")
    assert post(event, "other").status_code == 202, "an id counts for its trigger"
    assert other.deliveries.count() == 1


@pytest.mark.promise("K3")
def test_the_event_that_began_a_run_never_answers_its_wait() -> None:
    trigger(input="{to: thread, question: text}")
    post({"id": "e1", "thread": "t1", "text": "fits the hook as well"})
    run_worker()
    clock.advance(hours=2)
    run_worker()
    assert Run.objects.get().status == "WAITING_FOR_INPUT"
    assert statuses() == ["started"]


@pytest.mark.promise("K5")
def test_unknown_and_disabled_triggers_are_not_there() -> None:
    made = trigger(enabled=False)
    assert post({"id": "e1"}).status_code == 404
    assert post({"id": "e1"}, "nobody").status_code == 404
    Trigger.objects.filter(id=made.id).update(enabled=True)
    assert post({"id": "e1"}).status_code == 202
    assert Trigger().enabled is False


@pytest.mark.promise("K5")
def test_what_is_not_verified_leaves_a_count_and_no_row() -> None:
    made = trigger()
    for secret in ("", "wrong", SECRET[:-1]):
        refused = post({"id": "e1"}, secret=secret)
        assert (refused.status_code, refused.json()["code"]) == (401, "not_verified")
        assert "secret" not in refused.json()["error"]
    made.refresh_from_db()
    assert (made.refused_count, made.refused_why) == (3, "bad secret")
    assert not TriggerDelivery.objects.exists()


@pytest.mark.promise("K5")
@pytest.mark.parametrize("secret", ["", "short", "   "])
def test_without_a_real_secret_nothing_is_accepted(settings: Any, secret: str) -> None:
    trigger()
    settings.AGENTS = {**settings.AGENTS, "TRIGGER_SECRETS": {"mail": secret}}
    assert post({"id": "e1"}, secret=secret).status_code == 401


@pytest.mark.promise("K5")
def test_a_signature_is_over_the_very_bytes_that_came() -> None:
    trigger(verification="sha256", delivery_id="", delivery_header="X-GitHub-Delivery")
    body = b'{ "thread":"t1" }'
    signed = "sha256=" + hmac.digest(SECRET.encode(), body, hashlib.sha256).hex()
    headers = {"X-Hub-Signature-256": signed, "X-GitHub-Delivery": "g1"}
    assert post(b'{"thread":"t1"}', **headers).status_code == 401
    assert post(body, **headers).status_code == 202
    assert post(body, **headers).status_code == 200
    assert sole().delivery_id == "g1"
    assert sole().digest == "sha256:" + hashlib.sha256(body).hexdigest()


@pytest.mark.promise("K5", "H4")
@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 202), (b"{", 400), (b"\xff\xfe", 400), (b'{"a":1,"a":2}', 400), (b"NaN", 400),
        (b"[" * 10_000, 400), (b'"' + b"x" * 300_000 + b'"', 413), (b"7", 202), (b"null", 202),
        ('{"id": "' + "ü" * 120_000 + '"}', 202), (b'{"id": "\\u0000\\ud800"}', 202),
    ],
)  # fmt: skip
def test_any_body_has_its_answer(body: Any, status: int) -> None:
    trigger()
    assert post(body).status_code == status
    assert TriggerDelivery.objects.count() == (status == 202)


@pytest.mark.promise("K5")
def test_a_missing_delivery_id_is_taken_and_shown_as_failed() -> None:
    trigger()
    assert post({"thread": "t1"}).status_code == 202
    assert sole().status == "failed"
    assert "delivery id (id) gave nothing" in sole().error
    run_worker()
    assert not Run.objects.exists()


@pytest.mark.promise("K5")
def test_only_a_post_is_an_event() -> None:
    trigger()
    for method in ("get", "head", "put", "delete", "options"):
        assert getattr(Client(), method)("/hooks/triggers/mail").status_code == 405


BODIES = st.binary(max_size=60) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["id", "thread", "text", "x"]) | st.text(), inner)
    ),
    max_leaves=10,
).map(lambda value: json.dumps(value).encode())


@pytest.mark.promise("K5", "H4")
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(BODIES)
def test_no_body_makes_the_server_fail_and_every_one_taken_is_settled(body: bytes) -> None:
    Trigger.objects.filter(slug="mail").exists() or trigger()
    assert post(body).status_code in (200, 202, 400)
    run_worker()
    assert not TriggerDelivery.objects.filter(status="received").exists()


# ── Handling ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("K4")
def test_an_event_for_a_run_that_is_about_to_wait_is_kept_and_delivered_when_it_does() -> None:
    """Field report WAKE-07."""
    trigger(workflow="late", buffer_window=timedelta(hours=2))
    post({"id": "e1", "thread": "t1"})
    run_worker()
    post({"id": "e2", "thread": "t1", "n": 2})
    run_worker()
    assert statuses() == ["started", "buffered"]
    clock.advance(minutes=61)
    run_worker()
    [run] = Run.objects.all()
    assert (run.status, run.output) == ("COMPLETED", {"id": "e2", "thread": "t1", "n": 2})
    assert statuses() == ["started", "resumed"]


@pytest.mark.promise("K4")
def test_the_hook_that_opens_hurries_what_is_kept_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    trigger(workflow="late", buffer_window=timedelta(hours=2))
    post({"id": "e1", "thread": "t1"})
    run_worker()
    post({"id": "e2", "thread": "t1"})
    run_worker()
    kept = TriggerDelivery.objects.get(status="buffered")
    sent: list[Any] = []
    monkeypatch.setattr(hints, "send", lambda task, *args, **_: sent.append((task, *args)))
    clock.advance(minutes=61)
    sweeping.settle_due()
    for run_id in backlog.owing():
        segments.run_segment(run_id, keep_alive=False)
    assert (deliveries.TASK, str(kept.id)) in sent


@pytest.mark.promise("K4")
def test_what_is_kept_past_its_window_expires_visibly_and_can_be_handled_again() -> None:
    trigger(workflow="late", buffer_window=timedelta(minutes=5))
    post({"id": "e1", "thread": "t1"})
    run_worker()
    post({"id": "e2", "thread": "t1"})
    run_worker()
    clock.advance(minutes=6)
    run_worker()
    assert statuses() == ["started", "expired"]
    expired = TriggerDelivery.objects.get(status="expired")
    assert "within the window" in expired.error
    clock.advance(minutes=60)
    run_worker()
    assert Run.objects.get().status == "WAITING_FOR_INPUT"
    assert deliveries.rerun(expired.id)
    run_worker()
    assert statuses() == ["started", "resumed"]
    assert not deliveries.rerun(expired.id)


@pytest.mark.promise("K4", "K2")
def test_events_kept_for_one_key_are_delivered_in_their_order() -> None:
    """Field report COR-03."""
    trigger(workflow="collect", input="{to: thread, count: `5`}", payload="n")
    for number in range(6):
        post({"id": f"e{number}", "thread": "t1", "n": number})
    run_worker()
    [run] = Run.objects.all()
    assert (run.status, run.output) == ("COMPLETED", [1, 2, 3, 4, 5])


@pytest.mark.promise("K4")
def test_a_newer_event_waits_behind_those_that_are_kept() -> None:
    trigger(workflow="later", buffer_window=timedelta(hours=2), payload="n")
    for number in range(2):
        post({"id": f"e{number}", "thread": "t1", "n": number})
        run_worker()
    clock.advance(minutes=61)
    sweeping.settle_due()
    for run_id in backlog.owing():
        segments.run_segment(run_id, keep_alive=False)
    newest = post({"id": "e2", "thread": "t1", "n": 2}).json()["delivery"]
    handling.handle(UUID(newest))
    assert statuses() == ["started", "buffered", "buffered"]
    run_worker()
    assert Run.objects.get().output == [1, 2]


@pytest.mark.promise("K3")
def test_a_worker_that_another_overtook_changes_nothing() -> None:
    trigger(workflow="collect", input="{to: thread, count: `5`}")
    post({"id": "e1", "thread": "t1"})
    row = sole()
    overtaken: list[str] = []

    def overtake(name: str) -> None:
        if name == "delivery:begun" and not overtaken:
            overtaken.append(name)
            handling.handle(row.id)
            run_worker()

    with faults.armed(overtake):
        handling.handle(row.id)
    assert overtaken
    assert statuses() == ["started"]
    assert Run.objects.get().status == "WAITING_FOR_INPUT"
    assert not Park.objects.exclude(status="pending").exists(), "the event answered its own run"


@pytest.mark.promise("K4")
def test_what_was_kept_for_a_run_that_ended_without_waiting_begins_another() -> None:
    trigger(workflow="late", buffer_window=timedelta(minutes=5))
    post({"id": "e1", "thread": "t1"})
    run_worker()
    post({"id": "e2", "thread": "t1"})
    run_worker()
    cancel(Run.objects.get(), reason="enough")
    clock.advance(minutes=1)
    run_worker()
    assert statuses() == ["started", "started"]
    assert Run.objects.count() == 2


@pytest.mark.promise("K2", "K5")
def test_a_payload_that_does_not_fit_fails_visibly_and_the_run_waits_on() -> None:
    trigger()
    post({"id": "e1", "thread": "t1"})
    run_worker()
    post({"id": "e2", "thread": "t1", "text": 7})
    run_worker()
    assert statuses() == ["started", "failed"]
    assert "text" in TriggerDelivery.objects.get(status="failed").error
    assert Run.objects.get().status == "WAITING_FOR_INPUT"


@pytest.mark.promise("K2")
def test_a_trigger_may_start_no_runs() -> None:
    trigger(starts_runs=False)
    post({"id": "e1", "thread": "t1", "text": "hello"})
    run_worker()
    assert (statuses(), Run.objects.count()) == (["ignored"], 0)
    run = authoring.get("ask").start(to="t1")
    run_worker()
    assert deliveries.rerun(sole().id)
    run_worker()
    run.refresh_from_db()
    assert (statuses(), run.output) == (["resumed"], "hello")


@pytest.mark.promise("K2")
def test_without_a_key_each_event_begins_a_run() -> None:
    trigger(correlation_key="", workflow="late")
    post({"id": "e1", "thread": "t1"})
    post({"id": "e2", "thread": "t1"})
    run_worker()
    assert Run.objects.count() == 2
    assert set(Run.objects.values_list("correlation_key", flat=True)) == {None}


@pytest.mark.promise("K1", "K2")
def test_a_trigger_answers_hooks_of_its_workflow_and_nothing_else() -> None:
    authoring.get("late")
    trigger(workflow="late")
    authoring.get("ask").start(to="t1")
    run_worker()
    post({"id": "e1", "thread": "t1", "text": "hello"})
    run_worker()
    assert sole().status == "failed"
    assert "no hook of the workflow late" in sole().error
    assert Run.objects.get().status == "WAITING_FOR_INPUT"


@pytest.mark.promise("K5")
@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"correlation_key": "nothing"}, "correlation key (nothing) gave nothing"),
        ({"input": "thread"}, "no object"),
        ({"input": "{to: thread, more: id}"}, "unexpected keyword argument 'more'"),
        ({"workflow": "gone"}, "no workflow 'gone'"),
    ],
)
def test_what_cannot_be_used_fails_with_a_sentence(fields: dict[str, Any], words: str) -> None:
    trigger(**fields)
    post({"id": "e1", "thread": "t1"})
    run_worker()
    assert sole().status == "failed"
    assert words in sole().error
    assert not Run.objects.exists()


@pytest.mark.promise("K5")
def test_an_event_that_fails_again_and_again_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    trigger()

    def broken(*_: Any) -> None:
        raise RuntimeError("disk full")

    monkeypatch.setattr(handling, "_choose", broken)
    post({"id": "e1", "thread": "t1"})
    for _ in range(10):
        run_worker()
        clock.advance(minutes=20)
    assert (sole().status, sole().attempts) == ("failed", 8)
    assert sole().error == "Given up after 8 attempts. RuntimeError: disk full"
    monkeypatch.undo()
    assert deliveries.rerun(sole().id)
    run_worker()
    assert sole().status == "started"


@pytest.mark.promise("K5")
def test_a_lost_hint_is_repeated_by_the_sweep_and_old_events_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trigger()
    post({"id": "e1", "thread": "t1"})
    sent: list[Any] = []
    monkeypatch.setattr(hints, "send", lambda task, *args, **_: sent.append((task, *args)))
    clock.advance(minutes=1)
    assert RunWaiter().sweep()["events_hinted"] == 1
    assert (deliveries.TASK, str(sole().id)) in sent
    monkeypatch.undo()
    run_worker()
    clock.advance(days=29)
    assert RunWaiter().sweep()["events_forgotten"] == 0
    clock.advance(days=2)
    assert RunWaiter().sweep()["events_forgotten"] == 1
    post({"id": "e1", "thread": "t1"})
    cancel(Run.objects.get())
    run_worker()
    assert Run.objects.count() == 1, "the run that this delivery began is remembered"


# ── Dry run ──────────────────────────────────────────────────────────────────────────────────────


def tried(made: Trigger, event: Any) -> tuple[str, dict[str, Any]]:
    before = list(TriggerDelivery.objects.values()), list(Run.objects.values())
    found = preview.of(made, event if isinstance(event, str) else json.dumps(event))
    assert (list(TriggerDelivery.objects.values()), list(Run.objects.values())) == before
    return found.verdict, dict(found.found)


@pytest.mark.promise("K5")
def test_a_dry_run_says_what_would_happen_and_does_nothing() -> None:
    made = trigger()
    said, found = tried(made, {"id": "e1", "thread": "t1"})
    assert said == "A run of ask would start."
    assert (found["delivery id"], found["correlation key"]) == ("e1", "t1")
    assert found["complete input"] == {"to": "t1", "question": "?"}
    post({"id": "e1", "thread": "t1"})
    run_worker()
    assert tried(made, {"id": "e1", "thread": "t1"})[0].startswith("Nothing: this delivery id")
    assert tried(made, {"id": "e2", "thread": "t1", "text": "a"})[0].endswith("would go on.")
    assert tried(made, {"id": "e2", "thread": "t1"})[0].startswith("It would fail: The payload")
    assert tried(made, "{")[0].startswith("It would fail: The text is not valid JSON")
    assert tried(made, {"id": "e3"})[0].startswith("It would fail: The correlation key")


@pytest.mark.promise("K5")
def test_a_dry_run_tells_what_would_be_kept_and_what_ignored() -> None:
    made = trigger(workflow="late")
    post({"id": "e1", "thread": "t1"})
    run_worker()
    assert "kept up to 5m" in tried(made, {"id": "e2", "thread": "t1"})[0]
    silent = trigger("silent", workflow="late", starts_runs=False)
    assert "ignored" in tried(silent, {"id": "e2", "thread": "t9"})[0]
