"""All that is known once a run of chaos is over: the rows, and what was written down meanwhile."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from agents.models import Frame, JournalEntry, Run, Step, ToolCall, TriggerDelivery
from hitl.models import CallbackDelivery, Park, Vote
from hitl.states import ParkStatus, Reason
from tests.chaos.ledger import Ledger
from tests.chaos.scripts import BY_NAME, Kind

Line = dict[str, Any]


@dataclass
class Evidence:
    """All that is known in the end, read once."""

    effects_file: Ledger
    journal_file: Ledger
    complaints: list[str] = field(default_factory=list)

    @cached_property
    def effects(self) -> dict[str, list[Line]]:
        """The effects of each call, oldest first."""
        found: dict[str, list[Line]] = defaultdict(list)
        for line in self.effects_file.lines("effect"):
            found[line["call"]].append(line)
        return found

    @cached_property
    def resumed(self) -> dict[str, list[Line]]:
        """With what each job went on, oldest first."""
        found: dict[str, list[Line]] = defaultdict(list)
        for line in self.effects_file.lines("resumed"):
            found[line["call"]].append(line)
        return found

    @cached_property
    def finished(self) -> list[Line]:
        """What the farm was told about the results it gave."""
        return self.journal_file.lines("finished")

    @cached_property
    def answered(self) -> list[Line]:
        return self.journal_file.lines("answered")

    @cached_property
    def wanted(self) -> dict[str, Line]:
        """What each answer wanted, by its word."""
        return {line["word"]: line for line in self.journal_file.lines("answering")}

    @cached_property
    def parks(self) -> dict[str, Park]:
        return {str(park.id): park for park in Park.objects.order_by("id")}

    @cached_property
    def about(self) -> dict[str, list[Park]]:
        """The requests about each call, oldest first."""
        found: dict[str, list[Park]] = defaultdict(list)
        for park in self.parks.values():
            found[park.subject].append(park)
        return found

    @cached_property
    def runs(self) -> dict[str, Run]:
        return {str(run.id): run for run in Run.objects.order_by("id")}

    @cached_property
    def agent_runs(self) -> dict[str, Run]:
        return {key: run for key, run in self.runs.items() if run.thread_id is not None}

    @cached_property
    def workflows(self) -> dict[str, Run]:
        """The runs of workflows."""
        return {key: run for key, run in self.runs.items() if run.thread_id is None}

    @cached_property
    def journals(self) -> dict[str, list[JournalEntry]]:
        """The journal of each run of a workflow, in the order in which its body asked."""
        found: dict[str, list[JournalEntry]] = defaultdict(list)
        for entry in JournalEntry.objects.order_by("position", "number"):
            found[str(entry.run_id)].append(entry)
        return found

    @cached_property
    def acted(self) -> dict[str, list[Line]]:
        """The effects of each step of a workflow, by its entry in the journal, oldest first."""
        found: dict[str, list[Line]] = defaultdict(list)
        for line in self.effects_file.lines("acted"):
            found[line["entry"]].append(line)
        return found

    @cached_property
    def events(self) -> dict[str, TriggerDelivery]:
        """What became of each event from outside, by its delivery id."""
        return {one.delivery_id: one for one in TriggerDelivery.objects.order_by("id")}

    @cached_property
    def callbacks(self) -> dict[str, CallbackDelivery]:
        """Whom to call about each standalone request, by its id."""
        return {str(one.park_id): one for one in CallbackDelivery.objects.order_by("id")}

    @cached_property
    def told(self) -> dict[str, list[Line]]:
        """What the receiver heard of each standalone request and could trust, oldest first."""
        found: dict[str, list[Line]] = defaultdict(list)
        for line in self.journal_file.lines("told"):
            if line["trusted"]:
                found[json.loads(line["body"])["approval_id"]].append(line)
        return found

    @cached_property
    def votes(self) -> list[Vote]:
        return list(Vote.objects.order_by("id"))

    def done(self, act: str) -> list[Line]:
        """Return what those who change things were told about acts of this kind."""
        return [line for line in self.journal_file.lines("did") if line["act"] == act]

    @cached_property
    def calls(self) -> dict[str, ToolCall]:
        return {str(call.id): call for call in ToolCall.objects.order_by("id")}

    @cached_property
    def frames(self) -> list[Frame]:
        return list(Frame.objects.select_related("call__step", "run").order_by("id"))

    @cached_property
    def said(self) -> dict[tuple[str, str], list[Step]]:
        """The replies of each frame of each run, oldest first; the root's frame has no name."""
        found: dict[tuple[str, str], list[Step]] = defaultdict(list)
        for step in Step.objects.order_by("run_id", "number"):
            found[str(step.run_id), str(step.frame_id or "")].append(step)
        return found

    def gate(self, call: str) -> Park | None:
        return next((one for one in self.about[call] if one.reason == Reason.APPROVAL), None)

    def job(self, call: str) -> Park | None:
        return next((one for one in self.about[call] if one.is_job), None)

    def doubts(self, call: str) -> list[Park]:
        return [one for one in self.about[call] if one.reason == Reason.IN_DOUBT]

    def agains(self, call: str) -> int:
        """Return how often somebody said that this call is to run again."""
        return sum(
            park.status == ParkStatus.APPROVED and not park.was_answered_with_result
            for park in self.doubts(call)
        )

    def kind(self, call: str) -> Kind | None:
        """Return the tool of a call; None when its thread was deleted before anybody asked."""
        row = self.calls.get(call)
        topic = (
            row.tool_name
            if row is not None
            else next((park.topic for park in self.about[call]), "")
        )
        return BY_NAME.get(topic)


Check = Callable[[Evidence], Iterator[str]]
