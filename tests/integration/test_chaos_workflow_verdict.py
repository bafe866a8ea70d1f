"""The verdict of chaos on workflows and events: rows and files of a small play, tampered with."""

import importlib
import json
import random
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

import hitl
from agents import agent, conf, threads
from agents.models import JournalEntry, Run, TriggerDelivery
from agents.testing import run_worker
from agents.workflows import authoring
from hitl import clock
from hitl.ids import new_id
from hitl.models import Park
from hitl.states import Reason
from tests.chaos import courier, ledger, verdict
from tests.chaos.courier import Courier
from tests.chaos.evidence import Evidence
from tests.chaos.ledger import EFFECTS, JOURNAL, Ledger
from tests.chaos.plans import PATIENCE, Plan
from tests.chaos.starter import Starter

pytestmark = pytest.mark.django_db

SECRET = "only-for-chaos-only"
ROUNDS = 14
PLANS = (
    Plan("refund", {"reference": "w1", "ttl": PATIENCE}),
    Plan("fan", {"reference": "w2", "width": 3}),
    Plan("reply", {"reference": "w3"}),
    Plan("brittle", {"reference": "w4"}),
    Plan("consult", {"reference": "w5", "message": "w5c f"}),
    Plan("ladder", {"reference": "w6", "rungs": 2}),
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Any) -> Path:
    """A play that is over: each kind of run, a tool that starts one, and letters of one thread."""
    monkeypatch.setenv("CHAOS_FOLDER", str(tmp_path))
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    monkeypatch.setattr(agent, "_agents", {})
    monkeypatch.setattr(authoring, "_workflows", {})
    settings.AGENTS = settings.AGENTS | {"TRIGGER_SECRETS": {courier.SECRET: SECRET}}
    from tests.chaos.app import agents as cast
    from tests.chaos.app import workflows

    importlib.reload(workflows)
    importlib.reload(cast)
    courier.set_up_trigger()
    person, outside = Starter(random.Random(1)), Courier(random.Random(1))
    for plan in PLANS:
        person.start(plan, f"key of {plan.arguments['reference']}", 1)
    person.start(PLANS[0], "key of w1", 1)
    threads.start("patient", "r1 w")
    for event in ("letter 1", "letter 1", "letter 2"):
        post(event)
    run_worker()
    outside.resume("w3")
    play()
    outside.resume("w3")
    post("letter 3")
    play()
    return tmp_path


def play() -> None:
    for _ in range(ROUNDS):
        run_worker()
        for park in Park.objects.pending().filter(reason=Reason.APPROVAL).exclude(topic="climb"):
            hitl.decide(park.id, True, reason="yes", actor="ana")
        clock.advance(seconds=1)


def post(event: str) -> None:
    [secret] = conf.trigger_secrets(courier.SECRET)
    answer = Client().post(
        f"/hooks/triggers/{courier.TRIGGER}",
        json.dumps({"id": event, "thread": "thread 1"}),
        content_type="application/json",
        headers={courier.HEADER: secret},
    )
    ledger.journal().write("posted", event=event, status=answer.status_code, told=answer.json())


def found(folder: Path) -> list[str]:
    evidence = Evidence(Ledger(folder / EFFECTS), Ledger(folder / JOURNAL))
    return sorted({one.partition(":")[0] for one in verdict.violations(evidence)})


def rewrite(folder: Path, file: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    path = folder / file
    lines = [change(json.loads(line)) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines if line))


def entry_of(workflow: str, **which: Any) -> JournalEntry:
    entry = JournalEntry.objects.filter(run__target=f"chaos.{workflow}", **which).first()
    assert entry is not None
    return entry


def act_again(folder: Path, step: str, **changes: Any) -> None:
    effects = Ledger(folder / EFFECTS)
    entry = str(JournalEntry.objects.filter(name=step).earliest("id").id)
    line = next(one for one in effects.lines("acted") if one["entry"] == entry) | changes
    effects.write("acted", **{key: line[key] for key in line.keys() - {"kind", "at"}})


def act_once_more_than_allowed(folder: Path) -> None:
    act_again(folder, "chaos.charge", attempt=2)


