"""`manage.py hitl audit …`, `extend`, and several requests at once."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group, User

from agents.testing import call, run_worker
from hitl.console import login
from hitl.models import Decision, Park, Verb
from hitl.trail import append_only, sealing
from tests.console import run
from tests.desk import Desk

UNKNOWN = "0198a000-0000-7000-8000-000000000000"


def several(desk: Desk, count: int = 3, **gate: Any) -> list[str]:
    made = [call("send", to=f"{n}") for n in range(count)]
    desk.open(made, "Done.", tools=desk.tools(**gate))
    return [str(request.request_id) for request in desk.pending]


# ── Several at once ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("I11", "L1")
def test_several_requests_are_decided_each_with_its_own_result(desk: Desk) -> None:
    first, second, third = several(desk)
    assert run("reject", second, "--yes").code == 0
    ended = run("approve", first, second, UNKNOWN, third, first, "--yes", "--json")
    assert ended.code == 1
    assert ended.document["done"] == 2
    results = ended.document["results"]
    assert [one["id"] for one in results] == [first, second, UNKNOWN, third]
    errors = [one.get("error", {}).get("code") for one in results]
    assert errors == [None, "already_answered", "not_found", None]
    assert ended.document["error"]["code"] == "not_all"
    run_worker()
    assert desk.effects == ["send 0 1", "send 2 1"]


@pytest.mark.promise("I11", "L1")
def test_without_yes_nothing_of_several_is_decided(desk: Desk) -> None:
    ids = several(desk)
    ended = run("approve", *ids, "--json")
    assert ended.code == 5
    assert ended.document["error"]["code"] == "unconfirmed"
    assert len(desk.pending) == 3
    readable = run("approve", *ids)
    assert readable.code == 5
    assert all(one in readable.out for one in ids)
    assert run("approve", *ids, "--yes").code == 0
    assert run("approve", UNKNOWN, UNKNOWN[:-1] + "1", "--yes").code == 4


@pytest.mark.promise("I11")
def test_a_payload_is_for_one_request(desk: Desk) -> None:
    first, second, _ = several(desk)
    assert run("approve", first, second, "--payload", "1", "--yes").code == 2
    assert run("approve", *[f"{n}" for n in range(101)], "--yes").code == 2
    assert len(desk.pending) == 3


# ── Approvers, editing, extending ────────────────────────────────────────────────────────────────


@pytest.mark.promise("I8", "L1")
def test_a_login_decides_a_named_request_as_the_user_of_that_name(desk: Desk) -> None:
    [one] = several(desk, 1, approver={"group:finance": 2})
    refused = run("approve", one, "--yes", "--json")
    assert refused.code == 1
    assert refused.document["error"]["code"] == "not_allowed"
    assert login.user_name() in refused.document["error"]["message"]
    user = User.objects.create_superuser(login.user_name())
    assert run("approve", one, "--yes", "--json").document["error"]["code"] == "not_an_approver"
    user.groups.add(Group.objects.create(name="finance"))
    counted = run("approve", one, "--yes", "--json")
    assert counted.code == 0
    assert counted.document["decided"] is False
    assert counted.document["counted"] is True
    assert counted.document["outstanding"] == "1 of group finance"
    assert "Still needed" in run("reject", one, "--yes").out or len(desk.pending) == 0


@pytest.mark.promise("A9", "L1")
def test_arguments_are_edited_from_the_terminal(desk: Desk) -> None:
    [one] = several(desk, 1, editable=True)
    edit = '{"to": "ben", "copies": 9007199254740993}'
    plan = run("approve", one, "--arguments", edit)
    assert plan.code == 5
    assert "with the arguments you give" in plan.err
    wrong = run("approve", one, "--arguments", '{"to": 1}', "--yes", "--json")
    assert (wrong.code, wrong.document["error"]["code"]) == (1, "invalid_arguments")
    assert run("approve", one, "--arguments", "[1]", "--yes").code == 2
    assert run("approve", one, "--arguments", edit, "--yes").code == 0
    run_worker()
    assert desk.effects == ["send ben 9007199254740993"]


@pytest.mark.promise("E10", "L1")
def test_a_deadline_is_extended_from_the_terminal(desk: Desk) -> None:
    [one] = several(desk, 1)
    before = Park.objects.get().expires_at
    assert run("extend", one, "--by", "2h").code == 5
    assert Park.objects.get().expires_at == before
    ended = run("extend", one, "--by", "2h", "--yes", "--json")
    assert ended.code == 0
    assert ended.document["verb"] == "extend"
    assert Decision.objects.latest("id").actor == login.actor()
    too_far = run("extend", one, "--until", "2999-01-01", "--yes", "--json")
    assert (too_far.code, too_far.document["error"]["code"]) == (1, "not_extended")
    assert run("extend", one, "--by", "soon", "--yes").code == 2
    assert run("extend", one, "--until", "soon", "--yes").code == 2


# ── The trail ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("I12", "L1")
def test_verify_says_whether_the_trail_is_as_it_was_written(desk: Desk) -> None:
    several(desk)
    sealing.seal_loose()
    sound = run("audit", "verify", "--json")
    assert sound.code == 0
    assert (sound.document["rows"], sound.document["seals"]) == (3, 1)
    assert sound.document["schema_version"] == 1
    anchor = sound.document["head"]
    assert run("audit", "verify", "--anchor", anchor).code == 0
    assert run("audit", "verify", "--anchor", "sha256:0").code == 1
    with append_only.lifted():
        Decision.objects.filter(id=Decision.objects.latest("id").id).update(actor="\x1b[2Jeve")
    broken = run("audit", "verify")
    assert broken.code == 1
    assert "row_changed" in broken.out
    assert "flaws" in broken.err


@pytest.mark.promise("I12", "L1")
def test_the_evidence_is_shown(desk: Desk) -> None:
    first, *_ = several(desk)
    assert run("audit", "show", first, "--json").document["evidence"]["request_id"] == first
    readable = run("audit", "show", first)
    assert "Executed" in readable.out
    assert "fits its hash" in readable.out
    assert run("audit", "show", UNKNOWN).code == 4


@pytest.mark.promise("I12", "L1")
def test_the_trail_is_exported_to_a_stream_or_a_new_file(desk: Desk, tmp_path: Path) -> None:
    first, *_ = several(desk)
    lines = run("audit", "export").out.splitlines()
    assert [json.loads(line)["verb"] for line in lines] == ["opened"] * 3
    assert len(run("audit", "export", "--format", "csv").out.splitlines()) == 4
    assert len(run("audit", "export", "--request", first).out.splitlines()) == 1
    assert run("audit", "export", "--since", "2999-01-01").out == ""
    assert run("audit", "export", "--since", "soon").code == 2
    assert run("audit", "export", "--json").code == 2
    file = tmp_path / "trail.csv"
    words = ("audit", "export", "--format", "csv", "--output", str(file), "--json")
    assert run(*words).document["rows"] == 3
    assert len(file.read_text().splitlines()) == 4
    assert run(*words).document["error"]["code"] == "file_exists"


@pytest.mark.promise("O5", "L1")
def test_old_payloads_are_blanked_after_a_yes(desk: Desk, clock: Any) -> None:
    for one in several(desk):
        run("reject", one, "--yes")
    run_worker()
    clock.advance(days=100)
    asked = run("audit", "blank", "--older-than", "90d", "--json")
    assert (asked.code, asked.document["requests"]) == (5, 3)
    assert Park.objects.filter(blanked_at=None).count() == 3
    assert run("audit", "blank", "--older-than", "90d", "--yes", "--json").document["blanked"] == 3
    assert Decision.objects.filter(verb=Verb.BLANKED, actor=login.actor()).count() == 3
    assert run("audit", "blank", "--older-than", "soon", "--yes").code == 2
