"""The chain over the audit trail: rows that only grow, seals, and what verifying shows."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from django.core.management import call_command
from django.db import IntegrityError, connection, transaction

import hitl
from agents.testing import call
from hitl import audit, clock, sweeping
from hitl.models import Decision, Park, Seal, Verb
from hitl.trail import append_only, sealing, verifying
from tests.desk import Desk


@pytest.fixture
def trail(desk: Desk) -> list[Decision]:
    """The rows of two requests, each decided and refused once."""
    for approved in (True, False):
        desk.open([call("send", to="ana")], "Done.")
        [request] = desk.pending
        desk.answer(approved, actor="ana", reason="because")
        assert not hitl.decide(request.request_id, True, actor="eve").delivered
    return list(Decision.objects.order_by("id"))


def kinds() -> list[str]:
    return [flaw.kind for flaw in verifying.verify().flaws]


# ── The rows only grow ───────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("I2", "I12")
@pytest.mark.parametrize(
    "tamper",
    [
        lambda rows: rows.delete(),
        lambda rows: rows.update(actor="eve"),
        lambda rows: rows.update(hash="sha256:0"),
        lambda rows: rows.update(seal=1),
        lambda rows: Seal.objects.all()._raw_delete("default"),
        lambda rows: Seal.objects.update(row_count=1),
    ],
    ids=["delete", "update", "hash", "seal again", "delete seal", "update seal"],
)
def test_the_database_refuses_to_change_what_the_trail_says(
    trail: list[Decision], tamper: Callable[[Any], object]
) -> None:
    assert sealing.seal_loose() == len(trail)
    before = list(Decision.objects.order_by("id").values())
    with pytest.raises(IntegrityError, match="append-only"), transaction.atomic():
        tamper(Decision.objects.filter(id=trail[0].id))
    assert list(Decision.objects.order_by("id").values()) == before


@pytest.mark.promise("I2")
def test_a_row_cannot_be_saved_again(trail: list[Decision]) -> None:
    trail[0].actor = "eve"
    with pytest.raises(IntegrityError, match="append-only"), transaction.atomic():
        trail[0].save()


@pytest.mark.django_db(transaction=True)
def test_a_whole_database_can_still_be_emptied(transactional_db: None) -> None:
    desk = Desk()
    desk.open([call("send", to="ana")], "Done.")
    sealing.seal_loose()
    call_command("flush", verbosity=0, interactive=False)
    assert not Decision.objects.exists()
    assert not Seal.objects.exists()
    desk.open([call("send", to="ana")], "Done.")
    with pytest.raises(IntegrityError, match="append-only"), transaction.atomic():
        Decision.objects.all().delete()


# ── Seals ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("I12")
def test_the_sweep_seals_what_was_written(trail: list[Decision]) -> None:
    assert verifying.verify().loose == len(trail)
    assert sweeping.sweep()["sealed"] == len(trail)
    assert sweeping.sweep()["sealed"] == 0
    report = verifying.verify()
    assert report.is_sound
    assert (report.rows, report.loose, report.seals) == (len(trail), 0, 1)
    assert report.head == Seal.objects.get().hash


@pytest.mark.promise("I12")
def test_seals_are_made_in_bounded_batches_that_follow_each_other(
    trail: list[Decision], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealing, "BATCH", 2)
    assert sealing.seal_loose(batches_max=2) == 4
    assert verifying.verify().loose == len(trail) - 4
    assert sealing.seal_loose() == len(trail) - 4
    first, second, *_ = Seal.objects.order_by("number")
    assert (first.number, first.previous, second.previous) == (1, "", first.hash)
    assert verifying.verify().is_sound


@pytest.mark.promise("I12")
def test_a_row_that_commits_late_is_sealed_later_whatever_its_id(desk: Desk) -> None:
    desk.open([call("send", to="ana")], "Done.")
    [opened] = Decision.objects.all()
    sealing.seal_loose()
    late = audit.row(opened.park, Verb.REFUSED, audit.person("eve", "admin"), at=clock.now())
    late.id = UUID(int=1)
    late.hash = audit.fingerprint(late)
    audit.append([late])
    assert sealing.seal_loose() == 1
    assert verifying.verify().is_sound


# ── What verifying shows ─────────────────────────────────────────────────────────────────────────


def change(row: Decision) -> None:
    Decision.objects.filter(id=row.id).update(reason="because I said so")


def change_with_its_hash(row: Decision) -> None:
    row.reason = "because I said so"
    row.hash = audit.fingerprint(row)
    row.save()


def remove(row: Decision) -> None:
    row.delete()


def add(row: Decision) -> None:
    made = audit.row(row.park, Verb.REFUSED, audit.person("eve", "admin"), at=row.at)
    made.seal_id = 1
    audit.append([made])


def swap(row: Decision) -> None:
    """Let two rows change places, each with a hash that fits it."""
    other = Decision.objects.exclude(id=row.id).filter(park=row.park).first()
    mine, others = row.id, other.id
    for one in (row, other):
        one.delete()
    for one, new in ((row, others), (other, mine)):
        one.id = new
        one.hash = audit.fingerprint(one)
        one.save(force_insert=True)


def exchange(row: Decision) -> None:
    remove(row)
    add(row)


def remove_the_seal(row: Decision) -> None:
    with connection.constraint_checks_disabled():
        Decision.objects.all().delete()
        Seal.objects.filter(number=1).delete()


@pytest.mark.promise("I12")
@pytest.mark.parametrize(
    ("tamper", "shows"),
    [
        (change, "row_changed"),
        (change_with_its_hash, "seal_broken"),
        (remove, "row_missing"),
        (add, "row_extra"),
        (swap, "seal_broken"),
        (exchange, "seal_broken"),
        (lambda row: Seal.objects.update(previous="sha256:0"), "seal_changed"),
        (lambda row: Seal.objects.update(at=clock.now()), "seal_broken"),
        (remove_the_seal, "seal_missing"),
    ],
)
def test_verifying_shows_what_was_done_to_a_sealed_row(
    trail: list[Decision],
    monkeypatch: pytest.MonkeyPatch,
    tamper: Callable[[Decision], object],
    shows: str,
) -> None:
    sealing.seal_loose()
    monkeypatch.setattr(sealing, "BATCH", 1)
    audit.append([audit.row(trail[0].park, Verb.REFUSED, audit.system("x"), at=clock.now())])
    sealing.seal_loose()
    assert kinds() == []
    with append_only.lifted():
        tamper(Decision.objects.filter(verb=Verb.REFUSED).order_by("id")[0])
    assert shows in kinds()


@pytest.mark.promise("I12")
def test_verifying_shows_a_change_before_the_row_is_sealed(trail: list[Decision]) -> None:
    with append_only.lifted():
        change(trail[0])
        trail[1].delete()
    assert kinds() == ["row_changed", "row_missing"]


@pytest.mark.promise("I12")
def test_a_chain_written_anew_does_not_hold_the_anchor(trail: list[Decision]) -> None:
    sealing.seal_loose()
    anchor = verifying.verify().head
    assert verifying.verify(anchor=anchor).is_sound
    with append_only.lifted():
        Decision.objects.update(seal=None)
        change_with_its_hash(trail[0])
        Seal.objects.all().delete()
    sealing.seal_loose()
    assert verifying.verify().is_sound
    [flaw] = verifying.verify(anchor=anchor).flaws
    assert flaw.kind == "anchor_missing"


def test_a_report_keeps_a_bounded_number_of_flaws(trail: list[Decision]) -> None:
    with append_only.lifted():
        Decision.objects.update(actor="bob")
    report = verifying.verify()
    assert report.flaw_count == len(trail) == len(report.flaws)
    assert Park.objects.count() == 2
