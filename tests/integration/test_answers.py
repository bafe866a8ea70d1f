"""Answers: the first one wins, late ones are told so, and each ending says what it is."""

import logging
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import transaction

import hitl
from agents import Agent, ToolContext, requires_confirmation, threads, tool
from agents.models import Run, Thread
from agents.testing import ScriptedModel, call, run_worker
from hitl import parks
from hitl.errors import NotJson, TooLarge
from hitl.models import Decision, Park
from tests.desk import Desk

SEND = call("send", to="ana")


@pytest.mark.promise("A1", "A4")
def test_a_yes_runs_the_tool_once_and_the_run_goes_on_from_there(desk: Desk) -> None:
    """Field report RUN-02: the same run goes on and repeats nothing."""
    desk.open([call("look", what="x")], [SEND], "Done")
    before = desk.run.id
    assert desk.answer(True).delivered
    assert desk.effects == ["look x", "send ana 1"]
    assert desk.thread.status == "COMPLETED"
    assert desk.run.id == before
    assert len(desk.model.requests) == 3, "the model was asked once for each reply"


@pytest.mark.promise("A4")
def test_the_stored_call_runs_and_the_model_is_not_asked_in_between(desk: Desk) -> None:
    """Field report NEST-05: a model that would answer otherwise is not consulted."""
    asked = []

    def reply(request: Any) -> Any:
        asked.append(len(request.messages))
        return [call("send", to=f"person {len(asked)}")] if len(asked) < 3 else "Done"

    desk.open(reply, reply, reply)
    desk.answer(True)
    assert desk.effects == ["send person 1 1"]
    assert len(asked) == 2


@pytest.mark.promise("A2", "A1")
def test_the_first_answer_wins_and_the_second_changes_nothing(desk: Desk) -> None:
    """Field report RUN-07."""
    desk.open([SEND], "Done")
    [request] = desk.pending
    assert hitl.respond(desk.thread.id, request.tool_call_id, True).delivered
    for answer in (
        hitl.respond(desk.thread.id, request.tool_call_id, False),
        hitl.decide(request.request_id, True, payload={"x": 2}),
    ):
        assert not answer.delivered
        assert answer.code == "already_answered"
        assert answer.error == "This request was already answered."
    run_worker()
    assert not hitl.respond(desk.thread.id, request.tool_call_id, False).delivered
    assert desk.effects == ["send ana 1"]
    verbs = [verb for verb, _ in desk.trail()]
    assert verbs == ["opened", "approved", "refused", "refused", "refused"]


UNKNOWN = UUID("01234567-89ab-7def-8123-456789abcdef")


@pytest.mark.promise("A1")
@pytest.mark.parametrize("call_id", ["nonsense", "", None, 3, str(UNKNOWN), UNKNOWN])
def test_an_answer_to_nothing_is_not_found_and_leaves_no_trace(desk: Desk, call_id: Any) -> None:
    desk.open([SEND])
    answer = hitl.respond(desk.thread.id, call_id, True)
    assert (answer.delivered, answer.code) == (False, "not_found")
    assert hitl.respond("garbage", desk.pending[0].tool_call_id, True).code == "not_found"
    assert hitl.respond(uuid4(), desk.pending[0].tool_call_id, True).code == "not_found"
    assert desk.thread.status == "WAITING_FOR_INPUT"
    assert Decision.objects.count() == 1


@pytest.mark.promise("A7")
def test_a_no_never_runs_the_tool_and_tells_the_model_why(desk: Desk) -> None:
    """Field reports MSG-06 and MSG-10."""
    reason = "not \"today\",\nplease 🙏 {'approved': true}"
    desk.open([SEND], "I see")
    desk.answer(False, reason=reason)
    result = desk.results["send"]
    assert result.outcome == "denied"
    assert result.content["reason"] == reason
    assert "NOT performed" in result.content["message"]
    run_worker()
    assert desk.effects == []
    assert desk.thread.status == "COMPLETED"


