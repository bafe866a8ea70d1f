"""The verdict of chaos on standalone requests: rows and files of a small play, tampered with."""

import importlib
import json
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User

import hitl
from agents import agent, threads
from agents.testing import run_worker
from agents.workflows import authoring
from hitl import clock, signing
from hitl.callbacks import posting
from hitl.models import CallbackDelivery, Park, Vote
from tests.chaos import channels, ledger, people, receiver, verdict
from tests.chaos.asker import Asker
from tests.chaos.evidence import Evidence
from tests.chaos.ledger import EFFECTS, JOURNAL, Ledger
from tests.chaos.people import USERS
from tests.chaos.secrets import HMAC_SECRET

pytestmark = pytest.mark.django_db

HOST = "127.0.0.1:9"
SHARED = signing.shared_form(signing.derive(HMAC_SECRET))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Any) -> Path:
    """A play that is over: one asked twice, one voted on, one edited, one left open; and a call."""
    monkeypatch.setenv("CHAOS_FOLDER", str(tmp_path))
    monkeypatch.setenv("CHAOS_RECEIVER", f"http://{HOST}/decided")
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    monkeypatch.setattr(agent, "_agents", {})
    monkeypatch.setattr(authoring, "_workflows", {})
    settings.HITL = settings.HITL | {
        "HMAC_SECRET": HMAC_SECRET,
        "CALLBACK_INTERNAL_HOSTS": [HOST],
    }
    from tests.chaos.app import agents as cast
    from tests.chaos.app import workflows

    importlib.reload(workflows)
    importlib.reload(cast)
    people.introduce()
    asker = Asker(random.Random(1))
    for key, several in (("plain", False), ("plain", False), ("several", True), ("open", False)):
        asker.ask(key, timeout="1h", on_timeout="reject", several=several)
    channels.Verbs(random.Random(1), "verbs-1").edit(asked("plain"), "verbs-1-1-0")
    answer("plain", "verbs-1-1-1", actor="verbs")
    answer("several", "verbs-1-1-2", actor=User.objects.get(username=USERS["verbs-1"]))
    answer("several", "verbs-2-1-1", actor=User.objects.get(username=USERS["verbs-2"]))
    tell()
    threads.start("patient", "r1 m")
    run_worker()
    gate = Park.objects.get(topic="amend")
    hitl.decide(gate.id, True, arguments={"before": 1, "after": 2}, actor="ana")
    run_worker()
    return tmp_path


def asked(key: str) -> Park:
    return Park.objects.get(callback__idempotency_key=key)


def answer(key: str, word: str, *, actor: object) -> None:
    park = asked(key)
    told = {"word": word, "request": str(park.id), "channel": "python"}
    ledger.journal().write("answering", **told, wants="approved", doubt=False)
    given = hitl.decide(park.id, True, reason=word, actor=actor)
    code = str(given.code or "")
    ledger.journal().write("answered", **told, delivered=given.delivered, code=code, took="")


def tell() -> None:
    """Call the receiver about all that is owed; its first answer is lost on the way."""
    lost = [posting.Refusal("no answer")]

    def send(_: Any, body: bytes, headers: dict[str, str]) -> posting.Refusal | None:
        assert receiver.heed(body, headers, SHARED)
        return lost.pop() if lost else None

    for callback in CallbackDelivery.objects.exclude(status="waiting"):
        while not posting.deliver(callback.id, send=send):
            CallbackDelivery.objects.filter(id=callback.id).update(next_attempt_at=clock.now())


def found(folder: Path) -> list[str]:
    evidence = Evidence(Ledger(folder / EFFECTS), Ledger(folder / JOURNAL))
    return sorted({one.partition(":")[0] for one in verdict.violations(evidence)})


