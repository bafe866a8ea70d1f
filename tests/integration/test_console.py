"""`manage.py hitl` decides, sweeps and fails as a person and a script expect it to."""

import io
import json
import os
import re
import subprocess
import sys
import threading
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError

import hitl
from agents import threads
from agents.testing import call, run_worker
from hitl import sweeping
from hitl.console import login, progress
from hitl.models import Decision, Park
from tests.console import (
    ROOT,
    database_url,
    nasty_tool,
    raw_escapes,
    request_id,
    run,
    shell,
    trail,
)
from tests.desk import Desk

SEND = call("send", to="ana")
WIPE = call("wipe")


# ── Deciding ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("L1", "A2", "I2")
@pytest.mark.django_db(transaction=True)
def test_a_shell_sees_five_without_yes_then_zero_then_one(desk: Desk) -> None:
    desk.open([SEND], "Done")
    one = request_id(desk)

    shown = shell("approve", one)
    assert shown.code == 5
    assert "send runs with these arguments" in shown.err
    assert '"to": "ana"' in shown.out
    assert Decision.objects.count() == 1

    done = shell("approve", one, "--yes", "--reason", "called her", "--json", USER="mallory")
    assert (done.code, done.err) == (0, "")
    assert done.document["request"]["status"] == "approved"
    assert trail(one)[1:] == [("approved", login.actor(), "cli")]

    late = shell("reject", one, "--yes")
    assert (late.code, late.out) == (1, "")
    assert "Too late, nothing was done. This request was already answered." in late.err
    run_worker()
    assert desk.effects == ["send ana 1"]
    assert desk.contexts[0].approval.reason == "called her"


@pytest.mark.promise("L1", "A10")
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "words",
    [
        ["allow", "ID", "--yes"],
        ["APPROVE", "ID", "--yes"],
        ["approved", "ID", "--yes"],
        ["appr", "ID", "--yes"],
        ["approve", "ID", "--ye"],
        ["approve", "ID", "--yes=1"],
        ["approve", "ID", "--yes", "--actor", "root"],
        ["approve", "--yes"],
        [],
    ],
)
def test_what_is_not_exactly_a_command_decides_nothing(desk: Desk, words: list[str]) -> None:
    desk.open([SEND])
    words = [request_id(desk) if word == "ID" else word for word in words]
    with pytest.raises(CommandError):
        run(*words)
    assert len(desk.pending) == 1
    assert Decision.objects.count() == 1


@pytest.mark.promise("L1")
@pytest.mark.django_db(transaction=True)
def test_a_shell_sees_usage_errors_as_two_and_as_a_document_when_it_asked_for_one() -> None:
    said = shell("list", "--limit", "0")
    assert (said.code, said.out) == (2, "")
    assert "from 1 to 200" in said.err
    told = shell("list", "--limit", "201", "--json")
    assert (told.code, told.err) == (2, "")
    assert told.document["error"]["code"] == "usage"
    assert "from 1 to 200" in told.document["error"]["message"]


@pytest.mark.promise("L1")
@pytest.mark.parametrize(
    ("verb", "status", "effect"),
    [
        ("approve", "approved", "send runs with these arguments."),
        ("reject", "rejected", "send does not run; whoever asked is told no."),
        ("cancel", "cancelled", "send does not run; the request is withdrawn."),
    ],
)
def test_a_decision_says_what_it_would_do_and_then_does_it(
    desk: Desk, verb: str, status: str, effect: str
) -> None:
    desk.open([SEND], "Done")
    one = request_id(desk)

    asked = run(verb, one, "--json")
    assert asked.code == 5
    assert asked.document["error"]["code"] == "unconfirmed"
    assert (asked.document["decided"], asked.document["effect"]) == (False, effect)
    assert asked.document["request"]["arguments"] == {"to": "ana", "copies": 1}
    assert len(desk.pending) == 1

    done = run(verb, one, "--yes", "--reason", "so it is", "--json")
    assert done.code == 0
    assert (done.document["decided"], done.document["verb"]) == (True, verb)
    assert done.document["request"]["status"] == status
    assert done.document["request"]["answer_reason"] == "so it is"
    run_worker()
    assert desk.effects == (["send ana 1"] if verb == "approve" else [])
    assert desk.thread.status == "COMPLETED"
    assert run(verb, one, "--yes").code == 1
    assert run(verb, one).code == 1


