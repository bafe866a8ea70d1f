"""Events that come to triggers, as passages: kept, delivered, mended, handled again, forgotten.

The acts may be repeated, as by a sender that got no reply: the same delivery id is the same event.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from agents.models import Trigger, TriggerDelivery
from agents.states import DeliveryStatus
from agents.triggers import deliveries
from agents.workflows import sleep, workflow
from hitl import clock, sweeping
from tests.simulation.passages import Passage, do, reply, wait, work

LOOKS_MAX = 20


@workflow(name="passage.talk")
async def talk(key: str) -> Any:
    await sleep("1h")
    said = []
    async for word in reply.create(token=key):
        said.append(await do(word))
        if word == "bye":
            break
    return said


@workflow(name="passage.noted")
async def noted(key: str) -> Any:
    return await do(key)


def event(flow: Any, word: str, *, given: str = "{key: key}") -> Callable[[], None]:
    """Receive an event with this word, as the address of a trigger does."""

    def arriving() -> None:
        trigger, _ = Trigger.objects.get_or_create(
            slug="passage",
            defaults={
                "workflow": flow.name,
                "enabled": True,
                "secret": "none",
                "correlation_key": "key",
                "input": given,
                "payload": "word",
                "created_at": clock.now(),
                "buffer_window": timedelta(hours=4),
            },
        )
        body = {"key": "room", "word": word}
        deliveries.receive(trigger, delivery_id=word, digest="", body=body)

    return arriving


def handle() -> None:
    """Do what is owed until every event has been looked at, whatever pauses that takes."""
    work()
    received = TriggerDelivery.objects.filter(status=DeliveryStatus.RECEIVED)
    for _ in range(LOOKS_MAX):
        if not received.exists():
            return
        clock.advance(seconds=30)
        sweeping.sweep()
        work()
    raise AssertionError("an event is never settled")


def mend() -> None:
    """Mend the trigger, and have handled again what failed by it."""
    Trigger.objects.update(input="{key: key}")
    for delivery in TriggerDelivery.objects.filter(status=DeliveryStatus.FAILED):
        deliveries.rerun(delivery.id)


ARRIVALS = (
    Passage(
        "events for a run that begins to wait",
        (
            *(event(talk, "hello"), handle, event(talk, "a"), handle),
            *(wait(hours=2), handle, event(talk, "bye"), handle),
        ),
        ["a done", "bye done"],
        effects=2,
    ),
    Passage(
        "an event that fails, is handled again and forgotten",
        (event(noted, "one", given="{nope: key}"), handle, mend, handle, wait(days=40)),
        "room done",
        effects=1,
    ),
)