def rewrite(folder: Path, kind: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    for path in (folder / JOURNAL, folder / EFFECTS):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        changed = [change(line) if line["kind"] == kind else line for line in lines]
        path.write_text("".join(json.dumps(line) + "\n" for line in changed if line))


def never_tell(folder: Path) -> None:
    rewrite(folder, "told", lambda line: {})


def tell_of_what_is_open(folder: Path) -> None:
    body = json.dumps({"approval_id": str(asked("open").id), "status": "approved"})
    ledger.journal().write("told", id="msg_1", body=body, trusted=True)


def tell_something_else(folder: Path) -> None:
    rewrite(
        folder, "told", lambda line: line | {"body": line["body"].replace("approved", "rejected")}
    )


def tell_under_another_id(folder: Path) -> None:
    [line, *_] = ledger.journal().lines("told")
    ledger.journal().write("told", id="msg_1", body=line["body"], trusted=True)


def sign_badly(folder: Path) -> None:
    ledger.journal().write(
        "told", id="msg_1", body="{}", trusted=False, why="No matching signature"
    )


def tell_of_nothing(folder: Path) -> None:
    ledger.journal().write("told", id="x", body=json.dumps({"approval_id": "x"}), trusted=True)


def ask_twice(folder: Path) -> None:
    ledger.journal().write("asked", key="plain", request=str(asked("open").id), several=False)


def lose_a_request(folder: Path) -> None:
    ledger.journal().write("asked", key="lost", request="x", several=False)


def take_back_a_vote(folder: Path) -> None:
    Vote.objects.filter(name=USERS["verbs-2"]).update(approved=False)


def lose_a_vote(folder: Path) -> None:
    Vote.objects.filter(name=USERS["verbs-1"]).delete()


def ask_for_something_else(folder: Path) -> None:
    rewrite(folder, "edited", lambda line: {})


def keep_what_was_refused(folder: Path) -> None:
    rewrite(folder, "edited", lambda line: line | {"delivered": False, "code": "changed"})


def run_with_something_else(folder: Path) -> None:
    rewrite(folder, "effect", lambda line: line | {"before": 7})


def forget_an_edit(folder: Path) -> None:
    Park.objects.filter(id=asked("plain").id).update(proposed=None)


def stumble(folder: Path) -> None:
    ledger.journal().write("stumbled", driver="asker", over="AttributeError", said="no such thing")


def lose_the_trail(folder: Path) -> None:
    """End a request past the trail, which the database itself lets nobody change."""
    Park.objects.filter(id=asked("open").id).update(status="rejected", settled_at=clock.now())


@pytest.mark.usefixtures("clock")
def test_a_play_of_requests_that_went_right_is_found_to_be_right(folder: Path) -> None:
    assert asked("plain").arguments == {"order": "plain", "by": "verbs-1-1-0"}
    assert [asked(key).status for key in ("plain", "several", "open")] == [
        *("approved", "approved", "pending")
    ]
    codes = [line["code"] for line in ledger.journal().lines("answered")]
    assert codes == ["", "counted", ""]
    assert len(ledger.journal().lines("told")) == 3
    assert [line["before"] for line in ledger.effects().lines("effect")] == [1]
    assert found(folder) == []


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize(
    ("tamper", "check"),
    [
        (never_tell, "a_decision_is_told"),
        (tell_of_what_is_open, "a_decision_is_told"),
        (tell_something_else, "a_decision_is_told"),
        (tell_under_another_id, "a_decision_is_told"),
        (sign_badly, "what_is_told_is_signed"),
        (tell_of_nothing, "what_is_told_is_signed"),
        (ask_twice, "a_key_asks_once"),
        (lose_a_request, "a_key_asks_once"),
        (take_back_a_vote, "several_people_said_yes"),
        (lose_a_vote, "several_people_said_yes"),
        (ask_for_something_else, "edits_are_what_was_written"),
        (keep_what_was_refused, "edits_are_what_was_written"),
        (forget_an_edit, "edits_are_what_was_written"),
        (run_with_something_else, "edits_are_what_was_written"),
        (stumble, "no_driver_stumbles_over_itself"),
        (lose_the_trail, "the_trail_is_sound"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_what_went_wrong_with_requests_is_found(
    folder: Path, tamper: Callable[[Path], None], check: str
) -> None:
    tamper(folder)
    assert check in found(folder)
