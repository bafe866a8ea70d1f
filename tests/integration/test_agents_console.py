"""`manage.py agents` for a person and a script: start, talk, list, show, stop, heal."""

from functools import partial
from typing import Any

import pytest

import hitl
from agents.models import Run, Thread
from agents.testing import call, run_worker
from hitl.console import login
from hitl.models import Decision
from tests import console
from tests.console import NASTY, raw_escapes
from tests.desk import Desk

pytestmark = pytest.mark.django_db

run: Any = partial(console.run, command="agents")
NOBODY = "01a22f24-c9ac-7ecc-8e5e-f0d722f120c3"


def as_json(*words: str) -> tuple[int, Any]:
    ended = run(*words, "--json")
    assert ended.document["schema_version"] == 1
    return ended.code, ended.document


def parked(desk: Desk) -> Thread:
    desk.open([call("send", to="ana")], "Done.")
    return desk.thread


@pytest.mark.promise("L2", "H1")
def test_run_starts_a_thread_and_show_tells_what_was_said(desk: Desk) -> None:
    desk.open("Hello.")
    name = desk.thread.agent
    code, said = as_json("run", name, "Who are you?")
    assert (code, said["thread"]["status"]) == (0, "QUEUED")
    assert [one["text"] for one in said["messages"]] == ["Who are you?"]
    shown = run("show", said["thread"]["thread_id"])
    assert (shown.code, "Who are you?" in shown.out) == (0, True)
    assert as_json("run", "nobody", "Hi")[0] == 4
    assert as_json("run", name, " ")[0] == 2
    assert as_json("run", name, "Hi", "--user", "nobody")[0] == 4


@pytest.mark.promise("L2")
def test_list_pages_through_threads_by_status(desk: Desk) -> None:
    thread = parked(desk)
    as_json("run", thread.agent, "Another")
    code, said = as_json("list", "--limit", "1")
    assert (code, len(said["threads"]), said["next_cursor"] is not None) == (0, 1, True)
    _, rest = as_json("list", "--cursor", said["next_cursor"])
    assert [one["thread_id"] for one in rest["threads"]] == [str(thread.id)]
    _, waiting = as_json("list", "--status", "WAITING_FOR_INPUT")
    assert [one["thread_id"] for one in waiting["threads"]] == [str(thread.id)]
    assert as_json("list", "--cursor", "x")[0] == 2
    assert str(thread.id) in run("list").out
    assert thread.agent in as_json("list")[1]["agents"]


@pytest.mark.promise("L2", "H1")
def test_send_is_refused_while_a_request_is_open_unless_it_supersedes(desk: Desk) -> None:
    thread = parked(desk)
    code, said = as_json("send", str(thread.id), "Hurry")
    assert (code, said["error"]["code"]) == (1, "thread_busy")
    code, said = as_json("send", str(thread.id), "Never mind", "--supersede")
    assert (code, said["thread"]["status"], said["pending"]) == (0, "QUEUED", [])
    assert as_json("send", NOBODY, "Hi")[0] == 4


@pytest.mark.promise("L2", "I2")
def test_stop_asks_for_yes_and_names_the_login(desk: Desk) -> None:
    thread = parked(desk)
    assert run("stop", str(thread.id)).code == 5
    assert len(hitl.pending(thread)) == 1
    code, said = as_json("stop", str(thread.id), "--reason", "enough", "--yes")
    assert (code, said["thread"]["status"]) == (0, "CANCELLED")
    row = Decision.objects.get(verb="cancelled")
    assert (row.actor, row.channel) == (login.actor(), "cli")
    assert as_json("stop", str(thread.id), "--yes")[0] == 1


@pytest.mark.promise("L2", "E8")
def test_reclaim_heals_only_what_is_broken(desk: Desk) -> None:
    thread = parked(desk)
    assert as_json("reclaim", str(thread.id)) == (0, {"schema_version": 1, "healed": False})
    hitl.respond(thread, hitl.pending(thread)[0].tool_call_id, True)
    assert as_json("reclaim", str(thread.id))[1]["healed"] is True


@pytest.mark.promise("L2")
def test_chat_shows_the_answer_and_what_is_waited_for(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.open("Hello.", [call("send", to="ana")], "Done.")
    lines = iter(["Write to Ana", "Hurry"])

    def ask(_: str) -> str:
        try:
            return next(lines)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr("builtins.input", ask)
    monkeypatch.setattr("agents.console.threads._wait", lambda *_: run_worker())
    ended = run("chat", "--thread", str(desk.thread.id))
    assert ended.code == 0
    assert "It waits for an answer" in ended.err
    assert "send" in ended.err
    assert "Write to Ana" in ended.out
    assert Run.objects.count() == 2, "the second line was refused: a request is open"
    assert run("chat").code == 2


@pytest.mark.promise("L2")
@pytest.mark.parametrize(("is_terminal", "prompt"), [(True, "> "), (False, "")])
@pytest.mark.parametrize("ending", [EOFError, KeyboardInterrupt])
def test_chat_ends_with_its_input_and_prompts_only_a_person(
    desk: Desk,
    monkeypatch: pytest.MonkeyPatch,
    is_terminal: bool,
    prompt: str,
    ending: type[BaseException],
) -> None:
    desk.open("Hello.")
    prompted = []

    def ask(words: str) -> str:
        prompted.append(words)
        raise ending

    monkeypatch.setattr("builtins.input", ask)
    monkeypatch.setattr("sys.stdin.isatty", lambda: is_terminal, raising=False)
    assert run("chat", "--thread", str(desk.thread.id)).code == 0
    assert prompted == [prompt]


@pytest.mark.promise("L2", "U5")
def test_nothing_that_is_shown_controls_the_terminal(desk: Desk) -> None:
    desk.open("Fine." + NASTY)
    as_json("run", desk.thread.agent, "Hi" + NASTY)
    run_worker()
    for words in (["list"], ["show", str(desk.thread.id)]):
        ended = run(*words)
        assert raw_escapes(ended.out + ended.err) == []
        assert "\nFake  approved" not in ended.out
