"""What must hold of guardrails: nothing that one held or blocked went on without a person."""

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime

from agents.models import ToolCall
from agents.states import Outcome, RunStatus
from hitl.states import ParkStatus
from tests.chaos import rules, scripts
from tests.chaos.evidence import Check, Evidence


def a_call_goes_by_its_verdict(evidence: Evidence) -> Iterator[str]:
    """G1, G2: it did break the rule; blocked it never acted, held it was asked about."""
    for call, row in evidence.calls.items():
        if row.verdict is None:
            continue
        told, acted = f"{row.tool_name} {call} ({row.verdict['rule']})", evidence.effects.get(call)
        if not rules.breaks(row.verdict["rule"], row.shown_arguments):
            yield f"{told} was judged, and breaks nothing: {row.shown_arguments}"
        if row.verdict["action"] == "block" and (acted or row.outcome != Outcome.ERROR):
            yield f"{told} was blocked, ended as {row.outcome}, acted: {bool(acted)}"
        if row.verdict["action"] != "block" and acted and evidence.gate(call) is None:
            yield f"{told} acted, and nobody was asked"


def a_held_reply_waits_for_a_person(evidence: Evidence) -> Iterator[str]:
    """G3: it held the word; its calls acted once it was released, and not when it was refused."""
    calls: dict[str, list[ToolCall]] = defaultdict(list)
    for call in evidence.calls.values():
        calls[str(call.step_id)].append(call)
    steps = {str(step.id): step for several in evidence.said.values() for step in several}
    for park in evidence.parks.values():
        if not park.is_held or not calls.get(park.key):
            continue
        step, released = steps[park.key], park.status == ParkStatus.APPROVED
        text = step.held["text"] if step.held is not None else step.text
        if scripts.HELD_WORD not in text.lower():
            yield f"step {step.id} was held for {text!r}"
        run = evidence.runs[str(step.run_id)]
        if released and step.held is not None and run.status == RunStatus.COMPLETED:
            yield f"step {step.id} was released, and is held"
        for call in calls[park.key]:
            for line in evidence.effects.get(str(call.id), []):
                begun = datetime.fromisoformat(line["at"])
                if not released or park.settled_at is None or begun < park.settled_at:
                    yield f"{call.tool_name} {call.id} acted, and its reply is {park.status}"


CHECKS: tuple[Check, ...] = (
    a_call_goes_by_its_verdict,
    a_held_reply_waits_for_a_person,
)