def act_twice_in_one_attempt(folder: Path) -> None:
    JournalEntry.objects.filter(name="chaos.look_up").update(attempts=9)
    act_again(folder, "chaos.look_up")


def act_under_another_key(folder: Path) -> None:
    rewrite(folder, EFFECTS, lambda line: line | {"key": "x"} if line["kind"] == "acted" else line)


def act_for_nobody(folder: Path) -> None:
    Ledger(folder / EFFECTS).write("acted", entry="x", key="sayso:x", run="x", attempt=1)


def forget_the_effects(folder: Path) -> None:
    rewrite(folder, EFFECTS, lambda line: {} if line["kind"] == "acted" else line)


def return_something_else(folder: Path) -> None:
    JournalEntry.objects.filter(name="chaos.stamp").update(result="other")


def decide_otherwise(folder: Path) -> None:
    Park.objects.filter(topic="refund").update(answer_reason="no")


def decide_without_a_request(folder: Path) -> None:
    entry = entry_of("refund", kind="approval")
    JournalEntry.objects.filter(id=entry.id).update(id=new_id())


def withdraw_no_loser(folder: Path) -> None:
    Park.objects.filter(topic="remind").update(status="approved")


def end_otherwise(folder: Path) -> None:
    Run.objects.filter(target="chaos.fan").update(output=["other"])


def win_otherwise(folder: Path) -> None:
    JournalEntry.objects.filter(id=entry_of("reply", kind="hook").id).update(kind="sleep", name="")


def fail_without_cause(folder: Path) -> None:
    Run.objects.filter(target="chaos.refund").update(status="FAILED", error="boom")


def stand_still(folder: Path) -> None:
    Run.objects.filter(target="chaos.refund").update(status="WAITING", finished_at=None)


def lose_a_completion(folder: Path) -> None:
    Run.objects.filter(target="chaos.refund").update(deliveries=1)


def skip_a_position(folder: Path) -> None:
    JournalEntry.objects.filter(id=entry_of("refund", position=1).id).update(position=9)


def leave_a_loser_open(folder: Path) -> None:
    JournalEntry.objects.filter(id=entry_of("reply", kind="approval").id).update(state="open")


def hold_a_token(folder: Path) -> None:
    last = Park.objects.filter(reason=Reason.HOOK, status="cancelled", topic="letter").latest("id")
    Park.objects.filter(id=last.id).update(status="pending", settled_at=None)


def begin_another(folder: Path) -> None:
    other = Run.objects.get(target="chaos.fan")
    ledger.journal().write("begun", key="key of w1", run=str(other.id), reference="w1")


def begin_and_lose(folder: Path) -> None:
    ledger.journal().write("begun", key=None, run="x", reference="w9")


def drop_what_was_taken(folder: Path) -> None:
    journal = ledger.journal()
    journal.write("resumed", word="w", token="w3", delivered=True, code="")


def take_what_was_refused(folder: Path) -> None:
    def change(line: dict[str, Any]) -> dict[str, Any]:
        return line | {"delivered": False, "code": "x"} if line["kind"] == "resumed" else line

    rewrite(folder, JOURNAL, change)


def take_what_nobody_brought(folder: Path) -> None:
    rewrite(folder, JOURNAL, lambda line: {} if line["kind"] == "resuming" else line)


def lose_an_event(folder: Path) -> None:
    told = {"delivery": "x", "duplicate": False}
    ledger.journal().write("posted", event="letter 9", status=202, told=told)


def refuse_an_event(folder: Path) -> None:
    ledger.journal().write("posted", event="letter 1", status=401, told={})


def leave_an_event(folder: Path) -> None:
    TriggerDelivery.objects.filter(delivery_id="letter 2").update(status="expired")


def give_an_event_twice(folder: Path) -> None:
    entry = entry_of("mail", kind="hook", state="done")
    JournalEntry.objects.filter(id=entry.id).update(result={"event": "letter 1"})


def answer_an_event_twice(folder: Path) -> None:
    entry = entry_of("mail", kind="step", name="chaos.stamp")
    changes = {"name": "chaos.charge", "input": {"about": "letter 1"}}
    JournalEntry.objects.filter(id=entry.id).update(**changes)


