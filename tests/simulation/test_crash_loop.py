"""Crash at point 1, 2, 3 … until nothing crashes; restart; nothing is lost and nothing done twice.

A crash here is an exception that nothing catches, followed by the loss of the connection and of
all that the process knew. `test_kill_loop.py` ends real processes.
"""

import itertools
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from agents import segments
from agents.agent import DELEGATION
from agents.models import GuardrailChange, GuardrailRule, GuardrailStamp, Thread, ToolCall
from agents.states import OnDoubt, Outcome
from hitl import clock, faults, sweeping
from hitl.models import Decision, Park, Pulse, Seal
from hitl.trail import append_only
from tests import invariants
from tests.simulation import errand, passages
from tests.simulation.arrivals import ARRIVALS
from tests.simulation.filing import Filing
from tests.simulation.journal import Journal, enrol
from tests.simulation.passages import PASSAGES
from tests.simulation.scenarios import SCENARIOS, Scenario, Stage, named, work

ROOT = Path(__file__).resolve().parents[2]
POINTS_MAX = 200

UNSAVED = {"model:replied", "reply:judged", "park:opened", "reply:saving", "frame:failing"}
"""Where a reply that a crash takes away has not been kept yet, so that the model is asked again."""

IN_TOOL = {
    *("segment:taken", "tool:claimed", "effect:begun", "effect:happened"),
    *("tool:returned", "result:keeping", "asked:keeping"),
}
"""Where a crash leaves a claimed call of which nobody knows whether it acted."""

BY_WRITE = (
    "park, approve, finish",
    "park, expire, finish",
    "stop, then approve",
    "stopped while a tool runs",
    "edit while parked",
    "delete while parked",
    "two calls, one gated",
    "model fails with 429, retried",
    "held turn, approve, finish",
)
"""Scenarios that also crash between any two writes."""

pytestmark = [
    pytest.mark.usefixtures("everything_is_as_before"),
    pytest.mark.timeout(300),
]


def fresh(scenario: Scenario, path: Path, *, truthful: bool = True) -> Stage:
    """Empty the database and set the stage for a scenario that has not begun."""
    with append_only.lifted():
        Decision.objects.all().delete()
        Seal.objects.all().delete()
        GuardrailChange.objects.all().delete()
    GuardrailRule.objects.all().delete()
    GuardrailStamp.objects.all().delete()
    Park.objects.all().delete()
    Pulse.objects.all().delete()
    Thread.objects.all().delete()
    path.unlink(missing_ok=True)
    segments.shutting_down[0] = int(scenario.hands_back)
    journal = Journal(path)
    enrol(journal)
    return Stage(journal, scenario.message, truthful)


