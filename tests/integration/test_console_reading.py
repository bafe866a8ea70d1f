"""What `manage.py hitl list` and `get` show, to a terminal and to a program."""

import io
import json
import re
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import call_command

import hitl
from agents.testing import call, run_worker
from hitl import parks
from hitl.console.errands import ERRANDS
from hitl.models import Park
from hitl.states import OnTimeout
from tests.console import NASTY, PAGE, ROOT, nasty_tool, raw_escapes, request_id, run
from tests.desk import Desk

SEND = call("send", to="ana")
WIPE = call("wipe")


# ── Looking ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("U5", "L1")
@pytest.mark.parametrize("words", [["list"], ["get", "ID"], ["approve", "ID"], ["list", "--json"]])
def test_nothing_that_a_model_wrote_controls_the_terminal(desk: Desk, words: list[str]) -> None:
    """Field report ADM-01."""
    desk.open([call("shout", text=NASTY)], tools=[nasty_tool()])
    ended = run(*[request_id(desk) if word == "ID" else word for word in words])
    assert raw_escapes(ended.out + ended.err) == []
    if "--json" in words:
        assert ended.out.isascii()
        assert ended.document["requests"][0]["arguments"] == {"text": NASTY}
    else:
        assert "⟨U+202E⟩" in ended.out
        assert "⟨U+001B⟩" in ended.out


@pytest.mark.promise("U5", "I2")
def test_neither_a_reason_nor_a_name_can_make_up_a_line_of_the_trail(desk: Desk) -> None:
    def fakes(*words: str) -> list[str]:
        ended = run(*words)
        assert raw_escapes(ended.out + ended.err) == []
        return re.findall(r"^\s*(?:Fake|2026-01-01 root)", ended.out + ended.err, re.MULTILINE)

    desk.open([SEND])
    one = request_id(desk)
    Park.objects.update(title="Send it?\nFake", asker="desk\nFake", topic="a\nFake")
    assert fakes("reject", one, f"--reason=no\n{NASTY}") == []
    assert fakes("reject", str(desk.thread.id)) == []
    parks.decide(one, False, reason=f"no\n{NASTY}", actor="eve\n2026-01-01 root", channel="python")
    assert fakes("get", one) == []
    assert fakes("list", "--status", "all") == []
    shown = run("get", one).out
    assert " no⏎" in shown
    assert "Send it?⏎Fake" in shown
    assert run("get", one, "--json").document["trail"][1]["actor"] == "eve\n2026-01-01 root"


@pytest.mark.promise("U5", "L1")
def test_get_shows_the_arguments_in_full_however_long(desk: Desk) -> None:
    text = "x" * 100_000 + "END"
    desk.open([call("shout", text=text)], tools=[nasty_tool()])
    one = request_id(desk)
    assert f'"text": "{text}"' in run("get", one).out
    assert run("get", one, "--json").document["request"]["arguments"] == {"text": text}
    assert len(run("list").out) < 1000


