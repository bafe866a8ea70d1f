"""Deadlines: the row decides, the message only hurries, and nobody is taken for a person."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from celery import current_app
from celery.signals import worker_ready
from django.db import connections, transaction

import hitl
from agents import backlog, conf, requires_confirmation, segments, threads, tool, waiter
from agents.models import Run
from agents.testing import call, run_worker
from hitl import approval, checks, deadlines, hints, parks, sweeping, tasks
from hitl.models import Decision, Park, Pulse
from tests import invariants
from tests.desk import Desk

SEND = call("send", to="ana")
SETTLE = (deadlines.SETTLE, sweeping.STEP_PAUSE)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """What would be sent to the broker, at once: (task, delay)."""
    found: list[tuple[str, Any]] = []

    def record(task: str, *args: str, delay: timedelta | None = None, **_: Any) -> None:
        if task != "hitl.warn":  # no deadline's business
            found.append((task, delay))

    monkeypatch.setattr(hints, "send", record)
    return found


@pytest.mark.promise("E1", "E2", "A12")
def test_nobody_answers_and_the_run_goes_on_as_told_by_the_system(desk: Desk, clock: Any) -> None:
    desk.open([SEND], "Done")
    clock.advance(minutes=14, seconds=59)
    run_worker()
    assert len(desk.pending) == 1
    clock.advance(seconds=2)
    run_worker()
    assert desk.thread.status == "COMPLETED"
    assert desk.effects == []
    assert (
        desk.results["send"].content["message"].startswith("user had no response, action cancelled")
    )
    [park] = desk.parks()
    assert park.status == "timed_out"
    row = Decision.objects.get(verb="expired")
    assert (row.actor, row.system) == ("system", True)
    assert "INPUT_EXPIRED" in desk.event_types()


@pytest.mark.promise("E1")
@pytest.mark.parametrize(
    ("gate", "agent", "expected"),
    [
        ({"ttl": "5m"}, {"ttl": "2h"}, timedelta(minutes=5)),
        ({}, {"ttl": "2h"}, timedelta(hours=2)),
        ({}, {}, timedelta(minutes=30)),
    ],
)
def test_the_nearest_ttl_counts(
    desk: Desk, settings: Any, gate: Any, agent: Any, expected: timedelta
) -> None:
    settings.HITL = {"TTL": "30m"}
    desk.open([SEND], tools=desk.tools(**gate), **agent)
    [request] = desk.pending
    assert request.expires_at == request.opened_at + expected


@pytest.mark.promise("E6", "A1")
@pytest.mark.parametrize("approved", [True, False])
def test_after_the_deadline_nobody_can_answer_also_before_a_sweep(
    desk: Desk, clock: Any, approved: bool
) -> None:
    """Field reports DEC-02 and DEC-03."""
    desk.open([SEND], "Done")
    clock.advance(minutes=15, seconds=1)
    answer = desk.answer(approved, actor="ana")
    assert (answer.delivered, answer.code) == (False, "expired")
    assert desk.effects == []
    assert [(row.verb, row.actor) for row in Decision.objects.order_by("id")] == [
        ("opened", "system"),
        ("expired", "system"),
        ("refused", "ana"),
    ]
    assert desk.thread.status == "COMPLETED"


@pytest.mark.promise("E3")
def test_only_deadlines_within_the_horizon_get_a_countdown(
    desk: Desk, clock: Any, sent: list[Any]
) -> None:
    desk.open([SEND])
    assert deadlines.EXPIRE not in [task for task, _ in sent]
    clock.advance(minutes=13)
    assert sweeping.sweep()["promoted"] == 0
    clock.advance(minutes=1, seconds=30)
    assert sweeping.sweep()["promoted"] == 1
    [(_, delay)] = [entry for entry in sent if entry[0] == deadlines.EXPIRE]
    assert timedelta(seconds=25) < delay <= timedelta(seconds=30)


@pytest.mark.promise("E3", "E5")
def test_each_deadline_is_promoted_by_the_sweeps_of_its_last_minute(
    desk: Desk, clock: Any, sent: list[Any]
) -> None:
    """By two as a rule, so that a countdown that was lost comes again."""
    desk.open([SEND], [SEND])
    promoted = []
    for _ in range(34):
        clock.advance(seconds=26)
        promoted.append(sweeping.sweep()["promoted"])
    assert [index for index, count in enumerate(promoted) if count] == [32, 33]
    assert [task for task, _ in sent].count(deadlines.EXPIRE) == 2


@pytest.mark.promise("E3", "E5")
@pytest.mark.parametrize(("ttl", "at_once"), [("34s", True), ("36s", False)])
def test_a_deadline_gets_its_countdown_at_once_if_the_next_sweep_may_miss_it(
    desk: Desk, clock: Any, sent: list[Any], ttl: str, at_once: bool
) -> None:
    desk.open([SEND], tools=desk.tools(ttl=ttl))
    assert (deadlines.EXPIRE in [task for task, _ in sent]) is at_once
    clock.advance(seconds=30)
    assert sweeping.sweep()["promoted"] == 1, "whatever was sent before"


@pytest.mark.promise("E3")
def test_a_sweep_sends_one_countdown_for_deadlines_close_together(
    desk: Desk, clock: Any, sent: list[Any]
) -> None:
    begun = clock.now() + timedelta(seconds=40)
    for milliseconds in (0, 30, 60, 99, 100, 350):
        desk.open([SEND])
        newest = Park.objects.order_by("id").last()
        assert newest is not None
        due = begun + timedelta(milliseconds=milliseconds)
        Park.objects.filter(id=newest.id).update(expires_at=due)
    sent.clear()
    assert sweeping.sweep()["promoted"] == 6
    delays = [delay for task, delay in sent if task == deadlines.EXPIRE]
    apart = [round((delay - delays[0]).total_seconds(), 3) for delay in delays]
    assert apart == [0, 0.001, 0.251], "to the last of each tenth of a second"


@pytest.mark.promise("E3", "E5")
@pytest.mark.django_db(transaction=True)
def test_a_process_sends_two_countdowns_for_a_tenth_of_a_second(
    clock: Any, sent: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One to the first deadline, exactly; one to the end, for whatever follows."""
    tenth = datetime.fromtimestamp(clock.now().timestamp() // 1 + 20, UTC)
    parks = [Park(expires_at=tenth + timedelta(milliseconds=ms)) for ms in (20, 70, 40, 99)]
    monkeypatch.setattr(clock, "now", lambda: tenth - timedelta(seconds=10))
    deadlines.announce([parks[0]])
    deadlines.announce([parks[1]])
    deadlines.announce(parks[2:])
    assert [delay.total_seconds() for _, delay in sent] == [10.02, 10.1]


@pytest.mark.promise("E4", "E5")
@pytest.mark.django_db(transaction=True)
def test_a_countdown_that_did_not_leave_counts_for_no_other(clock: Any, sent: list[Any]) -> None:
    """Nor does one that is nearer than clocks may differ: it may be over for the worker."""
    park = Park(expires_at=clock.now() + timedelta(seconds=10))
    for _ in range(3):
        with transaction.atomic():
            deadlines.announce([park])
            transaction.set_rollback(True)
    soon = Park(expires_at=clock.now() + timedelta(seconds=1))
    for _ in range(3):
        deadlines.announce([soon])
    assert [round(delay.total_seconds()) for _, delay in sent] == [10, 10, 10, 1, 1, 1]


@pytest.mark.promise("E4", "E5")
def test_a_countdown_closes_whatever_is_due_when_it_arrives(
    desk: Desk, clock: Any, sent: list[Any]
) -> None:
    for name in ("ana", "ben", "cleo"):
        desk.open([call("send", to=name), call("send", to=name)], "Done")
    clock.advance(minutes=16)
    sent.clear()
    tasks.expire(str(desk.parks()[0].id))
    assert Park.objects.pending().count() == 0
    assert sorted(sent) == [("agents.segment", None)] * 3, "one for each run, and no countdown"
    assert Decision.objects.filter(verb="expired", channel="countdown", system=True).count() == 6
    assert set(Run.objects.values_list("status", flat=True)) == {"QUEUED"}
    invariants.check()


@pytest.mark.promise("S1", "S3", "E4")
def test_a_run_whose_sibling_request_is_open_waits_on_when_many_expire_together(
    desk: Desk, clock: Any
) -> None:
    desk.open([call("send", to="ana"), call("send", to="ben")], "Done")
    [_, later] = desk.parks()
    Park.objects.filter(id=later.id).update(expires_at=later.expires_at + timedelta(hours=1))
    desk.open([call("send", to="cleo")], "Done")
    clock.advance(minutes=16)
    assert sweeping.sweep()["expired"] == 2
    assert [park.id for park in Park.objects.pending()] == [later.id]
    statuses = Run.objects.order_by("id").values_list("status", flat=True)
    assert list(statuses) == ["WAITING_FOR_INPUT", "QUEUED"]
    invariants.check()


@pytest.mark.promise("E2", "W5")
def test_requests_that_expire_together_each_follow_their_own_policy(desk: Desk, clock: Any) -> None:
    desk.open([call("send", to="ana"), call("send", to="ben")], "Done")
    desk.open([call("send", to="cleo")], "Done")
    falls_open = desk.parks()[0]
    Park.objects.filter(id=falls_open.id).update(on_timeout="approve")
    entry = approval.request(topic="refund", payload={}, timeout="10m", on_timeout="approve")
    clock.advance(minutes=16)
    assert sweeping.sweep()["expired"] == 4
    statuses = dict(Park.objects.values_list("id", "status"))
    assert statuses.pop(falls_open.id) == statuses.pop(UUID(entry.approval_id)) == "approved"
    assert list(statuses.values()) == ["timed_out"] * 2
    assert all(row.system for row in Decision.objects.exclude(verb="opened"))


@pytest.mark.promise("E3")
def test_a_short_deadline_gets_its_countdown_at_once(desk: Desk, sent: list[Any]) -> None:
    desk.open([SEND], tools=desk.tools(ttl="2s"))
    [(_, delay)] = [entry for entry in sent if entry[0] == deadlines.EXPIRE]
    assert timedelta(seconds=1) < delay <= timedelta(seconds=2)


@pytest.mark.promise("E4")
def test_a_late_repeated_or_lost_message_changes_nothing(desk: Desk, clock: Any) -> None:
    """Field reports CEL-01 and CEL-06."""
    desk.open([SEND], "Done")
    [park] = desk.parks()
    clock.advance(minutes=16)
    for _ in range(5):
        tasks.expire(str(park.id))
    run_worker()
    tasks.expire(str(park.id))
    assert sweeping.sweep()["expired"] == 0
    assert Decision.objects.filter(verb="expired").count() == 1
    assert desk.event_types().count("INPUT_EXPIRED") == 1


@pytest.mark.promise("E4")
def test_an_early_message_changes_nothing_and_comes_again(desk: Desk, sent: list[Any]) -> None:
    desk.open([SEND], tools=desk.tools(ttl="30s"))
    [park] = desk.parks()
    sent.clear()
    tasks.expire(str(park.id))
    assert len(desk.pending) == 1
    assert [task for task, _ in sent] == [deadlines.EXPIRE]


@pytest.mark.promise("E4")
def test_a_message_about_a_settled_or_unknown_park_is_no_error(desk: Desk) -> None:
    desk.open([SEND], "Done")
    [park] = desk.parks()
    desk.answer(True)
    tasks.expire(str(park.id))
    tasks.expire(str(desk.thread.id))
    assert desk.parks()[0].status == "approved"


@pytest.mark.promise("E5")
def test_the_sweep_alone_settles_what_is_due_in_any_number(desk: Desk, clock: Any) -> None:
    desk.open([call("send", to=str(n)) for n in range(7)], "Done")
    clock.advance(minutes=16)
    assert sweeping.sweep()["expired"] == 7
    run_worker()
    assert desk.thread.status == "COMPLETED"
    assert Pulse.objects.get(name="sweep").detail["expired"] == 7


@pytest.mark.promise("E4")
def test_a_sweep_settles_a_batch_and_the_rest_follows_in_steps(
    desk: Desk, clock: Any, settings: Any, sent: list[Any]
) -> None:
    settings.HITL = {"SWEEP_BATCH": 2}
    desk.open([call("send", to=str(n)) for n in range(5)], "Done")
    clock.advance(minutes=16)
    sent.clear()
    assert sweeping.sweep()["expired"] == 2
    settled = []
    while sent.pop(0) == SETTLE:
        clock.advance(seconds=1)
        settled.append(tasks.settle())
    assert settled == [2, 1]
    assert sent == [], "the run was woken, and no step follows"


@pytest.mark.promise("E4")
def test_a_step_leaves_what_is_due_while_the_workers_are_behind(
    desk: Desk, clock: Any, settings: Any, sent: list[Any]
) -> None:
    """Else the run of someone who answers would wait behind all that is due."""
    settings.HITL = {"SWEEP_BATCH": 3}
    for name in ("ana", "ben", "cleo", "dora", "eve"):
        desk.open([call("send", to=name)], "Done")
    clock.advance(minutes=16)
    assert sweeping.sweep()["expired"] == 3
    sent.clear()
    clock.advance(seconds=1)
    assert tasks.settle() == 0
    assert sent == [SETTLE], "it looks again in a moment"
    segments.run_segment(backlog.owing()[0], keep_alive=False)
    clock.advance(seconds=1)
    assert tasks.settle() == 1


@pytest.mark.promise("E4")
def test_many_sweeps_begin_one_row_of_steps(
    desk: Desk, clock: Any, settings: Any, sent: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.HITL = {"SWEEP_BATCH": 1}
    for name in ("ana", "ben", "cleo", "dora"):
        desk.open([call("send", to=name)])
    clock.advance(minutes=16)
    expire, inside = parks.expire, []

    def with_another_step(*args: Any, **options: Any) -> bool:
        inside.append(tasks.settle())
        return expire(*args, **options)

    monkeypatch.setattr(parks, "expire", with_another_step)
    sent.clear()
    assert tasks.settle() == 1
    assert (inside, sent.count(SETTLE)) == ([0], 1)


@pytest.mark.promise("E4", "H7")
def test_many_that_cannot_be_expired_hold_up_no_other(
    desk: Desk, clock: Any, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.HITL = {"SWEEP_BATCH": 2}
    for number in range(6):
        desk.open([call("send", to=str(number))])
    broken = {park.id for park in Park.objects.soonest_first()[:4]}
    expire, expire_together = parks.expire, parks.expire_together

    def fail(park_id: Any, **options: Any) -> bool:
        if park_id in broken:
            raise ValueError("anything")
        return expire(park_id, **options)

    def fail_together(park_ids: Any, **options: Any) -> Any:
        if broken.intersection(park_ids):
            raise ValueError("anything")
        return expire_together(park_ids, **options)

    monkeypatch.setattr(parks, "expire", fail)
    monkeypatch.setattr(parks, "expire_together", fail_together)
    clock.advance(minutes=16)
    assert sweeping.sweep()["expired"] == 2


@pytest.mark.promise("E3")
def test_no_more_countdowns_are_sent_than_workers_should_hold(
    desk: Desk, clock: Any, sent: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest is settled in steps from the moment the last of those falls due."""
    monkeypatch.setattr(sweeping, "PROMOTED_MAX", 2)
    monkeypatch.setattr(deadlines, "SLOT", timedelta())
    for name in ("ana", "ben", "cleo"):
        desk.open([call("send", to=name)])
    clock.advance(minutes=14, seconds=30)
    sent.clear()
    assert sweeping.sweep()["promoted"] == 2
    assert [task for task, _ in sent] == [deadlines.EXPIRE] * 2 + [deadlines.SETTLE]
    assert abs(sent[2][1] - sent[1][1]) < timedelta(seconds=1)


@pytest.mark.promise("E7")
def test_changed_settings_touch_new_parks_only(desk: Desk, clock: Any, settings: Any) -> None:
    """Field reports EXP-04 and EXP-08."""
    desk.open([SEND], [SEND])
    [request] = desk.pending
    settings.HITL = {"TTL": "1m"}
    clock.advance(minutes=2)
    run_worker()
    assert desk.pending == [request]
    desk.answer(False)
    [later] = desk.pending
    assert later.expires_at == later.opened_at + timedelta(minutes=1)


@pytest.mark.promise("E9")
@pytest.mark.parametrize(
    "ttl", [0, -1, "0s", "-5m", "4 hours", "", float("nan"), 10**15, True, "5", "m"]
)
def test_an_unreadable_ttl_is_refused_before_any_row_is_written(ttl: Any) -> None:
    """Field report EXP-05."""

    @tool
    def send(to: str) -> str:
        """Send."""
        return to

    with pytest.raises(hitl.errors.BadDuration):
        requires_confirmation(ttl=ttl)(send)


@pytest.mark.promise("E8")
def test_reclaim_settles_what_is_overdue_and_hints_at_what_is_owed(
    desk: Desk, clock: Any, sent: list[Any]
) -> None:
    thread = desk.open([SEND], "Done")
    assert hitl.reclaim_if_orphaned(thread) is False
    clock.advance(minutes=16)
    sent.clear()
    assert hitl.reclaim_if_orphaned(thread.id) is True
    assert ("agents.segment", None) in sent
    assert desk.parks()[0].status == "timed_out"
    run_worker()
    assert thread.status == "COMPLETED"
    assert hitl.reclaim_if_orphaned(thread) is False


@pytest.mark.promise("E8")
def test_reclaim_wakes_a_run_that_waits_for_nothing(desk: Desk) -> None:
    thread = desk.open([SEND], "Done")
    [park] = desk.parks()
    Park.objects.filter(id=park.id).update(status="rejected", settled_at=park.opened_at)
    assert hitl.reclaim_if_orphaned(desk.run) is True
    run_worker()
    assert thread.status == "COMPLETED"


@pytest.mark.promise("E8")
@pytest.mark.parametrize("nothing", ["garbage", None, 7])
def test_reclaim_of_nothing_heals_nothing(db: None, nothing: Any) -> None:
    assert hitl.reclaim_if_orphaned(nothing) is False


@pytest.mark.promise("E4")
def test_the_sweep_hints_at_queued_runs_whose_message_was_lost(
    desk: Desk, clock: Any, sent: list[Any]
) -> None:
    """Field report CEL-09: a message that an old worker dropped is sent again from the row."""
    desk.open([SEND], "Done")
    [request] = desk.pending
    hitl.respond(desk.thread, request.tool_call_id, True)
    sent.clear()
    sweeping.sweep()
    assert sent == [], "a fresh message is given a moment"
    clock.advance(seconds=6)
    sweeping.sweep()
    assert sent == [("agents.segment", None)]


@pytest.mark.promise("E4", "O1")
@pytest.mark.parametrize(("messages", "hinted"), [(4, 2), (3, 4), (0, 4), (None, 4)])
def test_a_backlog_whose_messages_wait_in_the_broker_is_not_sent_all_over_again(
    desk: Desk,
    clock: Any,
    sent: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    messages: int | None,
    hinted: int,
) -> None:
    """Else each sweep would add to the work of workers that are behind."""
    for name in ("ana", "ben", "cleo", "dora"):
        desk.open([call("send", to=name)], "Done")
    for park in Park.objects.pending():
        hitl.decide(park.id, True)
    monkeypatch.setattr(waiter, "NEXT_HINTED", 2)
    monkeypatch.setattr(hints, "waiting", lambda task: messages)
    clock.advance(seconds=6)
    sent.clear()
    assert sweeping.sweep()["runs_hinted"] == hinted
    assert sent == [("agents.segment", None)] * hinted


def test_the_messages_that_wait_are_counted_if_the_broker_tells() -> None:
    with current_app.connection_for_write() as broker, broker.channel() as channel:
        queue = current_app.amqp.queues["agents"].bind(channel)
        queue.declare()
        queue.purge()
        assert hints.waiting("agents.segment") == 0
        current_app.send_task("agents.segment", args=["x"])
        current_app.send_task("agents.segment", args=["y"])
        assert hints.waiting("agents.segment") == 2
        queue.delete()
        assert hints.waiting("agents.segment") is None


@pytest.mark.promise("E4", "A3")
def test_a_worker_that_comes_up_sweeps_at_once_and_when_the_leases_of_a_dead_one_have_lapsed(
    db: None, sent: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A supervisor starts it within a second or two; beat's own sweep may be half a minute off."""
    monkeypatch.setattr(connections, "close_all", lambda: None)
    worker_ready.send(sender=None)
    [at_once, later] = sent
    assert at_once == (deadlines.SWEEP, None)
    assert later[0] == deadlines.SWEEP
    assert conf.duration("LEASE") < later[1] < conf.duration("LEASE") + timedelta(seconds=1)


@pytest.mark.promise("E2")
def test_expiry_and_answers_do_not_depend_on_time_zones(
    desk: Desk, clock: Any, settings: Any
) -> None:
    """Field report EXP-09."""
    for zone in ("Asia/Kathmandu", "America/New_York"):
        settings.TIME_ZONE = zone
        desk.open([SEND], "Done")
        [request] = desk.pending
        assert request.expires_at is not None
        assert request.expires_at.utcoffset() == timedelta()
        clock.advance(minutes=14)
        run_worker()
        assert len(desk.pending) == 1
        clock.advance(minutes=2)
        run_worker()
        assert desk.parks()[0].status == "timed_out"


@pytest.mark.promise("A12")
def test_cancelling_a_request_lets_the_run_go_on(desk: Desk) -> None:
    desk.open([SEND], "Done")
    [request] = desk.pending
    answer = parks.cancel(request.request_id, reason="not needed", actor="ana", channel="python")
    assert answer.delivered
    again = parks.cancel(request.request_id, actor="ana", channel="python")
    assert (again.delivered, again.code) == (False, "moved_on")
    run_worker()
    assert desk.results["send"].outcome == "cancelled"
    assert desk.results["send"].content["reason"] == "not needed"
    assert desk.thread.status == "COMPLETED"
    assert Run.objects.get().status == "COMPLETED"
    assert "INPUT_CANCELLED" in [event["type"] for event in threads.events(desk.thread)]


@pytest.mark.promise("E5")
@pytest.mark.parametrize(
    ("written", "warned"),
    [
        ({}, []),
        ({"HORIZON": "34s"}, ["hitl.W003"]),
        ({"SWEEP_EVERY": "2m"}, ["hitl.W003"]),
        ({"SWEEP_EVERY": "2m", "HORIZON": "3m"}, []),
        ({"HORIZON": "soon"}, []),
    ],
)
def test_a_horizon_shorter_than_the_time_between_sweeps_is_warned_of(
    settings: Any, written: dict[str, str], warned: list[str]
) -> None:
    settings.HITL = written
    assert [one.id for one in checks.check_horizon()] == warned