class CrashBeforeWrite:
    """Crash before the n-th statement that writes, wherever the code has put its points.

    So a transaction that was split in two shows, which has no point at the new seam. `fired` is the
    last point before it.
    """

    def __init__(self, nth: int) -> None:
        self.left = nth
        self.last = "the beginning"
        self.fired: str | None = None

    def __call__(self, name: str) -> None:
        if self.fired is not None:
            raise faults.Crash
        self.last = name

    def before(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql.startswith(("INSERT", "UPDATE", "DELETE")):
            self.left -= 1
            if self.left == 0:
                self.fired = self.last
        if self.fired is not None:
            raise faults.Crash
        return execute(sql, params, many, context)


@contextmanager
def every_point(nth: int) -> Iterator["faults.CrashAt | CrashBeforeWrite"]:
    """Crash at the n-th point."""
    with faults.armed(faults.CrashAt(nth)) as crashing, suppress(faults.Crash):
        yield crashing


@contextmanager
def every_write(nth: int) -> Iterator["faults.CrashAt | CrashBeforeWrite"]:
    """Crash before the n-th write."""
    crashing = CrashBeforeWrite(nth)
    with (
        connection.execute_wrapper(crashing.before),
        faults.armed(crashing),
        suppress(faults.Crash),
    ):
        yield crashing


def crash(
    scenario: Scenario, stage: Stage, nth: int, at: Callable[..., Any] = every_point
) -> str | None:
    """Play until the n-th point or write and die; return the last point, None without a crash."""
    first, last = scenario.crashes_in
    scenario.play(stage, 0, first)
    with at(nth) as crashing:
        scenario.play(stage, first, last)
    if crashing.fired is None:
        scenario.play(stage)
        return None
    connection.close()
    invariants.check(f"at the crash at point {nth}, {crashing.fired}")
    return crashing.fired


def restart(stage: Stage) -> None:
    """Come back as a new process does, once the lease of the dead one has lapsed."""
    enrol(stage.journal)
    clock.advance(seconds=7)
    sweeping.sweep()
    work(stage)


@contextmanager
def said(note: str) -> Iterator[None]:
    """Put into a failure where the crash was."""
    try:
        yield
    except AssertionError as error:
        error.add_note(note)
        raise


def judge(scenario: Scenario, stage: Stage, fired: list[str]) -> None:
    """Check the rows, the effects and the requests that a scenario with these crashes has left."""
    invariants.check(f"after crashes at {fired}")
    statuses = [run.status for run in stage.runs()]
    assert statuses[:-1] == list(scenario.ends[:-1])
    assert len(statuses) == len(scenario.ends)
    assert not statuses or statuses[-1] in {scenario.ends[-1], *scenario.may_end}
    judge_effects(stage, fired)
    judge_requests(stage, fired)
    if fired:
        assert not stage.doubts or IN_TOOL & set(fired), f"asked in vain about {stage.doubts}"
        return
    calls = ToolCall.objects.order_by("run__number", "step__number", "index")
    assert [call.outcome for call in calls] == scenario.outcomes
    assert stage.journal.effects().total() == scenario.effects
    assert stage.journal.asked().total() == scenario.asked
    assert not stage.doubts


def judge_effects(stage: Stage, fired: list[str]) -> None:
    """At most once where a person is asked in doubt; again only what no output was kept of."""
    effects = stage.journal.effects()
    assert not any(line["was_done"] for line in stage.journal.lines("did"))
    for call in ToolCall.objects.all():
        count = effects[str(call.id)]
        if call.outcome in (Outcome.DENIED, Outcome.TIMED_OUT, Outcome.STOPPED):
            assert count == 0, f"{call.outcome}, and it acted"
        elif call.tool_id.startswith(DELEGATION):
            assert count == 0, "a delegation acts through its agent alone"
        elif call.on_doubt == OnDoubt.ASK:
            assert count <= 1, f"acted {count} times"
            assert count == 1 or call.outcome == Outcome.UNKNOWN, f"{call.outcome} without acting"
        else:
            assert count <= 1 + len(fired)
            assert count >= 1 or call.outcome == Outcome.UNKNOWN


def judge_requests(stage: Stage, fired: list[str]) -> None:
    """The model is asked once for each reply, again only for one that was not saved."""
    for line in stage.journal.lines("asked"):
        assert line["saved"] == line["reply"] - 1, "asked for a reply that was saved"
    unsaved = sum(point in UNSAVED for point in fired)
    again = {key: count for key, count in stage.journal.asked().items() if count > 1}
    assert sum(again.values()) - len(again) <= unsaved, f"asked again: {again}"


def crash_everywhere(scenario: Scenario, path: Path, at: Callable[..., Any]) -> None:
    """Crash at 1, 2, 3 … until nothing crashes, and recover each time."""
    for nth in itertools.count(1):
        assert nth < POINTS_MAX, "the scenario never ends"
        for truthful in (True, False):
            stage = fresh(scenario, path, truthful=truthful)
            fired = crash(scenario, stage, nth, at)
            with said(f"crash number {nth}, after {fired}; truthful: {truthful}"):
                if fired is not None:
                    restart(stage)
                    scenario.play(stage)
                judge(scenario, stage, [fired] if fired else [])
            if not stage.doubts:
                break
        if fired is None:
            assert nth > 1, "nothing crashed"
            break


@pytest.mark.promise("P1", "P2", "P5", "A3", "A5", "A6", "A7", "E4", "H8", "N2", "N3", "N4", "N5")
@pytest.mark.promise("J1", "J2", "J3", "J5", "S1", "S5", "G3")
@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_a_crash_at_any_point_loses_nothing_and_repeats_nothing(
    scenario: Scenario, tmp_path: Path
) -> None:
    """Field reports RUN-03, RUN-06, EXP-10, WAKE-01."""
    crash_everywhere(scenario, tmp_path / "journal", every_point)


@pytest.mark.promise("P1", "P2", "P5", "A3", "A5", "E4", "H8", "N5", "I2")
@pytest.mark.parametrize("name", BY_WRITE)
def test_a_crash_between_any_two_writes_loses_nothing_and_repeats_nothing(
    name: str, tmp_path: Path
) -> None:
    """What belongs together is in one transaction. Field reports WAKE-01 and WAKE-04."""
    crash_everywhere(named(name), tmp_path / "journal", every_write)


@pytest.mark.promise("P5", "A3", "A5", "A6", "H7")
def test_a_crash_during_the_recovery_is_recovered_from(tmp_path: Path) -> None:
    """Each first crash meets another second one. Field report EXP-08."""
    scenario = named("park, approve, finish")
    for nth in itertools.count(1):
        stage = fresh(scenario, tmp_path / "journal")
        first = crash(scenario, stage, nth)
        if first is None:
            break
        fired = [first]
        with faults.armed(faults.CrashAt(1 + nth * 5 % 13)) as crashing, suppress(faults.Crash):
            restart(stage)
        if crashing.fired is not None:
            fired.append(crashing.fired)
            connection.close()
        with said(f"crash at point {nth}, {fired}"):
            invariants.check()
            restart(stage)
            scenario.play(stage)
            judge(scenario, stage, fired)


def test_the_loop_crashes_at_every_point_that_the_code_has(tmp_path: Path) -> None:
    """A new effect brings a new point, and a new point a scenario that passes it."""
    written = {
        name
        for folder in ("hitl", "agents")
        for path in (ROOT / folder).rglob("*.py")
        for name in re.findall(r'^ +faults\.point\("([^"]+)"\)', path.read_text(), re.MULTILINE)
    }
    passed: set[str] = set()
    for scenario in SCENARIOS:
        stage = fresh(scenario, tmp_path / "journal")
        first, last = scenario.crashes_in
        scenario.play(stage, 0, first)
        with faults.armed(passed.add):
            scenario.play(stage, first, last)
    one = errand.fresh()  # test_callback_crash_loop.py
    with faults.armed(passed.add):
        one.play()
    for passage in (*PASSAGES, *ARRIVALS):  # test_workflow_crash_loop.py
        passages.fresh()
        with faults.armed(passed.add):
            passage.play()
    paper = Filing()  # test_trail_crash_loop.py
    with faults.armed(passed.add):
        paper.play()
        paper.age()
    assert len(written) > 40
    assert written <= passed, f"never crashed at: {sorted(written - passed)}"
