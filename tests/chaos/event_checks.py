"""What must hold of events from outside: each was handled once, for the run that its key names."""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise

from agents.models import Run
from agents.states import DeliveryStatus, RunStatus
from tests.chaos.evidence import Check, Evidence

FOR_EVER = datetime.max.replace(tzinfo=UTC)


def an_event_that_was_taken_is_handled(evidence: Evidence) -> Iterator[str]:
    """K2, K3: whatever the site acknowledged has one row, which began or resumed a run."""
    for line in evidence.journal_file.lines("posted"):
        if line["status"] in (200, 202):
            event = evidence.events.get(line["event"])
            if event is None or str(event.id) != line["told"]["delivery"]:
                yield f"event {line['event']} was taken as {line['told']}, and its row is {event}"
        elif 0 < line["status"] < 500:
            yield f"event {line['event']} was refused with {line['status']}"
    for event in evidence.events.values():
        if event.status not in (DeliveryStatus.STARTED, DeliveryStatus.RESUMED):
            yield f"event {event.delivery_id} is {event.status}: {event.error}"


def an_event_has_its_effect_once(evidence: Evidence) -> Iterator[str]:
    """K3: it began the one run that its row names, or came to one hook of it, and not both."""
    began = Counter(str(run.input["event"]) for run in _of_mail(evidence))
    came: Counter[str] = Counter()
    answered: Counter[str] = Counter()
    for entry in (one for run in _of_mail(evidence) for one in evidence.journals[str(run.id)]):
        if entry.kind == "hook" and isinstance(entry.result, dict):
            came[str(entry.result["event"])] += 1
        if entry.kind == "step" and entry.name == "chaos.charge":
            answered[str(entry.input["about"])] += 1  # type: ignore[index,call-overload]
    for name, event in evidence.events.items():
        started = event.status == DeliveryStatus.STARTED
        if (began[name], came[name]) != (started, event.status == DeliveryStatus.RESUMED):
            yield f"event {name} is {event.status}; began {began[name]}, came {came[name]} times"
        run = evidence.runs.get(str(event.run_id))
        if answered[name] > 1:
            yield f"event {name} was answered {answered[name]} times"
        if run is not None and run.status == RunStatus.COMPLETED and not answered[name]:
            yield f"event {name} was given to run {run.id} and never answered"
    for name in (began + came).keys() - evidence.events.keys():
        yield f"event {name} came from nobody"


def one_run_at_a_time_has_a_key(evidence: Evidence) -> Iterator[str]:
    """K2: those that events with one key began follow each other."""
    runs = sorted(_of_mail(evidence), key=lambda run: (run.correlation_key or "", run.created_at))
    for first, second in pairwise(runs):
        if first.correlation_key != second.correlation_key:
            continue
        if second.created_at < (first.finished_at or FOR_EVER):
            yield f"runs {first.id} and {second.id} shared the key {first.correlation_key}"


def _of_mail(evidence: Evidence) -> list[Run]:
    return [run for run in evidence.workflows.values() if run.target == "chaos.mail"]


CHECKS: tuple[Check, ...] = (
    an_event_that_was_taken_is_handled,
    an_event_has_its_effect_once,
    one_run_at_a_time_has_a_key,
)
