"""The verdict of chaos finds what it is to find: rows and files of a small play, tampered with."""

import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hitl
from agents import agent, threads
from agents.models import Frame, Run, Thread, ToolCall
from agents.testing import run_worker
from hitl import clock
from hitl.models import EarlyAnswer, Park
from tests.chaos import jobs, ledger, verdict
from tests.chaos.evidence import Evidence
from tests.chaos.farm import Farm
from tests.chaos.ledger import EFFECTS, JOURNAL, Ledger
from tests.chaos.processes import ROOT

pytestmark = pytest.mark.django_db


class Dice:
    """What a farm draws: each job is answered at once, and once."""

    def random(self) -> float:
        return 0.3


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A play that is over: a job answered by ids, a tree with a gate and one that failed."""
    monkeypatch.setenv("CHAOS_FOLDER", str(tmp_path))
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    monkeypatch.setattr(jobs, "way", lambda call: jobs.IDS)
    monkeypatch.setattr(agent, "_agents", {})
    from tests.chaos.app import agents as cast

    importlib.reload(cast)
    farm = Farm(Dice())  # type: ignore[arg-type]
    for message in ("r1 jP[g_f] f", "r2 P[f_gone]"):
        threads.start("patient", message)
        run_worker()
        while farm.act():
            pass
        for park in Park.objects.pending().cards():
            hitl.decide(park.id, True, actor="ana")
        run_worker()
    return tmp_path


def found(folder: Path) -> list[str]:
    evidence = Evidence(Ledger(folder / EFFECTS), Ledger(folder / JOURNAL))
    return sorted({one.partition(":")[0] for one in verdict.violations(evidence)})


def rewrite(folder: Path, file: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    path = folder / file
    lines = [change(json.loads(line)) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def give_another_result(folder: Path) -> None:
    rewrite(
        folder,
        EFFECTS,
        lambda line: line | {"payload": "other"} if line["kind"] == "resumed" else line,
    )


def say_it_was_refused(folder: Path) -> None:
    rewrite(
        folder,
        JOURNAL,
        lambda line: (
            line | {"delivered": False, "code": "expired"} if line["kind"] == "finished" else line
        ),
    )


def take_it_twice(folder: Path) -> None:
    journal = Ledger(folder / JOURNAL)
    [line] = journal.lines("finished")
    journal.write("finished", **{key: line[key] for key in ("word", "call", "way")}, delivered=True)


def begin_it_again(folder: Path) -> None:
    effects = Ledger(folder / EFFECTS)
    park = next(park for park in Park.objects.all() if park.is_job)
    [line] = [line for line in effects.lines("begun") if line["call"] == park.key]
    clock.advance(minutes=1)
    again = {key: value for key, value in line.items() if key not in ("kind", "at")}
    effects.write("begun", **again)


def keep_an_answer(folder: Path) -> None:
    run = Run.objects.earliest("id")
    EarlyAnswer.objects.create(
        waiter_kind="run", waiter_id=run.id, key="1", status="approved", at=clock.now()
    )


def skip_a_reply(folder: Path) -> None:
    Frame.objects.filter(call__outcome="ok").update(message="r1/0.1 g f f")


def fail_without_cause(folder: Path) -> None:
    Frame.objects.filter(call__outcome="error").update(message="r2/0.0 f")


def act_for_an_agent(folder: Path) -> None:
    delegation = ToolCall.objects.filter(outcome="ok", tool_name="delegate_to_patient").get()
    Ledger(folder / EFFECTS).write(
        "effect", call=str(delegation.id), run=str(delegation.run_id), key="x"
    )


@pytest.mark.parametrize("settings", ["tests.chaos.settings", "benchmarks.settings"])
def test_the_site_passes_its_checks_without_the_examples(settings: str, tmp_path: Path) -> None:
    """Chaos and the benchmarks leave them out."""
    told = {"DJANGO_SETTINGS_MODULE": settings, "VAR_DIR": str(tmp_path), "SECRET_KEY": "test"}
    told |= {"CHAOS_FOLDER": str(tmp_path)}
    command = [sys.executable, "manage.py", "check", "--fail-level", "ERROR"]
    done = subprocess.run(
        command, env=os.environ | told, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.usefixtures("clock")
def test_a_play_in_which_nothing_went_wrong_is_found_to_be_right(folder: Path) -> None:
    assert Thread.objects.count() == 2
    assert {run.status for run in Run.objects.all()} == {"COMPLETED"}
    assert Frame.objects.filter(call__outcome="error").count() == 1
    assert len(Ledger(folder / EFFECTS).lines("resumed")) == 1
    assert ledger.journal().lines("finished")[0]["delivered"] is True
    assert found(folder) == []


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize(
    ("tamper", "check"),
    [
        (give_another_result, "a_job_goes_on_with_the_answer_of_its_row"),
        (begin_it_again, "a_job_goes_on_with_the_answer_of_its_row"),
        (say_it_was_refused, "a_job_takes_one_result"),
        (take_it_twice, "a_job_takes_one_result"),
        (keep_an_answer, "nothing_is_kept_for_nobody"),
        (skip_a_reply, "a_subagent_ends_as_its_script_says"),
        (fail_without_cause, "a_subagent_ends_as_its_script_says"),
        (act_for_an_agent, "effects_are_what_the_rows_say"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_what_went_wrong_is_found(folder: Path, tamper: Callable[[Path], None], check: str) -> None:
    tamper(folder)
    assert check in found(folder)
