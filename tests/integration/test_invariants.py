"""The invariants see what breaks them: each is shown a row that was changed behind its back."""

from collections.abc import Callable

import pytest
from django.db.models import QuerySet

from agents import Agent, history, threads
from agents.llm.messages import Call, ToolResults
from agents.models import Event, Frame, Run, Step, Thread, ToolCall
from agents.testing import ScriptedModel, call
from hitl import audit, clock, early
from hitl.models import Decision, Park
from hitl.states import ParkStatus
from hitl.trail import append_only
from tests import invariants
from tests.desk import Desk


def decided() -> Decision:
    return Decision.objects.filter(verb="approved").latest("id")


def delegation(run: Run) -> QuerySet[ToolCall]:
    return ToolCall.objects.filter(run=run, tool_id="delegate:below")


def update(rows: object, **changes: object) -> None:
    assert rows.update(**changes) == 1  # type: ignore[attr-defined]


def tamper(change: Callable[[QuerySet[Decision]], object]) -> None:
    """Change the audit row of a decision, which the database would refuse."""
    with append_only.lifted():
        change(Decision.objects.filter(id=decided().id))


def answer_early(park: Park) -> None:
    """Make a job of this park, and keep an answer to it that is never applied."""
    update(Park.objects.filter(id=park.id), metadata={"job": True})
    early.keep(
        "run",
        park.waiter_id,
        park.key,
        ParkStatus.APPROVED,
        audit.person("ana", "test"),
        reason="",
        answer={},
    )


BROKEN: list[tuple[Callable[[invariants.Rows], object], Callable[[Run, Run], object]]] = [
    (
        invariants.events_are_numbered_without_a_gap,
        lambda done, waiting: Event.objects.filter(thread=done.thread, seq=2).delete(),
    ),
    (
        invariants.events_are_numbered_without_a_gap,
        lambda done, waiting: update(Run.objects.filter(id=done.id), event_seq=99),
    ),
    (
        invariants.a_run_waits_if_and_only_if_a_park_is_open,
        lambda done, waiting: update(Run.objects.filter(id=waiting.id), status="WAITING"),
    ),
    (
        invariants.a_run_waits_if_and_only_if_a_park_is_open,
        lambda done, waiting: update(
            Park.objects.pending(), status="approved", settled_at=clock.now()
        ),
    ),
    (
        invariants.no_park_outlives_its_run,
        lambda done, waiting: update(Park.objects.pending(), waiter_id=done.id),
    ),
    (
        invariants.no_park_outlives_its_run,
        lambda done, waiting: update(Run.objects.filter(id=waiting.id), dropped_at=clock.now()),
    ),
    (
        invariants.what_is_held_is_shown_nowhere,
        lambda done, waiting: update(
            Step.objects.filter(run=waiting, number=1), held={"text": "x"}
        ),
    ),
    (
        invariants.a_call_ends_once,
        lambda done, waiting: update(delegation(done), phase="claimed"),
    ),
    (
        invariants.a_call_ends_once,
        lambda done, waiting: Event.objects.filter(type="TOOL_RESULT").delete(),
    ),
    (
        invariants.steps_are_saved_whole,
        lambda done, waiting: Step.objects.filter(run=done, number=2).delete(),
    ),
    (
        invariants.a_park_is_seen_with_its_step,
        lambda done, waiting: ToolCall.objects.filter(run=waiting).delete(),
    ),
    (
        invariants.a_park_is_seen_with_its_step,
        lambda done, waiting: Event.objects.filter(type="INPUT_ANSWERED").delete(),
    ),
    (
        invariants.a_trail_tells_each_ending_once,
        lambda done, waiting: tamper(lambda row: row.delete()),
    ),
    (
        invariants.a_trail_tells_each_ending_once,
        lambda done, waiting: tamper(lambda row: update(row, verb="rejected")),
    ),
    (
        invariants.a_trail_tells_each_ending_once,
        lambda done, waiting: tamper(lambda row: update(row, system=True)),
    ),
    (
        invariants.a_row_of_the_trail_is_as_it_was_written,
        lambda done, waiting: tamper(lambda row: update(row, reason="I said so")),
    ),
    (
        invariants.an_edited_call_runs_as_it_was_approved,
        lambda done, waiting: update(
            Park.objects.filter(id=decided().park_id), proposed={}, arguments={"to": "eve"}
        ),
    ),
    (
        invariants.a_thread_has_one_active_run,
        lambda done, waiting: update(Thread.objects.filter(id=done.scope), current_run=None),
    ),
    (
        invariants.a_lease_is_held_if_and_only_if_running,
        lambda done, waiting: update(Run.objects.filter(id=done.id), finished_at=None),
    ),
    (
        invariants.nothing_is_stuck,
        lambda done, waiting: Park.objects.pending().update(
            status="approved", settled_at=clock.now()
        ),
    ),
    (
        invariants.a_frame_stands_where_it_was_opened,
        lambda done, waiting: update(Frame.objects.filter(run=done), depth=2),
    ),
    (
        invariants.a_frame_stands_where_it_was_opened,
        lambda done, waiting: update(Frame.objects.filter(run=done), path=["below"]),
    ),
    (
        invariants.a_frame_stands_where_it_was_opened,
        lambda done, waiting: Frame.objects.filter(run=waiting).delete(),
    ),
    (
        invariants.a_frame_ends_with_its_call,
        lambda done, waiting: update(delegation(done), result="something else"),
    ),
    (
        invariants.a_frame_ends_with_its_call,
        lambda done, waiting: Step.objects.filter(run=done, text="Below.").delete(),
    ),
    (
        invariants.a_frame_ends_with_its_call,
        lambda done, waiting: update(delegation(waiting), phase="done", outcome="error"),
    ),
    (
        invariants.a_callback_is_owed_once_its_request_is_settled,
        lambda done, waiting: update(Park.objects.pending(), waiter_kind="callback"),
    ),
    (
        invariants.an_early_answer_is_gone_once_its_park_is_there,
        lambda done, waiting: answer_early(Park.objects.pending().get()),
    ),
]


@pytest.mark.parametrize(
    ("check", "break_it"),
    BROKEN,
    ids=[f"{n}-{check.__name__}" for n, (check, _) in enumerate(BROKEN)],
)
def test_an_invariant_sees_what_breaks_it(
    desk: Desk,
    check: Callable[[invariants.Rows], object],
    break_it: Callable[[Run, Run], object],
) -> None:
    def below(to: str) -> Call:
        turns = [[call("send", to=to)], "Below."]
        Agent("below", model=ScriptedModel(turns), tools=desk.tools())
        return call("delegate_to_below", instructions="Send it.")

    desk.open([call("send", to="ana")], [below("eve")], "Done", subagents=["below"])
    desk.answer(True)
    desk.answer(True)
    done = desk.run
    desk.open([call("look", what="x")], [below("ben")], "Done", subagents=["below"])
    invariants.check()
    assert threads.history(done.thread_id)
    break_it(done, desk.run)
    seen = {found.split(":")[0] for found in invariants.violations()}
    assert check.__name__ in seen


def test_every_invariant_is_shown_to_see_something() -> None:
    unseen = set(invariants.CHECKS) - {check for check, _ in BROKEN}
    assert unseen == {invariants.the_history_pairs_every_call}, "rows alone cannot break that one"


def test_the_invariant_of_the_history_sees_a_result_that_is_left_out(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.open([call("send", to="ana")], "Done")
    desk.answer(True)
    monkeypatch.setattr(history, "ToolResults", lambda results: ToolResults(results[1:]))
    [found] = invariants.violations()
    assert found.startswith("the_history_pairs_every_call")
