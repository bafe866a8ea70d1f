"""One run of chaos, from the first process to the verdict. Imported once Django is set up."""

import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep

from django.db import DatabaseError, connection
from django.db.models import Count

from agents.models import Run
from hitl.models import Park
from tests.chaos import courier, crew, driver, people, report, rest, rules, schedule
from tests.chaos.brokers import Broker
from tests.chaos.evidence import Evidence
from tests.chaos.ledger import EFFECTS, JOURNAL, Ledger
from tests.chaos.mishaps import Mishaps
from tests.chaos.postgres import Postgres
from tests.chaos.processes import ROOT
from tests.chaos.verdict import violations

TICK_SECONDS = 0.1
PROGRESS_SECONDS = 5.0
DRIVERS_STOP_SECONDS_MAX = 30


@dataclass
class Play:
    """What a run needs; `perform` plays it and returns the report."""

    seed: int
    minutes: float
    folder: Path
    postgres: Postgres
    broker: Broker
    environment: dict[str, str]
    web_port: int

    def __post_init__(self) -> None:
        self.crew = crew.deployment(self.environment, web_port=self.web_port, folder=self.folder)
        self.drivers = crew.drivers(self.environment, seed=self.seed, folder=self.folder)
        self.effects = Ledger(self.folder / EFFECTS)
        self.journal = Ledger(self.folder / JOURNAL)
        self.mishaps = Mishaps(self.crew, self.postgres, self.broker, self.journal)
        self._told_at = 0.0
        self._begun = monotonic()

    def perform(self) -> report.Report:
        self._prepare()
        try:
            self._rain()
            self._stop_drivers()
            self.mishaps.heal()
            self._say("nothing goes wrong any more")
            settled = rest.settle(self._tend)
            self._say("at rest; roll call")
            missed = rest.roll_call(self.crew, self._tend)
        finally:
            for process in [*self.drivers.values(), *self.crew.values()]:
                process.end()
        evidence = Evidence(self.effects, self.journal, [*settled.complaints, *missed])
        return self._report(evidence, settled)

    def _prepare(self) -> None:
        migrate = [sys.executable, "manage.py", "migrate", "--no-input", "--verbosity", "0"]
        subprocess.run(migrate, cwd=ROOT, env=self.environment, check=True)
        people.introduce()
        courier.set_up_trigger()
        rules.write_down()
        for process in [*self.crew.values(), *self.drivers.values()]:
            process.start()

    def _rain(self) -> None:
        """Let the drivers work and everything go wrong for as long as the run is to take."""
        seconds = self.minutes * 60
        coming = schedule.draw(self.seed, seconds=seconds, broker=self.broker.name)
        self._begun = monotonic()
        while (now := monotonic() - self._begun) < seconds:
            if coming and coming[0].at <= now:
                self.mishaps.begin(coming.pop(0), now)
            self.mishaps.due(now)
            for process in self.drivers.values():
                process.tend()
            self._tend()
            sleep(TICK_SECONDS)

    def _tend(self) -> None:
        for process in self.crew.values():
            process.tend()
        if monotonic() - self._told_at > PROGRESS_SECONDS:
            self._say(self._progress())

    def _stop_drivers(self) -> None:
        (self.folder / driver.STOP).touch()
        give_up = monotonic() + DRIVERS_STOP_SECONDS_MAX
        while any(each.is_running for each in self.drivers.values()) and monotonic() < give_up:
            self.mishaps.due(monotonic() - self._begun)
            self._tend()
            sleep(TICK_SECONDS)

    def _progress(self) -> str:
        try:
            runs = dict(Run.objects.values_list("status").annotate(Count("id")))
            waiting = Park.objects.pending().cards().count()
        except DatabaseError:
            connection.close()
            return "the database is away"
        listed = ", ".join(f"{count} {status}" for status, count in sorted(runs.items()))
        faults = sum(self.mishaps.done.values())
        return f"faults {faults}, open requests {waiting}, runs: {listed}"

    def _say(self, text: str) -> None:
        self._told_at = monotonic()
        sys.stdout.write(f"[{self._told_at - self._begun:5.0f} s] {text}\n")
        sys.stdout.flush()

    def _report(self, evidence: Evidence, settled: rest.Rest) -> report.Report:
        repeated = Counter(len(lines) > 1 for lines in evidence.effects.values())[True]
        return report.Report(
            seed=self.seed,
            broker=self.broker.name,
            minutes=self.minutes,
            mishaps=dict(self.mishaps.done.most_common()),
            moot=dict(self.mishaps.moot.most_common()),
            ends=report.ends_of(self.crew),
            runs=report.runs_of(evidence),
            given_up=report.given_up_of(evidence),
            answers=report.answers_of(evidence),
            effects=sum(map(len, evidence.effects.values())),
            calls_repeated=repeated,
            in_doubt=report.in_doubt_of(evidence),
            astray=report.astray_of(evidence),
            jobs=report.jobs_of(evidence),
            subagents=report.subagents_of(evidence),
            workflows=report.workflows_of(evidence),
            steps=report.steps_of(evidence),
            hooks=report.hooks_of(evidence),
            events=report.events_of(evidence),
            guardrails=report.guardrails_of(evidence),
            requests=report.requests_of(evidence),
            callbacks=report.callbacks_of(evidence),
            lateness=report.lateness_of(evidence),
            rest_alone_s=round(settled.alone, 1),
            rest_answered_s=round(settled.answered, 1),
            violations=violations(evidence),
        )


def tidy(folder: Path, keep: Callable[[Path], bool]) -> None:
    """Remove what a run leaves behind, but for the files to keep."""
    for entry in folder.iterdir():
        if keep(entry):
            continue
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()
