"""Events that meet each other, and the hook that opens, on real PostgreSQL: none lost, none twice.

Real threads; what is staged waits at a fault point, or until the server shows it waiting for a
lock.
"""

import json
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from django.test import Client

from agents import segments
from agents.models import Run, Trigger, TriggerDelivery
from agents.testing import run_worker
from agents.triggers import deliveries, handling
from agents.workflows import authoring, define_hook, step, workflow
from hitl import clock
from tests.integration import racing
from tests.integration.staging import Crew, Hold, crew

pytestmark = [pytest.mark.services, pytest.mark.timeout(300)]

SECRET = "a-shared-secret-of-24-chars"
MANY = 20

ping = define_hook("ping")
seen: list[Any] = []


@pytest.fixture(autouse=True)
def _site(transactional_db: None, settings: Any) -> Iterator[None]:
    racing.needs_postgresql()
    settings.AGENTS = {**settings.AGENTS, "TRIGGER_SECRETS": {"mail": SECRET}}
    seen.clear()
    before = dict(authoring._workflows)
    define()
    yield
    clock.reset()
    authoring._workflows.clear()
    authoring._workflows.update(before)


def define() -> None:
    @step(name="prepare")
    def prepare(key: str) -> None:
        seen.append(key)

    @workflow
    async def gathering(key: str, count: int) -> list[Any]:
        await prepare(key)
        found: list[Any] = []
        async for one in ping.create(token=key):
            found.append(one)
            if len(found) == count:
                break
        return found


@pytest.fixture
def hands() -> Iterator[Crew]:
    with crew() as made:
        yield made


def trigger(count: int) -> Trigger:
    return Trigger.objects.create(
        slug="mail",
        workflow="gathering",
        enabled=True,
        verification="secret",
        secret="mail",
        delivery_id="id",
        correlation_key="key",
        input=f"{{key: key, count: `{count}`}}",
        payload="id",
        buffer_window=timedelta(hours=1),
        created_at=clock.now(),
    )


def post(event_id: str) -> Any:
    return Client().post(
        "/hooks/triggers/mail",
        json.dumps({"id": event_id, "key": "k"}),
        content_type="application/json",
        headers={"X-Webhook-Secret": SECRET},
    )


def came(*event_ids: str) -> list[UUID]:
    return [UUID(post(each).json()["delivery"]) for each in event_ids]


def statuses() -> Counter[str]:
    return Counter(TriggerDelivery.objects.values_list("status", flat=True))


def segment(run: Run) -> bool:
    return segments.run_segment(run.id, keep_alive=False)


@pytest.mark.promise("K2", "K3", "K4")
def test_of_twenty_events_with_one_key_one_begins_a_run_and_the_rest_go_to_it(hands: Crew) -> None:
    """Field report COR-03."""
    trigger(MANY - 1)
    ids = came(*[f"e{number:02}" for number in range(MANY)])
    hands.together(*[partial(handling.handle, each) for each in ids])
    assert statuses() == {"started": 1, "buffered": MANY - 1}
    run_worker()
    [run] = Run.objects.all()
    assert run.status == "COMPLETED"
    begun_by = TriggerDelivery.objects.get(status="started").delivery_id
    assert sorted([*run.output, begun_by]) == [f"e{number:02}" for number in range(MANY)]
    assert list(run.output) == sorted(run.output), "in the order in which they came"
    assert seen == ["k"]


@pytest.mark.promise("K2")
def test_two_events_of_which_each_sees_no_run_start_one(hands: Crew) -> None:
    trigger(1)
    first, second = came("e1", "e2")
    holds = [Hold("delivery:looked"), Hold("delivery:looked")]
    one = hands.start(handling.handle, first, holds=[holds[0]])
    other = hands.start(handling.handle, second, holds=[holds[1]])
    for hold in holds:
        hold.wait_for_it()
    for hold in holds:
        hold.let_go()
    one.result()
    other.result()
    assert statuses() == {"started": 1, "buffered": 1}
    run_worker()
    assert Run.objects.get().status == "COMPLETED"


@pytest.mark.promise("K4", "K1")
def test_an_event_against_the_hook_that_opens_is_never_lost(hands: Crew) -> None:
    """Field reports WAKE-03 and WAKE-07: the hook has the run, and the event waits for it."""
    trigger(1)
    [first] = came("e1")
    handling.handle(first)
    [second] = came("e2")
    run = Run.objects.get()
    hold = Hold("park:opened")
    opening = hands.start(segment, run, holds=[hold])
    hold.wait_for_it()
    handled = hands.start(handling.handle, second)
    assert hands.until_blocked(handled) == {opening.backend}
    hold.let_go()
    opening.result()
    handled.result()
    assert statuses() == {"started": 1, "resumed": 1}
    run_worker()
    run.refresh_from_db()
    assert (run.status, run.output) == ("COMPLETED", ["e2"])


@pytest.mark.promise("K4", "K1")
def test_the_hook_that_opens_after_the_event_was_kept_finds_it(hands: Crew) -> None:
    """The event has the run, and the hook that opens waits for it."""
    trigger(1)
    [first] = came("e1")
    handling.handle(first)
    [second] = came("e2")
    run = Run.objects.get()
    before = Hold("segment:boundary")
    opening = hands.start(segment, run, holds=[before])
    before.wait_for_it()
    kept = Hold("delivery:kept")
    handled = hands.start(handling.handle, second, holds=[kept])
    kept.wait_for_it()
    before.let_go()
    assert hands.until_blocked(opening) == {handled.backend}
    kept.let_go()
    handled.result()
    opening.result()
    assert deliveries.owing() == [second], "the hook that opened said so in the row"
    run_worker()
    run.refresh_from_db()
    assert (run.status, run.output) == ("COMPLETED", ["e2"])


@pytest.mark.promise("K4")
def test_event_and_hook_meet_many_times_and_no_run_is_left_waiting(hands: Crew) -> None:
    trigger(1)
    for number in range(15):
        first, second = came(f"a{number}", f"b{number}")
        handling.handle(first)
        run = Run.objects.get(status="QUEUED")
        hands.together(partial(segment, run), partial(handling.handle, second))
        run_worker()
        run.refresh_from_db()
        assert (run.status, run.output) == ("COMPLETED", [f"b{number}"])


@pytest.mark.promise("K3")
def test_one_delivery_that_comes_ten_times_at_once_is_one_row_and_one_effect(hands: Crew) -> None:
    """Field report COR-02."""
    trigger(1)
    answers = hands.together(*[partial(post, "e1") for _ in range(10)])
    assert Counter(one.status_code for one in answers) == {202: 1, 200: 9}
    assert len({one.json()["delivery"] for one in answers}) == 1
    [row] = TriggerDelivery.objects.all()
    hands.together(*[partial(handling.handle, row.id) for _ in range(10)])
    assert (statuses(), Run.objects.count()) == ({"started": 1}, 1)


@pytest.mark.promise("K3")
def test_one_delivery_handled_by_many_workers_resumes_once(hands: Crew) -> None:
    trigger(2)
    came("e1")
    run_worker()
    for event_id in ("e2", "e3"):
        [row] = came(event_id)
        hands.together(*[partial(handling.handle, row) for _ in range(8)])
    run_worker()
    run = Run.objects.get()
    assert (run.status, run.output) == ("COMPLETED", ["e2", "e3"])