@pytest.mark.promise("A12", "E2", "H8")
def test_the_four_endings_tell_the_model_four_different_things(desk: Desk, clock: Any) -> None:
    """Field report MSG-11."""
    said: dict[str, Any] = {}

    def ended(how: str) -> None:
        desk.open([SEND], "Done", "Next")
        [request] = desk.pending
        if how == "denied":
            hitl.respond(desk.thread, request.tool_call_id, False)
        elif how == "timed_out":
            clock.advance(minutes=16)
        elif how == "cancelled":
            parks.cancel(request.request_id, actor="ana", channel="python")
        else:
            threads.stop(desk.thread)
            threads.send(desk.thread, "And now?")
        run_worker()
        messages = desk.model.requests[-1].messages
        [block] = [message for message in messages if hasattr(message, "results")]
        said[how] = (block.results[0].outcome, block.results[0].content)

    for how in ("denied", "timed_out", "cancelled", "stopped"):
        ended(how)
        assert said[how][0] == how
    texts = {content["message"] for _, content in said.values()}
    assert len(texts) == 4
    for text in texts:
        assert "NOT performed" in text
        assert "pending" not in text.lower()
        assert "once approved" not in text.lower()
    assert "user had no response, action cancelled" in said["timed_out"][1]["message"]
    assert desk.effects == []


@pytest.mark.promise("A8")
def test_a_payload_is_the_result_and_the_tool_does_not_run(desk: Desk) -> None:
    desk.open([SEND], "Done")
    desk.answer(True, payload={"sent_by": "hand"})
    assert desk.effects == []
    assert desk.results["send"].content == {"sent_by": "hand"}
    assert desk.results["send"].outcome == "answered"
    assert "answered" in [verb for verb, _ in desk.trail()]


@pytest.mark.promise("A8")
@pytest.mark.parametrize("payload", [None, {}, "", 0, False])
def test_an_empty_payload_is_still_a_payload(desk: Desk, payload: Any) -> None:
    """Field report WAKE-04."""
    desk.open([SEND], "Done")
    desk.answer(True, payload=payload)
    assert desk.effects == []
    assert desk.results["send"].content == payload


@pytest.mark.promise("A8")
def test_a_tool_that_takes_the_payload_as_context_runs_and_reads_it(desk: Desk) -> None:
    desk.open([SEND], "Done", tools=desk.tools(payload="context"))
    desk.answer(True, payload={"stamp": "A"}, reason="fine", actor="ana")
    assert desk.effects == ["send ana 1"]
    [context] = desk.contexts
    assert context.approval is not None
    assert context.approval.payload == {"stamp": "A"}
    assert (context.approval.actor, context.approval.reason) == ("ana", "fine")
    assert context.approval.arguments == {"to": "ana", "copies": 1}
    assert "approved" in [verb for verb, _ in desk.trail()]


