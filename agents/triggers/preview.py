"""What a trigger would do with an event: a dry run. Reads rows, writes none, starts nothing."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from agents.models import Trigger, TriggerDelivery
from agents.triggers import handling, mapping
from agents.triggers.mapping import Meaning
from agents.workflows import authoring
from hitl import durations, schemas, values
from hitl.errors import HitlError
from hitl.models import Park
from hitl.values import JSON

UNSET: Any = object()


@dataclass(slots=True)
class Preview:
    """What the expressions find, and in `verdict` what would become of the event.

    `works` says whether something would come of it. What was not looked for is left out of `found`.
    """

    found: list[tuple[str, JSON]]
    verdict: str = ""
    works: bool = False
    run_id: UUID | None = None


def of(trigger: Trigger, text: str) -> Preview:
    """Return what would become of an event with this body, if it came now."""
    preview = Preview([])
    try:
        _look(trigger, values.parse(text), preview)
    except HitlError as error:
        preview.verdict = f"It would fail: {error}"
    return preview


def _look(trigger: Trigger, event: JSON, preview: Preview) -> None:
    delivery_id = None
    if trigger.delivery_id:
        delivery_id = mapping.delivery_id(trigger, event, {})
        preview.found.append((mapping.DELIVERY_ID, delivery_id))
    meaning = mapping.read(trigger, event)
    if meaning.key:
        preview.found.append((mapping.KEY, meaning.key))
    known = TriggerDelivery.objects.filter(trigger=trigger, delivery_id=delivery_id).first()
    if known is not None:
        preview.verdict = f"Nothing: this delivery id came before, and was {known.status}."
        return
    run_id = handling.active_for(trigger.workflow, meaning.key) if meaning.key else None
    if run_id is not None:
        preview.run_id = run_id
        _give(trigger, meaning, preview)
    elif trigger.starts_runs or not meaning.key:
        arguments = authoring.get(trigger.workflow).read(**_input(meaning, preview))
        preview.found.append(("complete input", arguments))
        preview.verdict, preview.works = f"A run of {trigger.workflow} would start.", True
    else:
        preview.verdict = "It would be ignored: no run waits for this key."


def _input(meaning: Meaning, preview: Preview) -> dict[str, Any]:
    found = meaning.input()
    preview.found.append((mapping.INPUT, found))
    return found


def _give(trigger: Trigger, meaning: Meaning, preview: Preview) -> None:
    preview.found.append((mapping.PAYLOAD, meaning.payload))
    hook = Park.objects.pending().filter(token=meaning.key).first()
    if hook is None:
        window = durations.spell(trigger.buffer_window)
        preview.verdict = (
            f"It would be kept up to {window} for a run that does not wait for it yet."
        )
        preview.works = True
        return
    if hook.schema is not None and (said := schemas.fault(hook.schema, meaning.payload)):
        preview.verdict = f"It would fail: {said}"
        return
    preview.verdict, preview.works = "A run that waits for it would go on.", True