@pytest.mark.promise("L1")
def test_tables_are_pleasant_at_eighty_columns_and_keep_every_id_whole(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    ids = []
    for to in ("ana", "bo 🙏 名前" * 20, "c" * 150):
        desk.open([call("shout", text=to)], tools=[nasty_tool()])
        ids.append(request_id(desk))
    listed = run("list").out
    assert all(one in listed for one in ids)
    assert "Send ana" in listed
    assert "shout by desk" in listed
    assert "14m left" in listed
    assert max(len(line) for line in listed.splitlines()) <= 80
    assert not any(line.endswith(" ") for line in listed.splitlines())
    card = run("get", ids[0]).out
    assert max(len(line) for line in card.splitlines()) <= 80


@pytest.mark.promise("L1")
def test_colours_need_a_terminal_or_the_wish_for_them(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    desk.open([SEND])
    assert "\x1b" not in run("list").out
    out = io.StringIO()
    call_command("hitl", "--force-color", "list", stdout=out)
    assert "\x1b[" in out.getvalue()


@pytest.mark.promise("L1")
def test_an_output_that_cannot_hold_a_character_spells_it_out(desk: Desk) -> None:
    desk.open([call("shout", text="Grüße\u202e 名")], tools=[nasty_tool()])
    kept = io.BytesIO()
    out = io.TextIOWrapper(kept, encoding="ascii")
    call_command("hitl", "list", stdout=out)
    out.flush()
    assert rb"Gr\xfc\xdfe" in kept.getvalue()


@pytest.mark.promise("S4", "L1")
def test_the_list_and_the_pending_verb_agree_at_every_moment(desk: Desk, clock: Any) -> None:
    """Field report ADM-05."""

    def agree(count: int) -> None:
        by_verb = [str(one.request_id) for one in hitl.pending(desk.thread)]
        for words in (["--thread", str(desk.thread.id)], ["--thread", str(desk.run.id)], []):
            listed = run("list", "--json", *words).document["requests"]
            assert [one["request_id"] for one in listed] == by_verb
        assert len(by_verb) == count

    desk.open([SEND, WIPE, call("send", to="bo")], "Done")
    agree(3)
    hitl.respond(desk.thread, desk.pending[0].tool_call_id, True)
    agree(2)
    parks.cancel(desk.pending[0].request_id, actor="ana", channel="python")
    agree(1)
    clock.advance(minutes=16)
    agree(1)
    assert run("sweep").code == 0
    agree(0)
    run_worker()
    agree(0)
    assert run("list").out == "Nothing is waiting.\n"
    assert len(run("list", "--status", "all", "--json").document["requests"]) == 3


@pytest.mark.promise("L1", "S4")
def test_pages_follow_each_other_without_gap_or_repeat(desk: Desk) -> None:
    desk.open([call("send", to=str(number)) for number in range(7)])
    parks_by_id = list(Park.objects.order_by("id"))
    # Two without a deadline, two with the same one.
    Park.objects.filter(id__in=[park.id for park in parks_by_id[:2]]).update(
        expires_at=None, on_timeout=OnTimeout.IGNORE
    )
    same = parks_by_id[4].expires_at
    Park.objects.filter(id=parks_by_id[5].id).update(expires_at=same)

    for words in ([], ["--status", "all"]):
        whole = [one["request_id"] for one in turn_over([*words, "--limit", "200"])]
        for limit in ("1", "2", "3", "7"):
            paged = turn_over([*words, "--limit", limit])
            assert [one["request_id"] for one in paged] == whole
        newest_first = [str(park.id) for park in reversed(parks_by_id)]
        if words:
            assert whole == newest_first
        else:
            assert whole[-2:] == [str(park.id) for park in parks_by_id[:2]]


def turn_over(words: list[str]) -> list[Any]:
    """Return the requests of all pages."""
    found: list[Any] = []
    cursor: list[str] = []
    for _ in range(20):
        page = run("list", "--json", *words, *cursor).document
        found += page["requests"]
        if page["next_cursor"] is None:
            return found
        cursor = ["--cursor", page["next_cursor"]]
    raise AssertionError("the pages never end")


@pytest.mark.promise("L1")
@pytest.mark.parametrize(
    "cursor", ["x", "", "====", "bnVsbA", "WzEsMl0", "W10", "💥", "[" * 299, "A" * 5000, "e30"]
)
def test_a_cursor_of_no_page_is_a_usage_error(db: None, cursor: str) -> None:
    for status in ("pending", "all"):
        ended = run("list", "--status", status, f"--cursor={cursor}", "--json")
        assert (ended.code, ended.document["error"]["code"]) == (2, "invalid_cursor")


@pytest.mark.promise("L1")
def test_a_cursor_of_the_other_order_is_a_usage_error(desk: Desk) -> None:
    desk.open([SEND, WIPE])
    cursor = run("list", "--json", "--limit", "1").document["next_cursor"]
    assert run("list", "--status", "all", "--cursor", cursor).code == 2


@pytest.mark.promise("L1")
def test_the_list_narrows_by_status_topic_and_thread(desk: Desk) -> None:
    desk.open([SEND, WIPE], "Done")
    first, _ = desk.pending
    run("reject", str(first.request_id), "--yes")
    other = desk.thread
    desk.open([SEND])

    def found(*words: str) -> list[tuple[str, str]]:
        listed = run("list", "--json", *words).document["requests"]
        return sorted((one["topic"], one["status"]) for one in listed)

    assert found() == [("send", "pending"), ("wipe", "pending")]
    assert found("--status", "rejected") == [("send", "rejected")]
    assert found("--status", "all", "--topic", "send") == [
        ("send", "pending"),
        ("send", "rejected"),
    ]
    assert found("--topic", "nothing\0") == []
    assert found("--thread", str(other.id)) == [("wipe", "pending")]
    assert found("--thread", str(uuid4())) == []
    assert run("list", "--thread", "x").code == 2
    assert run("list", "--status", "timed_out").out == "There is no such request.\n"


@pytest.mark.promise("L1")
def test_a_timer_is_nobodys_business(desk: Desk) -> None:
    desk.open([SEND])
    Park.objects.update(reason="retry")
    timer = Park.objects.get()
    assert run("list", "--status", "all", "--json").document["requests"] == []
    assert run("get", str(timer.id)).code == 4
    assert run("cancel", f"{timer.scope}:{timer.key}", "--yes").code == 4


# ── The page ─────────────────────────────────────────────────────────────────────────────────────


def examples() -> list[Any]:
    blocks = re.findall(r"^```json\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return [json.loads(block) for block in blocks]


def shape(value: Any) -> Any:
    """Return the names and kinds of a document; null fits any kind."""
    if isinstance(value, dict):
        return {name: shape(item) for name, item in value.items()}
    if isinstance(value, list):
        return [shape(item) for item in value[:1]]
    return type(value).__name__


def assert_alike(example: Any, real: Any) -> None:
    """Compare names and kinds; an example may leave the rest out with "…"."""
    if isinstance(example, dict) and isinstance(real, dict):
        if "…" in example:
            real = {name: real[name] for name in example if name != "…"}
            example = {name: item for name, item in example.items() if name != "…"}
        assert list(example) == list(real)
        for name in example:
            assert_alike(example[name], real[name])
    elif isinstance(example, list) and isinstance(real, list) and example and real:
        assert_alike(example[0], real[0])
    elif example is not None and real is not None:
        assert shape(example) == shape(real)


@pytest.mark.promise("L1")
def test_the_examples_of_the_page_are_what_the_command_prints(desk: Desk) -> None:
    desk.open([SEND], "Done")
    one = request_id(desk)
    real = [
        run("list", "--json"),
        run("get", one, "--json"),
        run("approve", one, "--yes", "--json"),
        run("approve", one, "--yes", "--json"),
        run("sweep", "--json"),
        None,  # the doctor has tests of its own
        run("get", "x", "--json"),
    ]
    written = examples()
    assert len(written) == len(real)
    for example, ended in zip(written, real, strict=True):
        if ended is not None:
            assert_alike(example, ended.document)
    assert written[3]["error"] == real[3].document["error"]  # type: ignore[union-attr]
    assert written[6] == real[6].document  # type: ignore[union-attr]


@pytest.mark.promise("L1")
def test_the_page_names_every_command_option_and_error_code() -> None:
    text = PAGE.read_text()
    source = "".join(
        path.read_text()
        for path in [*ROOT.glob("hitl/console/*.py"), ROOT / "hitl/management/commands/hitl.py"]
    )
    options = set(re.findall(r'"(--[a-z]+)"', source))
    codes = set(re.findall(r'(?:Refusal\([^")]*|failure\()"([a-z_]+)"', source))
    assert {"--yes", "--cursor"} <= options
    assert {"unconfirmed", "ambiguous", "bad_json"} <= codes
    commands = set(ERRANDS)
    assert [word for word in options | codes | commands if f"`{word}" not in text] == []