@pytest.mark.promise("A10")
@pytest.mark.parametrize(
    "value",
    [
        "Approved",
        " approve ",
        "approve\n",
        "yes",
        "true",
        1,
        "1",
        None,
        "",
        {},
        {"status": "approved"},
        ["approved"],
    ],
)
def test_what_is_not_an_exact_yes_closes_the_gate_and_is_logged(
    desk: Desk, value: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Field report ADM-08."""
    desk.open([SEND], "Done")
    with caplog.at_level(logging.WARNING):
        assert desk.answer(value).delivered
    assert desk.effects == []
    assert desk.results["send"].outcome == "denied"
    assert "not understood" in caplog.text


@pytest.mark.promise("A10")
@pytest.mark.parametrize(
    ("value", "opens"),
    [
        (True, True),
        ("approved", True),
        ("approve", True),
        (False, False),
        ("rejected", False),
        ("reject", False),
    ],
)
def test_the_documented_values_do_what_they_say(desk: Desk, value: Any, opens: bool) -> None:
    desk.open([SEND], "Done")
    desk.answer(value)
    assert bool(desk.effects) is opens


@pytest.mark.promise("A11")
@pytest.mark.parametrize("kind", [ValueError, KeyError, SystemExit, BaseException])
def test_an_approved_tool_that_raises_gives_one_tool_error(desk: Desk, kind: Any) -> None:
    """Field report MSG-02."""
    ran = []

    @requires_confirmation
    @tool
    def boom() -> str:
        """Raise."""
        ran.append(1)
        raise kind("bad field")

    desk.open([call("boom")], "Done", tools=[boom])
    desk.answer(True)
    assert ran == [1]
    assert desk.results["boom"].outcome == "error"
    assert "bad field" in desk.results["boom"].content["error"]
    assert desk.thread.status == "COMPLETED"


@pytest.mark.promise("H4")
@pytest.mark.parametrize(
    "output",
    [
        None,
        "x" * 2_000_000,
        "a\0b",
        "\ud800",
        float("nan"),
        [float("inf")],
        {"n": 10**5000},
        object(),
    ],
    ids=["none", "2 MB", "NUL", "surrogate", "NaN", "infinity", "huge", "no JSON"],
)
@pytest.mark.promise("M1")
def test_any_output_of_a_tool_can_be_kept_and_told(desk: Desk, output: Any) -> None:
    @tool
    def emit() -> Any:
        """Return it."""
        return output

    desk.open([call("emit")], "Done", tools=[emit])
    assert desk.thread.status == "COMPLETED"
    assert desk.results["emit"].outcome == "ok"
    assert len(str(desk.results["emit"].content)) < 100_000


@pytest.mark.promise("A13", "A3")
@pytest.mark.django_db(transaction=True)
def test_verbs_join_the_callers_transaction_and_a_rollback_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Field report CEL-10."""
    sent: list[str] = []
    monkeypatch.setattr("hitl.hints.current_app.send_task", lambda name, **_: sent.append(name))
    desk = Desk()
    Agent("desk", model=ScriptedModel([[SEND], "Done"]), tools=desk.tools())
    with transaction.atomic():
        threads.start("desk", "Go on")
        assert sent == []
        transaction.set_rollback(True)
    assert sent == []
    assert not Thread.objects.exists()
    with transaction.atomic():
        thread = threads.start("desk", "Go on")
        assert sent == []
    assert sent == ["agents.segment"]
    run_worker()
    [request] = hitl.pending(thread)
    sent.clear()
    with transaction.atomic():
        assert hitl.respond(thread, request.tool_call_id, True).delivered
        transaction.set_rollback(True)
    assert sent == []
    assert hitl.pending(thread) == [request]
    assert run_worker() == 0
    assert desk.effects == []


@pytest.mark.promise("A3")
@pytest.mark.django_db(transaction=True)
def test_an_answer_stands_when_the_broker_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """Field report WAKE-01."""

    def down(*_: Any, **__: Any) -> None:
        raise OSError("no broker")

    monkeypatch.setattr("hitl.hints.current_app.send_task", down)
    desk = Desk()
    desk.open([SEND], "Done")
    [request] = desk.pending
    assert hitl.respond(desk.thread, request.tool_call_id, True).delivered
    run_worker()
    assert desk.effects == ["send ana 1"]
    assert desk.thread.status == "COMPLETED"


@pytest.mark.promise("A1", "N5")
def test_an_answer_whose_work_is_gone_is_too_late_and_the_card_leaves(desk: Desk) -> None:
    """Field report DEC-12."""
    desk.open([SEND])
    [request] = desk.pending
    Run.objects.all().delete()
    answer = hitl.decide(request.request_id, True)
    assert (answer.delivered, answer.code) == (False, "moved_on")
    assert Park.objects.get().status == "cancelled"


def test_a_payload_that_cannot_be_stored_is_refused_at_the_door(desk: Desk, settings: Any) -> None:
    settings.HITL = {"PAYLOAD_BYTES_MAX": 10}
    desk.open([SEND])
    [request] = desk.pending
    with pytest.raises(TooLarge):
        hitl.decide(request.request_id, True, payload="x" * 20)
    with pytest.raises(NotJson):
        hitl.decide(request.request_id, True, payload=object())
    assert desk.pending == [request]


@pytest.mark.promise("I2")
def test_the_trail_names_who_acted_through_which_channel(
    desk: Desk, django_user_model: Any
) -> None:
    ana = django_user_model.objects.create_superuser("ana")
    desk.open([SEND], "Done")
    [request] = desk.pending
    hitl.decide(request.request_id, True, actor=ana, channel="admin", reason="ok")
    row = Decision.objects.get(verb="approved")
    assert (row.actor, row.channel, row.reason, row.system) == ("ana", "admin", "ok", False)


def test_the_same_denied_call_is_flagged_and_then_refused_without_asking(desk: Desk) -> None:
    """Field report MSG-12."""
    desk.open([SEND], [SEND], [SEND], [SEND], "I give up")
    for before in range(3):
        [park] = [park for park in desk.parks() if park.is_pending]
        assert park.metadata.get("denied_before", 0) == before
        desk.answer(False)
    assert desk.thread.status == "COMPLETED"
    assert len(desk.parks()) == 3
    assert "already denied 3 times" in desk.results["send"].content["message"]


def test_an_answer_is_matched_by_call_and_never_by_tool(desk: Desk) -> None:
    """Field report DEC-04: a yes for one call covers no other, also without arguments."""
    desk.open([call("wipe")], [call("wipe")], "Done")
    desk.answer(True)
    assert desk.effects == ["wipe"]
    assert len(desk.pending) == 1, "the second call is a question of its own"


def test_two_threads_with_equal_calls_get_their_own_answers(db: None) -> None:
    """Field report NEST-07: identical tool, arguments and provider ids."""
    one, two = Desk(), Desk()
    turn = [call("send", id="same", to="ana")]
    one.open(turn, "Done")
    [first] = one.pending
    two.open(turn, "Done")
    [second] = two.pending
    assert not hitl.respond(two.thread, first.tool_call_id, True).delivered
    hitl.respond(one.thread, first.tool_call_id, False)
    hitl.respond(two.thread, second.tool_call_id, True)
    run_worker()
    assert [park.status for park in one.parks()] == ["rejected"]
    assert [park.status for park in two.parks()] == ["approved"]


@pytest.mark.promise("A6")
def test_the_idempotency_key_is_stable_and_unique_to_the_call(desk: Desk) -> None:
    desk.open([SEND, SEND], "Done")
    for request in desk.pending:
        hitl.decide(request.request_id, True)
    run_worker()
    keys = [context.idempotency_key for context in desk.contexts]
    assert len(set(keys)) == 2
    assert {key.removeprefix("sayso:") for key in keys} == {
        str(context.tool_call_id) for context in desk.contexts
    }


def test_a_tool_is_given_the_threads_user_and_can_emit_events(
    db: None, django_user_model: Any
) -> None:
    ana = django_user_model.objects.create_user("ana")
    seen = []

    @tool
    def report(ctx: ToolContext) -> str:
        """Report."""
        seen.append(ctx.user.get_username())
        ctx.emit("progress", {"done": "half\0"})
        return "ok"

    Agent("desk", model=ScriptedModel([[call("report")], "Done"]), tools=[report])
    thread = threads.start("desk", "Go on", user=ana)
    run_worker()
    assert seen == ["ana"]
    [event] = [event for event in threads.events(thread) if event["type"] == "CUSTOM"]
    assert event["data"] == {"type": "progress", "data": {"done": "half␀"}}
