"""What is done with one event: give it to the run that waits for its key, keep it, or start a run.

The choice is made with the run locked, so it is one choice under any number of events, and of
hooks that open meanwhile (K2, K4):

- A hook with this token is open: its run is resumed, with the payload checked by the hook's schema.
- None is, but a run is active for the key: the event is kept for the trigger's window, and given to
  that run when its hook opens. A run is active for a key when an event with it began the run, or
  when it has held a hook with that token before.
- Neither: a run starts, if the trigger starts runs. A unique constraint lets one run at a time be
  active for a key; whoever loses looks again, and finds it.

The event that began a run is settled by that, in the same transaction, so it never answers the
run's own wait (K3). Lock order: the run, its parks, then the delivery.
"""

import hashlib
import logging
from uuid import UUID

from django.db import IntegrityError, InterfaceError, OperationalError, transaction

from agents import runs
from agents.models import Run, RunKind, TriggerDelivery
from agents.states import ACTIVE, FINAL, DeliveryStatus
from agents.triggers import deliveries, mapping
from agents.triggers.deliveries import Overtaken
from agents.triggers.mapping import Meaning
from agents.waiter import RunWaiter
from agents.workflows import authoring, verbs
from agents.workflows.authoring import Workflow
from hitl import faults, parks
from hitl.errors import HitlError
from hitl.models import Park
from hitl.states import Code, Reason

logger = logging.getLogger(__name__)

CHANNEL = "trigger"
LOOKS_MAX = 5


class KeyHeld(HitlError):
    """Something else than a hook of this workflow holds the key as its token."""

    code = "key_held"


class PayloadRefused(HitlError):
    """The payload does not fit what the hook asks for."""

    code = "payload_refused"


class _Moved(Exception):
    """What was seen before the lock is not so any more: look again."""


def handle(delivery_id: UUID) -> bool:
    """Handle one event, if it owes that; what goes wrong is in its row, or tried again later.

    Returns whether it owed that.
    """
    delivery = deliveries.begin(delivery_id)
    if delivery is None:
        return False
    try:
        _handle(delivery)
    except Overtaken:
        logger.info("delivery %s was settled by another worker", delivery.id)
    except (OperationalError, InterfaceError):  # no event's fault: the sweep has it tried again
        raise
    except HitlError as error:
        deliveries.fail(delivery, str(error))
    except Exception as error:
        logger.exception("delivery %s could not be handled this time", delivery.id)
        deliveries.stumble(delivery, error)
    return True


def active_for(workflow: str, key: str) -> UUID | None:
    """Return the run that events with this key are for: the holder of the token, or a run for it.

    Raises KeyHeld when the token is held by something that no trigger may answer.
    """
    held = Park.objects.pending().filter(token=key).first()
    if held is not None:
        is_ours = held.reason == Reason.HOOK and held.waiter_kind == RunWaiter.kind
        if not is_ours or not _of(workflow).filter(id=held.waiter_id).exists():
            raise KeyHeld(
                f"The key {key!r} is held by a wait that is no hook of the workflow {workflow}."
            )
        return held.waiter_id
    active = _of(workflow).filter(status__in=ACTIVE)
    began = active.filter(correlation_key=key).values_list("id", flat=True).first()
    if began is not None:
        return began
    holders = Park.objects.filter(token=key, reason=Reason.HOOK).values("waiter_id")
    return active.filter(id__in=holders).order_by("-id").values_list("id", flat=True).first()


def _of(workflow: str):  # type: ignore[no-untyped-def]
    return Run.objects.filter(kind=RunKind.WORKFLOW, target=workflow)


def _handle(delivery: TriggerDelivery) -> None:
    workflow = authoring.get(delivery.trigger.workflow)
    meaning = mapping.read(delivery.trigger, delivery.body)
    for _ in range(LOOKS_MAX):
        try:
            with transaction.atomic(durable=True):
                _choose(delivery, workflow, meaning)
                return
        except _Moved:
            continue
    logger.info("delivery %s: its key changes hands, it is looked at again later", delivery.id)


def _choose(delivery: TriggerDelivery, workflow: Workflow, meaning: Meaning) -> None:
    if not meaning.key:
        _start(delivery, workflow, meaning)
        return
    if deliveries.is_behind(delivery, meaning.key):
        deliveries.keep(delivery, meaning.key, delivery.trigger.buffer_window)
        return
    run_id = active_for(workflow.name, meaning.key)
    faults.point("delivery:looked")
    if run_id is not None:
        _give(delivery, run_id, meaning)
    elif delivery.trigger.starts_runs:
        _start(delivery, workflow, meaning)
    else:
        text = "No run waits for this key, and the trigger starts none."
        deliveries.settle(delivery, DeliveryStatus.IGNORED, key=meaning.key, error=text)


def _give(delivery: TriggerDelivery, run_id: UUID, meaning: Meaning) -> None:
    """Resume the run's hook with this event, or keep the event until it opens one."""
    run = runs.lock(run_id)
    if run is None or run.status in FINAL:
        raise _Moved
    hook = Park.objects.pending().filter(token=meaning.key).first()
    if hook is not None and (hook.waiter_id != run.id or hook.reason != Reason.HOOK):
        raise _Moved
    if hook is not None:
        actor = f"trigger {delivery.trigger.slug}"
        answer = parks.decide(hook.id, True, payload=meaning.payload, actor=actor, channel=CHANNEL)
        if answer.delivered:
            deliveries.settle(delivery, DeliveryStatus.RESUMED, key=meaning.key, run=run)
            return
        if answer.code == Code.INVALID_PAYLOAD:
            raise PayloadRefused(answer.error)
    deliveries.keep(delivery, meaning.key, delivery.trigger.buffer_window)


def _start(delivery: TriggerDelivery, workflow: Workflow, meaning: Meaning) -> None:
    """Start a run, at most one for this delivery, and one at a time for its key."""
    arguments = workflow.read(**meaning.input())
    try:
        with transaction.atomic():
            run = verbs.start(
                workflow,
                arguments,
                idempotency_key=_idempotency_key(delivery),
                correlation_key=meaning.key or None,
            )
    except IntegrityError:
        raise _Moved from None
    deliveries.settle(delivery, DeliveryStatus.STARTED, key=meaning.key, run=run)


def _idempotency_key(delivery: TriggerDelivery) -> str:
    """Return the same key for the same delivery, also once its row has been forgotten."""
    digest = hashlib.sha256(delivery.delivery_id.encode("utf-8", "surrogatepass")).hexdigest()
    return f"trigger:{delivery.trigger_id.hex}:{digest}"
