"""The report of a run: what went wrong, what came of the runs and answers, what was found."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median

from agents.states import RunStatus
from agents.workflows.offering import REASON as WORKFLOW
from hitl.states import ParkStatus
from tests.chaos import jobs
from tests.chaos.agent_checks import GIVEN_UP
from tests.chaos.evidence import Evidence
from tests.chaos.processes import BY_ITSELF, Process
from tests.chaos.scripts import POISONED

SHOWN_MAX = 40


@dataclass
class Report:
    """All figures of one run; `text` is for people, `write` keeps both forms."""

    seed: int
    broker: str
    minutes: float
    mishaps: dict[str, int]
    moot: dict[str, int]
    ends: dict[str, dict[str, int]]
    runs: dict[str, int]
    given_up: int
    answers: dict[str, dict[str, int]]
    effects: int
    calls_repeated: int
    in_doubt: dict[str, int]
    astray: int
    jobs: dict[str, int]
    subagents: dict[str, int]
    workflows: dict[str, int]
    steps: dict[str, int]
    hooks: dict[str, int]
    events: dict[str, int]
    guardrails: dict[str, int]
    requests: dict[str, int]
    callbacks: dict[str, int]
    lateness: dict[str, float]
    rest_alone_s: float
    rest_answered_s: float
    violations: list[str] = field(default_factory=list)

    @property
    def unasked(self) -> bool:
        """Whether a process ended that nobody had killed, stopped or poisoned; worth a look."""
        poisoned = BY_ITSELF.format(POISONED)
        named = {why for ends in self.ends.values() for why in ends}
        return any(why.startswith(BY_ITSELF.format("")) for why in named - {poisoned})

    def text(self) -> str:
        lines = [
            f"Chaos: seed {self.seed}, {self.minutes:g} min, {self.broker}",
            f"  faults      {sum(self.mishaps.values())}: {_listed(self.mishaps)}",
            f"  moot        {sum(self.moot.values())}: {_listed(self.moot)}",
            *(f"  ends        {name}: {_listed(ends)}" for name, ends in self.ends.items() if ends),
            f"  runs        {sum(self.runs.values())}: {_listed(self.runs)}",
            f"  given up    {self.given_up} after too many segments without progress",
            *(
                f"  answers     {channel}: {_listed(told)}"
                for channel, told in self.answers.items()
            ),
            f"  effects     {self.effects}; calls that acted more than once: {self.calls_repeated}",
            f"  in doubt    {sum(self.in_doubt.values())}: {_listed(self.in_doubt)}",
            f"  astray      {self.astray} answers for a gate were taken for a call in doubt",
            f"  jobs        {sum(self.jobs.values())}: {_listed(self.jobs)}",
            f"  subagents   {sum(self.subagents.values())}: {_listed(self.subagents)}",
            f"  workflows   {_listed(self.workflows)}",
            f"  steps       {_listed(self.steps)}",
            f"  hooks       {_listed(self.hooks)}",
            f"  events      {_listed(self.events)}",
            f"  guardrails  {_listed(self.guardrails)}",
            f"  requests    {_listed(self.requests)}",
            f"  callbacks   {_listed(self.callbacks)}",
            f"  expired     {_listed(self.lateness)} (seconds late)",
            f"  at rest     {self.rest_alone_s:.1f} s after the last fault, "
            f"{self.rest_answered_s:.1f} s more with answers",
            f"  violations  {len(self.violations)}",
            *(f"    {one}" for one in self.violations[:SHOWN_MAX]),
        ]
        return "\n".join(lines) + "\n"

    def write(self, folder: Path) -> None:
        (folder / "report.txt").write_text(self.text())
        (folder / "report.json").write_text(json.dumps(asdict(self), indent=2) + "\n")


def answers_of(evidence: Evidence) -> dict[str, dict[str, int]]:
    """Count by channel what people were told."""
    told: dict[str, Counter[str]] = {}
    for line in evidence.answered:
        words = {True: "counted", False: line["code"], None: f"no answer ({line['code']})"}
        told.setdefault(line["channel"], Counter())[words[line["delivered"]]] += 1
    return {channel: dict(counts) for channel, counts in sorted(told.items())}


def astray_of(evidence: Evidence) -> int:
    """Count answers to a gate, by thread and call, that met a later question about the call."""
    return sum(
        bool(line["delivered"] and line["took"] and line["took"] != line["request"])
        for line in evidence.answered
    )


def jobs_of(evidence: Evidence) -> dict[str, int]:
    """Count the jobs that were waited for by how that ended and who was to answer them."""
    found = (park for park in evidence.parks.values() if park.is_job and park.reason != WORKFLOW)
    return dict(Counter(f"{park.status} ({jobs.way(park.key)})" for park in found).most_common())


def subagents_of(evidence: Evidence) -> dict[str, int]:
    """Count the subagents by how they ended and how deep they were."""
    found = (
        f"{frame.call.outcome or 'at work'} (depth {frame.depth})" for frame in evidence.frames
    )
    return dict(Counter(found).most_common())


def workflows_of(evidence: Evidence) -> dict[str, int]:
    """Count the runs of workflows by how they ended, and those that were retried."""
    counts = Counter(str(run.status) for run in evidence.workflows.values())
    retried = [line for line in evidence.done("retry") if line["outcome"] is True]
    return dict(counts.most_common()) | ({"retried": len(retried)} if retried else {})


def steps_of(evidence: Evidence) -> dict[str, int]:
    """Count the effects of steps, and the steps that acted more than once."""
    acted = evidence.acted.values()
    return {"effects": sum(map(len, acted)), "repeated": sum(len(lines) > 1 for lines in acted)}


def hooks_of(evidence: Evidence) -> dict[str, int]:
    """Count what the courier was told about the payloads it brought."""
    lines = evidence.journal_file.lines("resumed")
    return dict(Counter("taken" if line["delivered"] else line["code"] for line in lines))


def events_of(evidence: Evidence) -> dict[str, int]:
    """Count the events by what became of them, and those that were posted more than once."""
    counts = Counter(str(event.status) for event in evidence.events.values())
    posted = Counter(line["event"] for line in evidence.journal_file.lines("posted"))
    twice = sum(times > 1 for times in posted.values())
    return dict(counts.most_common()) | {"posted again": twice}


def guardrails_of(evidence: Evidence) -> dict[str, int]:
    """Count what rules held or blocked, how people answered, and how often rules were switched."""
    counts: Counter[str] = Counter()
    for call in evidence.calls.values():
        if call.verdict is not None:
            counts["calls blocked" if call.verdict["action"] == "block" else "calls held"] += 1
    for park in evidence.parks.values():
        if park.is_held:
            counts[f"replies {park.status}"] += 1
    return dict(counts.most_common()) | {"switched": len(evidence.done("rule"))}


def requests_of(evidence: Evidence) -> dict[str, int]:
    """Count the standalone requests by how they ended, and what was edited and voted on."""
    counts = Counter(str(park.status) for park in evidence.parks.values() if park.is_standalone)
    edited = sum(park.proposed is not None for park in evidence.parks.values())
    return dict(counts.most_common()) | {"edited": edited, "votes": len(evidence.votes)}


def callbacks_of(evidence: Evidence) -> dict[str, int]:
    """Count the decisions that were told, and those that were told more than once."""
    told = evidence.told.values()
    return {"told": len(told), "again": sum(len(lines) > 1 for lines in told)}


def runs_of(evidence: Evidence) -> dict[str, int]:
    return dict(Counter(run.status for run in evidence.agent_runs.values()))


def given_up_of(evidence: Evidence) -> int:
    return sum(
        run.status == RunStatus.FAILED and GIVEN_UP in run.error for run in evidence.runs.values()
    )


def in_doubt_of(evidence: Evidence) -> dict[str, int]:
    """Count the questions about calls in doubt by what was said of them."""
    said: Counter[str] = Counter()
    for call in evidence.about:
        for park in evidence.doubts(call):
            again = park.status == ParkStatus.APPROVED and not park.was_answered_with_result
            happened = park.status == ParkStatus.APPROVED and not again
            said["it happened" if happened else "run it again" if again else park.status] += 1
    return dict(said)


def lateness_of(evidence: Evidence) -> dict[str, float]:
    """Return how late deadlines were met while everything went wrong, in seconds."""
    late = sorted(
        (park.settled_at - park.expires_at).total_seconds()
        for park in evidence.parks.values()
        if park.status == ParkStatus.TIMED_OUT and park.settled_at and park.expires_at
    )
    if not late:
        return {}
    return {"count": len(late), "median": round(median(late), 2), "most": round(late[-1], 2)}


def ends_of(crew: Mapping[str, Process]) -> dict[str, dict[str, int]]:
    return {name: dict(process.ends) for name, process in crew.items()}


def _listed(counts: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or "none"
