"""The evidence of a request, the export of the trail, and blanking by age."""

import csv
import json
from datetime import timedelta
from typing import Any

import pytest

import hitl
from agents.testing import call, run_worker
from hitl import audit
from hitl import clock as time
from hitl.models import Decision, Park, Verb
from hitl.trail import blanking, evidence, exporting, sealing, verifying
from tests.desk import Desk

DAY = timedelta(days=1)
NOBODY = audit.system("cli")


def edited(desk: Desk) -> Park:
    desk.open([call("send", to="ana")], "Done.", tools=desk.tools(editable=True))
    desk.answer(True, arguments={"to": "ben"}, actor="eve", reason="she is away")
    [park] = desk.parks()
    return park


@pytest.mark.promise("I12", "A9", "M4")
def test_the_evidence_tells_what_was_shown_decided_and_executed(desk: Desk) -> None:
    park = edited(desk)
    sealing.seal_loose()
    document = json.loads(json.dumps(evidence.of(park)))
    assert document["shown"]["proposed_arguments"] == {"to": "ana", "copies": 1}
    assert document["shown"]["arguments"] == {"to": "ben", "copies": 1}
    assert document["decided"]["by"] == "eve"
    assert document["decided"]["edited"] is True
    assert document["executed"]["arguments"] == {"to": "ben", "copies": 1}
    assert document["executed"]["proposed_arguments"] == {"to": "ana", "copies": 1}
    assert document["executed"]["digest"] == document["shown"]["digest"]
    assert document["executed"]["outcome"] == "ok"
    assert [row["verb"] for row in document["trail"]] == ["opened", "edited", "approved"]
    assert {row["seal"] for row in document["trail"]} == {1}
    assert document["is_as_written"] is True


@pytest.mark.promise("I12")
def test_the_trail_is_exported_line_by_line(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    park = edited(desk)
    monkeypatch.setattr(exporting, "PAGE", 2)
    lines = [json.loads(line) for line in exporting.lines("jsonl")]
    assert [line["verb"] for line in lines] == ["opened", "edited", "approved"]
    assert all(tuple(line) == exporting.COLUMNS for line in lines)
    table = list(csv.reader(exporting.lines("csv")))
    assert tuple(table[0]) == exporting.COLUMNS
    assert [row[4] for row in table[1:]] == ["opened", "edited", "approved"]
    assert json.loads(table[2][9]) == lines[1]["detail"]
    assert len(list(exporting.lines("jsonl", request_id=park.id))) == 3
    assert list(exporting.lines("jsonl", since=time.now() + DAY)) == []
    assert list(exporting.lines("jsonl", until=time.now() - DAY)) == []


@pytest.mark.promise("I12", "U5")
def test_a_spreadsheet_takes_no_text_for_a_formula(desk: Desk) -> None:
    desk.open([call("send", to="ana")], "Done.")
    desk.answer(False, reason='=HYPERLINK("http://x")', actor="@eve,\n")
    text = "\n".join(exporting.lines("csv"))
    table = list(csv.reader(text.splitlines(keepends=True)))
    assert table[-1][8] == '\'=HYPERLINK("http://x")'
    assert table[-1][5].startswith("'@eve")


@pytest.mark.promise("O5", "I12")
def test_blanking_takes_the_payload_and_leaves_the_chain(desk: Desk, clock: Any) -> None:
    park = edited(desk)
    desk.open([call("send", to="ana")], "Done.")
    desk.answer(True, payload={"letter": "secret"})
    sealing.seal_loose()
    clock.advance(days=91)
    assert blanking.count(90 * DAY) == 2
    assert blanking.blank(90 * DAY, actor=NOBODY) == 2
    assert blanking.blank(90 * DAY, actor=NOBODY) == 0
    for row in Park.objects.all():
        assert (row.arguments, row.title, row.description) == ({}, "", "")
        assert row.blanked_at is not None
    blanked = Park.objects.get(id=park.id)
    assert (blanked.proposed, blanked.digest) == ({}, park.digest)
    answered = Park.objects.exclude(id=park.id).get()
    assert answered.answer == {"payload": blanking.BLANK}
    assert answered.was_answered_with_result
    sealing.seal_loose()
    assert verifying.verify().is_sound
    assert Decision.objects.filter(verb=Verb.BLANKED).count() == 2


@pytest.mark.promise("O5")
def test_what_is_young_open_or_still_to_be_read_is_not_blanked(desk: Desk, clock: Any) -> None:
    desk.open([call("send", to="ana"), call("wipe")], "Done.", ttl="200d")
    first, second = desk.pending
    hitl.respond(desk.thread.id, first.tool_call_id, True)
    clock.advance(days=100)
    assert blanking.blank(90 * DAY, actor=NOBODY) == 0
    hitl.respond(desk.thread.id, second.tool_call_id, False)
    assert blanking.blank(90 * DAY, actor=NOBODY) == 0
    run_worker()
    assert desk.effects == ["send ana 1"]
    assert blanking.blank(90 * DAY, actor=NOBODY) == 1


def test_a_request_without_approvers_has_nothing_to_say_about_them(desk: Desk) -> None:
    desk.open([call("send", to="ana")], "Done.", tools=desk.tools(approver={"group:x": 2}))
    [park] = desk.parks()
    assert evidence.standing(park) == ["2 of group x"]
    desk.open([call("send", to="ana")], "Done.")
    assert evidence.standing(desk.parks()[0]) == []
