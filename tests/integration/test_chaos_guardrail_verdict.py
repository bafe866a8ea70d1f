"""The verdict of chaos on guardrails: rows and files of a small play, tampered with."""

import importlib
import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import hitl
from agents import agent, threads
from agents.models import Run, Step, ToolCall
from agents.testing import run_worker
from agents.workflows import authoring
from hitl.models import Park
from tests.chaos import rules, scripts, verdict
from tests.chaos.evidence import Evidence
from tests.chaos.ledger import EFFECTS, JOURNAL, Ledger

pytestmark = pytest.mark.django_db

CAREFUL = {("r2", 0), ("r3", 0), ("r4/0.0", 0)}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A play that is over: calls held and blocked, a reply released, one refused, one below."""
    monkeypatch.setenv("CHAOS_FOLDER", str(tmp_path))
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    monkeypatch.setattr(agent, "_agents", {})
    monkeypatch.setattr(authoring, "_workflows", {})
    monkeypatch.setattr(scripts, "pauses", lambda *place: (400, 400))
    monkeypatch.setattr(scripts, "is_careful", lambda *place: place in CAREFUL)
    from tests.chaos.app import agents as cast
    from tests.chaos.app import workflows

    importlib.reload(workflows)
    importlib.reload(cast)
    rules.write_down()
    for message, released in (
        *(("r1 fn", True), ("r2 g", True), ("r3 g", False)),
        *(("r4 P[g]", False), ("r5 a", False)),
    ):
        threads.start("patient", message)
        for _ in range(3):
            run_worker()
            for park in Park.objects.pending().cards():
                hitl.decide(park.id, released, actor="ana")
        run_worker()
    return tmp_path


def found(folder: Path) -> list[str]:
    evidence = Evidence(Ledger(folder / EFFECTS), Ledger(folder / JOURNAL))
    return sorted({one.partition(":")[0] for one in verdict.violations(evidence)})


def act_for(folder: Path, call: ToolCall) -> None:
    line = {"call": str(call.id), "run": str(call.run_id), "key": "x", "informed": False}
    Ledger(folder / EFFECTS).write("effect", **line, before=400, after=400)


def call_of(reference: str, tool: str) -> ToolCall:
    calls = ToolCall.objects.filter(tool_name=tool).select_related("run").order_by("id")
    return next(call for call in calls if call.run.input["message"].startswith(reference))


def act_though_blocked(folder: Path) -> None:
    act_for(folder, call_of("r1", "note"))


def judge_without_cause(folder: Path) -> None:
    arguments = json.dumps({"before": 1, "after": 1})
    calls = ToolCall.objects.filter(id=call_of("r1", "note").id)
    calls.update(arguments_text=arguments, arguments=json.loads(arguments))


def ask_nobody(folder: Path) -> None:
    Park.objects.filter(key=str(call_of("r1", "look").id)).update(key="x")


def act_though_denied(folder: Path) -> None:
    act_for(folder, call_of("r5", "ring"))


def act_though_refused(folder: Path) -> None:
    act_for(folder, call_of("r3", "pay"))


def act_before_it_was_released(folder: Path) -> None:
    step = call_of("r2", "pay").step_id
    Park.objects.filter(key=str(step)).update(settled_at="2100-01-01T00:00:00Z")


def hold_for_nothing(folder: Path) -> None:
    Step.objects.filter(id=call_of("r2", "pay").step_id).update(text="Hello.")


def refuse_without_a_card(folder: Path) -> None:
    Park.objects.filter(key=str(call_of("r3", "pay").step_id)).update(status="approved")


@pytest.mark.usefixtures("clock")
def test_a_play_of_guardrails_that_went_right_is_found_to_be_right(folder: Path) -> None:
    ended = {run.input["message"]: run.status for run in Run.objects.all()}
    assert ended == {
        "r1 fn": "COMPLETED",
        "r2 g": "COMPLETED",
        "r3 g": "FAILED",
        "r4 P[g]": "COMPLETED",
        "r5 a": "COMPLETED",
    }
    assert call_of("r1", "note").outcome == "error"
    assert call_of("r5", "ring").outcome == "denied"
    acted = [line["call"] for line in Ledger(folder / EFFECTS).lines("effect")]
    assert acted == [str(call_of("r1", "look").id), str(call_of("r2", "pay").id)]
    assert found(folder) == []


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize(
    ("tamper", "check"),
    [
        (act_though_blocked, "a_call_goes_by_its_verdict"),
        (judge_without_cause, "a_call_goes_by_its_verdict"),
        (ask_nobody, "a_call_goes_by_its_verdict"),
        (act_though_denied, "no_gated_tool_ran_without_a_yes"),
        (act_though_refused, "a_held_reply_waits_for_a_person"),
        (act_before_it_was_released, "a_held_reply_waits_for_a_person"),
        (hold_for_nothing, "a_held_reply_waits_for_a_person"),
        (refuse_without_a_card, "every_run_has_ended_or_waits_for_a_person"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_what_went_wrong_with_guardrails_is_found(
    folder: Path, tamper: Callable[[Path], None], check: str
) -> None:
    tamper(folder)
    assert check in found(folder)