@pytest.mark.promise("A1", "E6", "I2", "L1")
@pytest.mark.parametrize("verb", ["approve", "reject"])
def test_an_answer_after_the_deadline_fails_before_any_sweep_has_run(
    desk: Desk, clock: Any, verb: str
) -> None:
    """Field reports DEC-02 and DEC-03."""
    desk.open([SEND], "Done")
    one = request_id(desk)
    clock.advance(minutes=15, seconds=1)
    listed = run("list", "--json").document["requests"]
    assert [(row["request_id"], row["overdue"]) for row in listed] == [(one, True)]

    asked = run(verb, one, "--json")
    assert (asked.code, asked.document["error"]["code"]) == (1, "expired")
    assert Decision.objects.count() == 1  # looking is no attempt

    late = run(verb, one, "--yes", "--json")
    assert (late.code, late.document["error"]["code"]) == (1, "expired")
    assert late.document["effect"] is None
    assert late.document["request"]["status"] == "timed_out"
    assert trail(one) == [
        ("opened", "system", "run"),
        ("expired", "system", "cli"),
        ("refused", login.actor(), "cli"),
    ]
    [_, _, refused] = run("get", one, "--json").document["trail"]
    assert refused["detail"] == {
        "tried": "approved" if verb == "approve" else "rejected",
        "code": "expired",
    }
    run_worker()
    assert desk.effects == []
    assert desk.results["send"].outcome == "timed_out"


@pytest.mark.promise("A1", "L1")
@pytest.mark.parametrize(
    "address",
    ["x", "", ":", "::", "a:b", "1", "\x1b[31m", "\udcff", "💥" * 200, "None", "-" * 36, "{}"],
)
@pytest.mark.parametrize("verb", ["get", "approve"])
def test_an_id_that_names_nothing_is_not_found(desk: Desk, address: str, verb: str) -> None:
    desk.open([SEND])
    yes = ["--yes"] if verb == "approve" else []
    words = (f"{desk.thread.id}:{address}", str(uuid4()), f"{uuid4()}:{address}")
    for word in (*words, *([address] if not address.startswith("-") else [])):
        ended = run(verb, word, *yes)
        assert ended.code == 4, word
        assert ended.out == ""
        assert "There is no request" in ended.err
        assert not raw_escapes(ended.err)
        document = run(verb, word, *yes, "--json").document
        assert document["error"]["code"] == "not_found"
    assert Decision.objects.count() == 1


@pytest.mark.promise("A1")
@pytest.mark.parametrize("key", ["\udcff", "\0", "a\0b"])
def test_a_key_that_no_database_can_hold_is_not_found(desk: Desk, key: str) -> None:
    desk.open([SEND])
    assert hitl.respond(desk.thread.id, key, True).code == "not_found"


@pytest.mark.promise("S2", "L1")
@pytest.mark.parametrize("verb", ["approve", "reject", "cancel"])
def test_a_bare_thread_id_is_refused_and_its_open_requests_are_named(desk: Desk, verb: str) -> None:
    """Field report PAR-02."""
    desk.open([SEND, WIPE], "Done")
    for open_count in (2, 1):
        ids = [str(one.request_id) for one in desk.pending]
        assert len(ids) == open_count
        for bare in (desk.thread.id, desk.run.id):
            refused = run(verb, str(bare), "--yes")
            assert (refused.code, refused.out) == (2, "")
            assert all(one in refused.err for one in ids)
        assert run(verb, str(desk.thread.id), "--yes", "--json").document["error"]["code"] == (
            "ambiguous"
        )
        assert [str(one.request_id) for one in desk.pending] == ids
        run("reject", ids[0], "--yes")
    assert run(verb, str(desk.thread.id), "--yes").code == 4


@pytest.mark.promise("S2", "L1")
def test_thread_and_call_together_name_one_request(desk: Desk) -> None:
    desk.open([SEND, WIPE], "Done")
    first, second = desk.pending
    assert run("reject", f"{desk.thread.id}:{first.tool_call_id}", "--yes").code == 0
    assert [one.request_id for one in desk.pending] == [second.request_id]
    assert run("approve", f"{desk.run.id}:{second.tool_call_id}", "--yes").code == 0
    run_worker()
    assert desk.effects == ["wipe"]


@pytest.mark.promise("A8", "L1")
@pytest.mark.parametrize("takes", ["result", "context"])
def test_a_payload_comes_with_a_word_on_whether_the_tool_runs(desk: Desk, takes: str) -> None:
    desk.open([SEND], "Done", tools=desk.tools(payload=takes))
    one = request_id(desk)
    words = ["approve", one, "--payload", '{"sent_by": "hand"}']
    said = {
        "result": "send will NOT run: the payload becomes its result.",
        "context": "send runs with these arguments. The payload is its context.",
    }[takes]
    asked = run(*words)
    assert asked.code == 5
    assert said in asked.err
    assert '"sent_by": "hand"' in asked.out
    done = run(*words, "--yes")
    assert done.code == 0
    assert said in done.out
    run_worker()
    if takes == "result":
        assert desk.effects == []
        assert desk.results["send"].content == {"sent_by": "hand"}
        assert trail(one)[-1][0] == "answered"
        assert "answered with a result" in run("get", one).out
    else:
        assert desk.contexts[0].approval.payload == {"sent_by": "hand"}