def never_answer_an_event(folder: Path) -> None:
    steps = JournalEntry.objects.filter(run__target="chaos.mail", name="chaos.charge")
    steps.update(name="chaos.stamp")


def hold_a_key_at_once(folder: Path) -> None:
    first = Run.objects.filter(target="chaos.mail").earliest("id")
    later = clock.now() + timedelta(minutes=1)
    Run.objects.filter(id=first.id).update(finished_at=later)


def tell_nobody(folder: Path) -> None:
    Run.objects.filter(parent__isnull=False).update(reported_at=None)


def hear_something_else(folder: Path) -> None:
    Run.objects.filter(parent__isnull=False, target="patient").update(output={"text": "other"})


def give_a_tool_something_else(folder: Path) -> None:
    Run.objects.filter(target="chaos.errand").update(output="other")


def begin_no_run(folder: Path) -> None:
    Run.objects.filter(target="chaos.errand").update(parent_key="x")


@pytest.mark.usefixtures("clock")
def test_a_play_of_workflows_that_went_right_is_found_to_be_right(folder: Path) -> None:
    ended = dict(Run.objects.values_list("target", "status"))
    assert ended.pop("chaos.brittle") == "FAILED"
    assert set(ended.values()) == {"COMPLETED"}
    assert set(ended) >= {f"chaos.{plan.workflow}" for plan in PLANS} - {"chaos.brittle"}
    assert {"chaos.mail", "chaos.errand", "patient"} <= set(ended)
    assert Run.objects.filter(target="chaos.mail").count() == 2
    told = [line["delivered"] for line in ledger.journal().lines("resumed")]
    assert told == [True, False]
    assert found(folder) == []


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize(
    ("tamper", "check"),
    [
        (act_once_more_than_allowed, "a_step_acted_as_often_as_allowed"),
        (act_twice_in_one_attempt, "a_step_acted_as_often_as_allowed"),
        (act_under_another_key, "a_step_acted_as_often_as_allowed"),
        (act_for_nobody, "what_a_step_returned_was_done"),
        (forget_the_effects, "what_a_step_returned_was_done"),
        (return_something_else, "what_a_step_returned_was_done"),
        (decide_otherwise, "a_decision_is_the_answer_of_its_request"),
        (decide_without_a_request, "a_decision_is_the_answer_of_its_request"),
        (withdraw_no_loser, "a_decision_is_the_answer_of_its_request"),
        (end_otherwise, "a_result_follows_from_its_journal"),
        (win_otherwise, "a_result_follows_from_its_journal"),
        (fail_without_cause, "every_workflow_has_ended_or_waits"),
        (stand_still, "every_workflow_has_ended_or_waits"),
        (lose_a_completion, "a_journal_has_no_gap"),
        (skip_a_position, "a_journal_has_no_gap"),
        (leave_a_loser_open, "an_entry_is_open_as_long_as_its_park"),
        (hold_a_token, "an_entry_is_open_as_long_as_its_park"),
        (begin_another, "a_key_began_one_run"),
        (begin_and_lose, "a_key_began_one_run"),
        (drop_what_was_taken, "a_hook_takes_one_payload"),
        (take_what_was_refused, "a_hook_takes_one_payload"),
        (take_what_nobody_brought, "a_hook_takes_one_payload"),
        (lose_an_event, "an_event_that_was_taken_is_handled"),
        (refuse_an_event, "an_event_that_was_taken_is_handled"),
        (leave_an_event, "an_event_that_was_taken_is_handled"),
        (give_an_event_twice, "an_event_has_its_effect_once"),
        (answer_an_event_twice, "an_event_has_its_effect_once"),
        (never_answer_an_event, "an_event_has_its_effect_once"),
        (hold_a_key_at_once, "one_run_at_a_time_has_a_key"),
        (tell_nobody, "an_agent_and_its_workflow_tell_the_same"),
        (hear_something_else, "an_agent_and_its_workflow_tell_the_same"),
        (give_a_tool_something_else, "an_agent_and_its_workflow_tell_the_same"),
        (begin_no_run, "an_agent_and_its_workflow_tell_the_same"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_what_went_wrong_with_workflows_is_found(
    folder: Path, tamper: Callable[[Path], None], check: str
) -> None:
    tamper(folder)
    assert check in found(folder)
