"""Giving a request more time, and warning its owner before it closes."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.core import mail, management

import hitl
from agents import threads
from agents.testing import call, run_worker
from hitl import clock as time
from hitl import notices, sweeping, warning
from hitl.errors import BadDuration
from hitl.extending import InvalidExtension
from hitl.models import Decision, Park, Verb
from tests import invariants
from tests.desk import Desk


@pytest.fixture
def park(desk: Desk, clock: Any) -> Park:
    """A request that stays open for 15 minutes, on a clock that stands still."""
    desk.open([call("send", to="ana")], "Done.")
    [opened] = desk.parks()
    return opened


def left(park: Park) -> timedelta:
    fresh = Park.objects.get(id=park.id)
    assert fresh.expires_at is not None
    return fresh.expires_at - fresh.opened_at


# ── Extending ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("E10", "I2")
def test_an_extension_moves_the_deadline_and_is_in_the_trail(
    desk: Desk, park: Park, clock: Any
) -> None:
    assert hitl.extend(park.id, by="2h", actor="ana", reason="at lunch").delivered
    assert left(park) == timedelta(hours=2, minutes=15)
    row = Decision.objects.get(park=park, verb=Verb.EXTENDED)
    assert (row.actor, row.reason) == ("ana", "at lunch")
    assert row.detail["from"] == park.expires_at.isoformat()
    clock.advance(minutes=100)
    run_worker()
    assert Park.objects.get(id=park.id).is_pending
    assert desk.answer(True).delivered
    assert desk.effects == ["send ana 1"]
    invariants.check()


@pytest.mark.promise("E10")
def test_an_extension_can_name_the_time(park: Park) -> None:
    until = time.now() + timedelta(hours=1)
    assert hitl.extend(park.id, until=until).delivered
    assert Park.objects.get(id=park.id).expires_at == until


@pytest.mark.promise("E10", "E6")
def test_nothing_is_extended_after_its_deadline_or_its_answer(
    desk: Desk, park: Park, clock: Any
) -> None:
    clock.advance(minutes=15)
    answer = hitl.extend(park.id, by="2h", actor="ana")
    assert (answer.delivered, answer.code) == (False, "expired")
    run_worker()
    assert hitl.extend(park.id, by="2h").code == "expired"
    assert left(park) == timedelta(minutes=15)
    assert desk.trail()[1:3] == [("refused", "ana"), ("expired", "system")]


@pytest.mark.promise("E10")
@pytest.mark.parametrize(
    ("more", "code"),
    [({"by": "31d"}, "not_extended"), ({"until": datetime(2020, 1, 1)}, None)],
)
def test_an_extension_has_a_bound(park: Park, more: dict[str, Any], code: str | None) -> None:
    if code is None:
        with pytest.raises(InvalidExtension):
            hitl.extend(park.id, **more)
    else:
        answer = hitl.extend(park.id, **more)
        assert (answer.delivered, answer.code) == (False, code)
        assert "no longer than 30d" in str(answer.error)
    assert left(park) == timedelta(minutes=15)


@pytest.mark.promise("E9", "E10")
@pytest.mark.parametrize("by", ["0s", "-1h", "soon", 0, float("nan"), "99999d"])
def test_a_senseless_extension_is_refused_before_anything_is_written(park: Park, by: Any) -> None:
    with pytest.raises(BadDuration):
        hitl.extend(park.id, by=by)
    assert Decision.objects.count() == 1


def test_an_extension_says_one_thing(park: Park) -> None:
    for more in ({}, {"by": "1h", "until": time.now()}):
        with pytest.raises(InvalidExtension):
            hitl.extend(park.id, **more)
    sooner = hitl.extend(park.id, until=time.now() + timedelta(minutes=1))
    assert (sooner.delivered, sooner.code) == (False, "not_extended")
    assert hitl.extend("nonsense", by="1h").code == "not_found"


@pytest.mark.promise("E10", "U6")
def test_a_user_needs_the_permission_to_extend(park: Park) -> None:
    assert hitl.extend(park.id, by="1h", actor=User.objects.create_user("x")).code == "not_allowed"
    assert hitl.extend(park.id, by="1h", actor=User.objects.create_superuser("y")).delivered


# ── Warning ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("E10")
def test_the_approvers_are_warned_once_when_most_of_the_window_has_passed(
    desk: Desk, clock: Any
) -> None:
    ana = User.objects.create_user("ana", email="ana@example.com")
    ana.groups.add(Group.objects.create(name="finance"))
    User.objects.create_user("eve", email="eve@example.com")
    tools = desk.tools(approver="group:finance")
    desk.open([call("send", to="ana")], "Done.", tools=tools)
    [park] = desk.parks()
    clock.advance(minutes=11, seconds=59)
    run_worker()
    assert mail.outbox == []
    clock.advance(seconds=1)
    run_worker()
    run_worker()
    [letter] = mail.outbox
    assert letter.bcc == ["ana@example.com"]
    assert letter.subject.startswith("Closes in ")
    assert letter.subject.endswith(": Run send?")
    assert f"http://localhost:8000/admin/hitl/park/{park.id}/" in letter.body
    row = Decision.objects.get(verb=Verb.WARNED)
    assert (row.actor, row.system) == ("system", True)
    assert row.detail == {"told": 1, "through": ["hitl.notices.log", "hitl.notices.email"]}
    assert Park.objects.get(id=park.id).warn_at is None


@pytest.mark.promise("E10")
def test_the_owner_of_the_thread_is_warned_where_nobody_is_named(desk: Desk, clock: Any) -> None:
    ana = User.objects.create_user("ana", email="ana@example.com")
    desk.open("Hello.", [call("send", to="x")], "Done.")
    threads.Thread.objects.filter(id=desk.thread.id).update(owner=ana)
    threads.send(desk.thread, "Send it")
    run_worker()
    clock.advance(minutes=12)
    run_worker()
    [letter] = mail.outbox
    assert letter.bcc == ["ana@example.com"]


@pytest.mark.promise("E10")
def test_an_extended_request_is_warned_of_anew(park: Park, clock: Any) -> None:
    clock.advance(minutes=12)
    run_worker()
    assert hitl.extend(park.id, by="10m").delivered
    clock.advance(minutes=10)
    run_worker()
    assert Decision.objects.filter(verb=Verb.WARNED).count() == 1
    clock.advance(minutes=1)
    run_worker()
    assert Decision.objects.filter(verb=Verb.WARNED).count() == 2


@pytest.mark.promise("E10")
def test_an_answered_request_is_not_warned_of(desk: Desk, park: Park, clock: Any) -> None:
    desk.answer(True)
    clock.advance(minutes=13)
    run_worker()
    assert sweeping.sweep()["warnings_hinted"] == 0
    assert not Decision.objects.filter(verb=Verb.WARNED).exists()


@pytest.mark.promise("E10", "U7")
def test_a_notifier_that_fails_stops_no_other_and_all_failing_try_again(
    park: Park, clock: Any, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Field report ADM-03."""

    def fail(notice: notices.Notice) -> None:
        raise OSError("the mail server is away")

    monkeypatch.setattr(notices, "email", fail)
    clock.advance(minutes=12)
    settings.HITL = {**settings.HITL, "NOTIFIERS": ["hitl.notices.email"]}
    assert warning.owed(10) == [park.id]
    assert not warning.warn(park.id)
    assert warning.owed(10) == []
    clock.advance(minutes=2)
    settings.HITL = {**settings.HITL, "NOTIFIERS": ["hitl.notices.email", "hitl.notices.log"]}
    assert warning.warn(park.id)
    assert Decision.objects.get(verb=Verb.WARNED).detail["through"] == ["hitl.notices.log"]
    assert not warning.warn(park.id)


def test_a_sweep_hints_at_warnings_that_are_owed(park: Park, clock: Any) -> None:
    clock.advance(minutes=12)
    assert sweeping.sweep()["warnings_hinted"] == 1


def test_a_notifier_that_cannot_be_imported_is_an_error_of_the_settings(settings: Any) -> None:
    settings.HITL = {**settings.HITL, "NOTIFIERS": ["hitl.notices.pigeon"]}
    with pytest.raises(management.base.SystemCheckError, match="pigeon"):
        management.call_command("check")