@pytest.mark.promise("L1", "H4")
@pytest.mark.parametrize(
    "payload",
    ["", "{", "NaN", "1e400", "-Infinity", "{'a': 1}", "9" * 5000, "[" * 100_000, '"\ud800" x'],
)
def test_a_payload_that_is_no_json_decides_nothing(desk: Desk, payload: str) -> None:
    desk.open([SEND])
    ended = run("approve", request_id(desk), "--yes", f"--payload={payload}", "--json")
    assert (ended.code, ended.document["error"]["code"]) == (2, "bad_json")
    assert len(desk.pending) == 1


@pytest.mark.promise("L1")
def test_a_payload_over_the_bound_decides_nothing(desk: Desk, settings: Any) -> None:
    settings.HITL = {**settings.HITL, "PAYLOAD_BYTES_MAX": 100}
    desk.open([SEND])
    ended = run("approve", request_id(desk), "--yes", "--payload", f'"{"x" * 200}"', "--json")
    assert (ended.code, ended.document["error"]["code"]) == (2, "too_large")
    assert len(desk.pending) == 1


@pytest.mark.promise("I2")
def test_the_actor_is_the_user_id_of_the_process_whatever_the_environment_says(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("USER", "LOGNAME", "USERNAME", "LNAME", "SUDO_USER"):
        monkeypatch.setenv(name, "mallory")
    assert "mallory" not in login.actor()
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000_000)
    desk.open([SEND])
    one = request_id(desk)
    run("reject", one, "--yes")
    assert trail(one)[-1][1].startswith("uid-4000000000@")


# ── Failing ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("L1")
@pytest.mark.parametrize("words", [["list"], ["sweep"]])
def test_a_database_that_does_not_answer_is_a_failure_and_no_traceback(
    db: None, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    def gone(*_: Any, **__: Any) -> None:
        raise OperationalError("the server closed the connection\x1b[2J")

    monkeypatch.setattr(Park.objects, "cards", gone)
    monkeypatch.setattr(sweeping, "_due", gone)
    told = run(*words, "--json")
    assert (told.code, told.document["error"]["code"]) == (1, "database_error")
    said = run(*words)
    assert (said.code, said.out) == (1, "")
    assert "the server closed the connection" in said.err
    assert raw_escapes(said.err) == []
    assert "migrate" not in said.err


@pytest.mark.promise("L1")
def test_a_table_that_is_not_there_yet_is_told_with_what_makes_it(
    db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: Any, **__: Any) -> None:
        raise OperationalError("no such table: hitl_park")

    monkeypatch.setattr(Park.objects, "cards", missing)
    assert "no such table: hitl_park (Has manage.py migrate been run?)" in run("list").err


@pytest.mark.promise("L1")
def test_a_fault_of_ours_is_still_one_document(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeping, "sweep", lambda **_: 1 / 0)
    out = io.StringIO()
    with pytest.raises(ZeroDivisionError):
        call_command("hitl", "sweep", "--json", stdout=out)
    assert json.loads(out.getvalue())["error"]["code"] == "internal_error"


@pytest.mark.promise("L1")
@pytest.mark.django_db(transaction=True)
def test_a_reader_that_stops_reading_is_no_error(desk: Desk) -> None:
    desk.open([call("shout", text="x" * 500_000)], tools=[nasty_tool()])
    reading, writing = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "manage.py", "hitl", "get", request_id(desk)],
        cwd=ROOT,
        env={**os.environ, "SECRET_KEY": "x" * 50, "DATABASE_URL": database_url()},
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(writing)
    os.read(reading, 10)
    os.close(reading)
    _, said = process.communicate(timeout=100)
    assert said == ""


# ── Sweeping ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("L1", "E4")
def test_sweep_settles_what_is_due_and_counts_it(desk: Desk, clock: Any) -> None:
    desk.open([SEND, WIPE], "Done")
    clock.advance(minutes=16)
    assert run("sweep", "--json").document["counts"]["expired"] == 2
    assert re.search(r"^0 +expired$", run("sweep").out, re.MULTILINE)
    run_worker()
    assert desk.thread.status == "COMPLETED"


@pytest.mark.django_db(transaction=True)
def test_something_long_says_how_far_it_is(desk: Desk) -> None:
    """The word comes from a thread with a connection of its own."""
    desk.open([SEND])
    said: list[str] = []
    second = threading.Event()

    def say(text: str) -> None:
        said.append(text)
        if len(said) == 2:
            second.set()

    with progress.told(say, lambda: f"{Park.objects.count()} left", first_s=0.01, every_s=0.01):
        assert second.wait(30)
    count = len(said)
    assert re.fullmatch(r"\d+ s: 1 left", said[0])
    assert len(said) == count


def test_threads_answer_the_same_through_the_public_verb(desk: Desk) -> None:
    """A request decided here is decided everywhere."""
    desk.open([SEND], "Done")
    [pending] = desk.pending
    run("approve", str(pending.request_id), "--yes")
    answer = hitl.respond(desk.thread.id, pending.tool_call_id, False)
    assert (answer.delivered, answer.code) == (False, "already_answered")
    types = [event["type"] for event in threads.events(desk.thread)]
    assert types.count("INPUT_ANSWERED") == 1
