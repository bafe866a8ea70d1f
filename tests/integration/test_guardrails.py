"""Guardrails in a run: what is judged, what follows, and that it is judged once."""

import logging
from typing import Any

import pytest

import hitl
from agents import Agent, requires_confirmation, threads, tool
from agents.guardrails import Subject, custom, guardrail_check, rulebook
from agents.models import GuardrailRule, Run, Step, ToolCall
from agents.testing import ScriptedModel, call, run_worker
from hitl.models import Park
from tests import invariants
from tests.desk import Desk

SECRET = "ana@example.com"
LOOK = call("look", what="order 17")


def rule(**more: Any) -> GuardrailRule:
    """Write a rule on personal data in replies that blocks, but for what is given."""
    given: dict[str, Any] = {
        "name": "no addresses",
        "where": "output",
        "check": "personal_data",
        "settings": {"kinds": ["email"]},
        "action": "block",
    }
    return rulebook.create(**(given | more))


def limit(**more: Any) -> GuardrailRule:
    """Write a rule that limits the copies of a letter."""
    given: dict[str, Any] = {
        "name": "few copies",
        "where": "tool_call",
        "check": "threshold",
        "settings": {"path": "copies", "must_be": "at_most", "limit": "3"},
        "tools": ["send", "mail"],
        "action": "require_approval",
    }
    return rulebook.create(**(given | more))


def verdicts(desk: Desk) -> list[dict[str, Any]]:
    found = [event["data"] for event in threads.events(desk.thread)]
    types = desk.event_types()
    return [data for kind, data in zip(types, found, strict=True) if kind == "GUARDRAIL"]


def said(desk: Desk) -> list[str]:
    """Return what the user sees of the agent."""
    return [one["text"] for one in threads.history(desk.thread) if one["role"] == "assistant"]


@tool
def mail(to: str, copies: int = 1) -> str:
    """Send a mail, which nobody has marked."""
    return f"mailed {to} {copies}"


# ── The message ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("G1")
def test_a_blocked_message_never_reaches_the_model_and_the_run_names_the_rule(desk: Desk) -> None:
    rule(where="input")
    thread = desk.open("Hello", message=f"Write to {SECRET}")
    assert desk.model.requests == []
    assert thread.status == "FAILED"
    assert desk.run.error == "The message was refused by the guardrail 'no addresses'."
    [verdict] = verdicts(desk)
    assert (verdict["rule"], verdict["action"], verdict["kinds"]) == (
        "no addresses",
        "block",
        ["email"],
    )
    invariants.check()


@pytest.mark.promise("G1")
def test_the_model_is_given_the_redacted_form_of_a_message_in_this_turn_and_later(
    desk: Desk,
) -> None:
    rule(where="input", action="redact")
    desk.open("Hello", "Again", message=f"Write to {SECRET}")
    assert desk.model.requests[0].messages[0].text == "Write to [EMAIL]"
    rulebook.delete(GuardrailRule.objects.get().id)
    threads.send(desk.thread, "And now?")
    run_worker()
    assert [m.text for m in desk.model.requests[1].messages] == [
        "Write to [EMAIL]",
        "Hello",
        "And now?",
    ]
    assert threads.history(desk.thread)[0]["text"] == f"Write to {SECRET}", "the user's own words"


@pytest.mark.promise("G1")
def test_a_refused_message_is_withheld_from_later_turns(desk: Desk) -> None:
    rule(where="input")
    desk.open("Hello", message=f"Write to {SECRET}")
    threads.send(desk.thread, "Never mind")
    run_worker()
    told = [message.text for message in desk.model.requests[0].messages]
    assert told == ["[This message was withheld by the guardrail 'no addresses'.]", "Never mind"]


@pytest.mark.promise("G1")
def test_a_message_whose_turn_ended_unjudged_is_judged_before_a_later_turn_shows_it(
    desk: Desk,
) -> None:
    rule(where="input", action="redact")
    desk.model = ScriptedModel(["Hello"])
    Agent("desk", model=desk.model, tools=desk.tools())
    desk.thread = threads.start("desk", f"Write to {SECRET}")
    threads.send(desk.thread, "Never mind", supersede=True)
    run_worker()
    assert desk.model.requests[0].messages[0].text == "Write to [EMAIL]"


@pytest.mark.promise("G3", "I1")
def test_a_held_message_waits_in_the_inbox_and_is_released_as_it_was(desk: Desk) -> None:
    rule(where="input", action="require_approval")
    thread = desk.open("Hello", message=f"Write to {SECRET}")
    assert thread.status == "WAITING_FOR_INPUT"
    [request] = desk.pending
    assert (request.reason, request.tool_name) == ("guardrail", "message")
    assert request.arguments == {"text": f"Write to {SECRET}"}
    [park] = desk.parks()
    assert park.metadata["guardrail"]["rule"] == "no addresses"
    assert desk.model.requests == []
    invariants.check()
    assert desk.answer(True).delivered
    assert thread.status == "COMPLETED"
    assert desk.model.requests[0].messages[0].text == f"Write to {SECRET}"
    assert len(verdicts(desk)) == 1, "it was not judged again"
    invariants.check()


@pytest.mark.promise("G3")
@pytest.mark.parametrize("end", ["deny", "expire"])
def test_a_message_that_is_not_released_ends_the_turn_and_names_the_rule(
    desk: Desk, clock: Any, end: str
) -> None:
    rule(where="input", action="require_approval")
    thread = desk.open("Hello", message=f"Write to {SECRET}")
    if end == "deny":
        desk.answer(False, reason="no")
    else:
        clock.advance(minutes=16)
        run_worker()
    assert thread.status == "FAILED"
    assert "held by the guardrail 'no addresses'" in desk.run.error
    threads.send(thread, "Never mind")
    run_worker()
    assert SECRET not in str(desk.model.requests[0].messages)
    invariants.check()


@pytest.mark.promise("G3", "N5")
def test_a_new_message_supersedes_a_held_one_which_stays_withheld(desk: Desk) -> None:
    rule(where="input", action="require_approval")
    thread = desk.open("Hello", message=f"Write to {SECRET}")
    with pytest.raises(threads.ThreadBusy):
        threads.send(thread, "Hurry")
    threads.send(thread, "Never mind", supersede=True)
    run_worker()
    assert SECRET not in str(desk.model.requests[0].messages)
    assert desk.pending == []
    invariants.check()


# ── The reply ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("G1")
def test_a_blocked_reply_is_replaced_by_a_refusal_and_none_of_its_calls_runs(desk: Desk) -> None:
    rule()
    thread = desk.open([f"Asking {SECRET}", LOOK], "Done")
    assert thread.status == "COMPLETED"
    assert said(desk) == ["This reply was refused by the guardrail 'no addresses'."]
    assert desk.effects == []
    assert not ToolCall.objects.exists()
    assert SECRET not in str(list(Step.objects.values_list("text", "raw", "held")))
    assert SECRET not in str(threads.events(thread))
    invariants.check()


@pytest.mark.promise("G1")
def test_a_reply_is_redacted_before_anybody_sees_it_and_its_calls_run(desk: Desk) -> None:
    rule(action="redact")
    thread = desk.open([f"Asking {SECRET}", LOOK], "Done")
    assert said(desk) == ["Asking [EMAIL]", "Done"]
    assert desk.effects == ["look order 17"]
    assert SECRET not in str(threads.events(thread))
    assert SECRET not in str(desk.model.requests[-1].messages)
    assert [v["action"] for v in verdicts(desk)] == ["redact"]
    invariants.check()


@pytest.mark.promise("G3", "S1")
def test_a_held_reply_is_seen_by_nobody_and_its_calls_wait(desk: Desk) -> None:
    rule(action="require_approval")
    thread = desk.open([f"Asking {SECRET}", LOOK, call("send", to="ana")], "Done")
    assert thread.status == "WAITING_FOR_INPUT"
    assert said(desk) == []
    assert SECRET not in str(threads.events(thread))
    assert desk.effects == []
    [request] = desk.pending
    assert request.arguments == {
        "text": f"Asking {SECRET}",
        "tool_calls": [
            {"tool_name": "look", "arguments": {"what": "order 17"}},
            {"tool_name": "send", "arguments": {"to": "ana", "copies": 1}},
        ],
    }
    invariants.check()
    desk.answer(True)
    assert said(desk) == [f"Asking {SECRET}"]
    assert desk.effects == ["look order 17"]
    [request] = desk.pending
    assert (request.reason, request.tool_name) == ("approval", "send")
    invariants.check()
    desk.answer(True)
    assert thread.status == "COMPLETED"
    assert said(desk) == [f"Asking {SECRET}", "Done"]
    assert f"Asking {SECRET}" in str(desk.model.requests[-1].messages)
    assert len(verdicts(desk)) == 1
    invariants.check()


@pytest.mark.promise("G3")
def test_a_held_last_word_completes_the_run_verbatim_once_released(desk: Desk) -> None:
    held = rule(action="require_approval")
    text = f"Ask {SECRET}, please.\n\n  It is Ana."
    thread = desk.open(text)
    rulebook.change(held.id, action="block")
    desk.answer(True)
    assert thread.status == "COMPLETED"
    assert said(desk) == [text]
    assert desk.run.output == {"text": text}
    assert desk.event_types()[-3:] == ["INPUT_ANSWERED", "TEXT", "RUN_COMPLETED"]
    invariants.check()


@pytest.mark.promise("G3")
@pytest.mark.parametrize("end", ["deny", "expire", "cancel", "stop"])
def test_a_held_reply_that_is_not_released_ends_the_turn_unseen(
    desk: Desk, clock: Any, end: str
) -> None:
    rule(action="require_approval")
    thread = desk.open([f"Asking {SECRET}", LOOK], "Done")
    match end:
        case "deny":
            desk.answer(False)
        case "expire":
            clock.advance(minutes=16)
        case "cancel":
            hitl.parks.cancel(desk.pending[0].request_id, actor="ana", channel="python")
        case "stop":
            threads.stop(thread)
    run_worker()
    assert thread.status == ("CANCELLED" if end == "stop" else "FAILED")
    if end != "stop":
        assert "The reply was held by the guardrail 'no addresses'" in desk.run.error
    assert desk.effects == []
    threads.send(thread, "Go on")
    run_worker()
    assert SECRET not in str(threads.events(thread))
    assert SECRET not in str(desk.model.requests[-1].messages)
    assert said(desk) == ["Done"]
    invariants.check()


@pytest.mark.promise("G3")
def test_a_payload_given_with_the_yes_does_not_replace_what_was_held(desk: Desk) -> None:
    rule(action="require_approval")
    desk.open(f"Ask {SECRET}")
    desk.answer(True, payload="something else")
    assert said(desk) == [f"Ask {SECRET}"]


# ── The call ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("G1")
def test_a_blocked_call_does_not_run_and_the_model_is_told_which_rule(desk: Desk) -> None:
    rule(where="tool_call", tools=["look"])
    desk.open([call("look", what=SECRET)], "Done")
    assert desk.effects == []
    assert "'no addresses'" in str(desk.results["look"].content)
    assert "NOT performed" in str(desk.results["look"].content)
    [verdict] = verdicts(desk)
    assert verdict["tool_name"] == "look"
    invariants.check()


@pytest.mark.promise("G1", "G2")
def test_a_call_above_a_limit_is_gated_though_its_tool_is_not(desk: Desk) -> None:
    limit()
    tools = [mail]
    thread = desk.open(
        [call("mail", to="ana", copies=3), call("mail", to="bo", copies=4)], "Done", tools=tools
    )
    assert thread.status == "WAITING_FOR_INPUT"
    [request] = desk.pending
    assert request.arguments == {"to": "bo", "copies": 4}
    [park] = desk.parks()
    assert park.metadata["guardrail"]["kinds"] == ["over_limit"]
    assert ToolCall.objects.get(arguments__contains="bo").on_doubt == "ask"
    desk.answer(True)
    assert thread.status == "COMPLETED"
    assert desk.results["mail"].outcome == "ok"
    invariants.check()


@pytest.mark.promise("G1")
def test_the_redacted_arguments_are_what_is_approved_and_what_runs(desk: Desk) -> None:
    rule(where="tool_call", action="redact", tools=["send"])
    thread = desk.open([call("send", to=f"ana <{SECRET}>")], "Done")
    [request] = desk.pending
    assert request.arguments == {"to": "ana <[EMAIL]>", "copies": 1}
    desk.answer(True)
    assert desk.effects == ["send ana <[EMAIL]> 1"]
    assert SECRET not in str(threads.events(thread))
    assert SECRET not in str(desk.model.requests[-1].messages)
    assert SECRET not in str(list(ToolCall.objects.values_list("arguments", "arguments_text")))
    assert SECRET not in str(list(Step.objects.values_list("raw")))


@pytest.mark.promise("G2")
def test_arguments_that_cannot_be_redacted_are_blocked(desk: Desk) -> None:
    settings = {"pattern": "[0-9]{3}", "label": "number"}
    rule(where="tool_call", check="pattern", settings=settings, action="redact", tools=["send"])
    desk.open([call("send", to="ana", copies=123)], "Done")
    assert desk.effects == []
    assert "'no addresses'" in str(desk.results["send"].content)


@pytest.mark.promise("G2", "M2")
def test_a_limit_is_held_against_the_values_that_the_function_gets(desk: Desk) -> None:
    """Field report GRD-01: defaults count, and a Decimal that travels as a text is a number."""
    from decimal import Decimal

    @tool
    def pay(amount: Decimal, times: int = 5) -> str:
        """Pay."""
        return f"paid {amount} {times}"

    limit(name="pay", tools=["pay"], settings={"path": "amount", "limit": "10.50"}, action="block")
    limit(name="often", tools=["pay"], settings={"path": "times", "limit": "4"}, action="block")
    desk.open(
        [
            call("pay", amount="10.50", times=1),
            call("pay", amount="10.51", times=1),
            call("pay", amount="1"),
        ],
        "Done",
        tools=[pay],
    )
    [*_, last] = desk.model.requests[-1].messages
    assert [result.outcome for result in last.results] == ["ok", "error", "error"]
    assert [v["rule"] for v in verdicts(desk)] == ["pay", "often"]


@pytest.mark.promise("G3", "M3")
def test_a_call_that_was_decided_is_not_judged_again(desk: Desk) -> None:
    """Field report GRD-02: a check that raises at the resume changes nothing."""
    held = limit()
    thread = desk.open([call("mail", to="bo", copies=4)], "Done", tools=[mail])

    @guardrail_check("raises")
    def raises(subject: Subject) -> bool:
        raise RuntimeError

    rulebook.change(held.id, check="custom", settings={"function": "raises"}, action="block")
    desk.answer(True)
    custom._checks.pop("raises")
    assert thread.status == "COMPLETED"
    assert desk.results["mail"].outcome == "ok"


# ── Order, failure, scope ────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("G2")
def test_the_first_broken_rule_in_the_order_decides(desk: Desk) -> None:
    rule(name="second", order=20, action="block")
    rule(name="third", order=30, action="block")
    rule(name="first", order=10, action="redact")
    desk.open(f"Ask {SECRET}")
    assert [(v["rule"], v["action"]) for v in verdicts(desk)] == [("first", "redact")]


@pytest.mark.promise("G2")
def test_of_rules_with_one_number_the_older_decides(desk: Desk) -> None:
    for name in ("b", "a", "c"):
        rule(name=name, order=10)
    desk.open(f"Ask {SECRET}")
    assert [v["rule"] for v in verdicts(desk)] == ["b"]


@pytest.mark.promise("G2", "G4")
@pytest.mark.parametrize("fail_open", [False, True])
def test_a_check_that_cannot_run_closes_unless_its_rule_says_otherwise(
    desk: Desk, fail_open: bool, caplog: pytest.LogCaptureFixture
) -> None:
    @guardrail_check("breaks")
    def breaks(subject: Subject) -> bool:
        raise ValueError(subject.text)

    rule(check="custom", settings={"function": "breaks"}, fail_open=fail_open)
    with caplog.at_level(logging.DEBUG):
        desk.open(f"Ask {SECRET}")
    custom._checks.pop("breaks")
    assert (said(desk) == [f"Ask {SECRET}"]) is fail_open
    kinds = [] if fail_open else [["check_failed"]]
    assert [v["kinds"] for v in verdicts(desk)] == kinds
    assert "ValueError" in caplog.text
    assert SECRET not in caplog.text


@pytest.mark.promise("G4")
def test_events_and_logs_of_a_verdict_name_kinds_and_no_values(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    rule()
    rule(name="on calls", where="tool_call", tools=["look"])
    with caplog.at_level(logging.DEBUG):
        desk.open([call("look", what=SECRET)], f"Ask {SECRET}")
    found = verdicts(desk)
    assert [v["kinds"] for v in found] == [["email"], ["email"]]
    assert SECRET not in str(found)
    assert SECRET not in caplog.text


@pytest.mark.promise("G4")
def test_a_rule_is_in_force_at_the_next_turn_and_gone_at_the_one_after(desk: Desk) -> None:
    desk.open(*[f"Ask {SECRET}"] * 4)
    made = rule()
    for change in ({}, {"enabled": False}, {"enabled": True}):
        rulebook.change(made.id, **change)
        threads.send(desk.thread, "Again")
        run_worker()
    refusal = "This reply was refused by the guardrail 'no addresses'."
    assert said(desk) == [f"Ask {SECRET}", refusal, f"Ask {SECRET}", refusal]


@pytest.mark.promise("G1", "N1")
def test_a_rule_names_the_agents_and_a_subagents_own_reply_and_calls_are_judged(
    desk: Desk,
) -> None:
    rule(agents=["clerk"], action="require_approval")
    limit(agents=["clerk"], tools=["mail"], action="block")
    clerk = ScriptedModel([[call("mail", to="a", copies=9)], f"Ask {SECRET}"])
    Agent("clerk", model=clerk, tools=[mail])
    thread = desk.open(
        [call("delegate_to_clerk", instructions="Find out"), call("mail", to="b", copies=9)],
        f"Ask {SECRET}",
        tools=[mail],
        subagents=["clerk"],
    )
    assert thread.status == "WAITING_FOR_INPUT"
    [request] = desk.pending
    assert (request.agent, request.depth, request.path) == ("clerk", 1, ("desk", "clerk"))
    invariants.check()
    desk.answer(True)
    assert thread.status == "COMPLETED"
    outcomes = ToolCall.objects.order_by("step__number", "index").values_list("outcome", flat=True)
    assert list(outcomes) == ["ok", "ok", "error"]
    assert said(desk) == [f"Ask {SECRET}"]
    invariants.check()


@pytest.mark.promise("G3", "N3")
def test_a_subagents_refused_reply_ends_the_subagent_alone(desk: Desk) -> None:
    rule(agents=["clerk"], action="require_approval")
    Agent("clerk", model=ScriptedModel([[f"Ask {SECRET}", LOOK]]), tools=desk.tools())
    thread = desk.open(
        [call("delegate_to_clerk", instructions="Find out")], "I could not.", subagents=["clerk"]
    )
    invariants.check()
    desk.answer(False)
    assert thread.status == "COMPLETED"
    assert "held by the guardrail" in str(desk.results["delegate_to_clerk"].content)
    assert desk.effects == []
    invariants.check()


@pytest.mark.promise("G5")
def test_a_rule_in_shadow_decides_nothing_and_says_what_it_would_have_done(desk: Desk) -> None:
    rule(name="shadow", shadow=True, order=1)
    rule(name="shadow of a call", shadow=True, where="tool_call", tools=["look"])
    rule(name="shadow of a message", shadow=True, where="input", action="require_approval")
    rule(name="real", action="redact", order=50)
    thread = desk.open([call("look", what=SECRET)], f"Ask {SECRET}", message=f"Ask {SECRET}")
    assert thread.status == "COMPLETED"
    assert said(desk) == ["Ask [EMAIL]"]
    assert desk.effects == [f"look {SECRET}"]
    assert [(v["rule"], v["action"], v["shadow"]) for v in verdicts(desk)] == [
        ("shadow of a message", "require_approval", True),
        ("shadow of a call", "block", True),
        ("shadow", "block", True),
        ("real", "redact", False),
    ]


@pytest.mark.promise("G5")
def test_what_a_shadow_found_is_told_though_the_model_fails(desk: Desk) -> None:
    rule(where="input", shadow=True)
    thread = desk.open(RuntimeError("gone"), message=SECRET)
    assert thread.status == "FAILED"
    assert [v["shadow"] for v in verdicts(desk)] == [True]


@pytest.mark.promise("G1")
def test_a_delegation_can_be_blocked_and_is_not_begun_where_it_would_have_to_be_held(
    desk: Desk,
) -> None:
    rule(where="tool_call", action="require_approval")
    clerk = ScriptedModel(["Never"])
    Agent("clerk", model=clerk, tools=[mail])
    desk.open([call("delegate_to_clerk", instructions=SECRET)], "Done", subagents=["clerk"])
    assert clerk.requests == []
    assert "'no addresses'" in str(desk.results["delegate_to_clerk"].content)
    invariants.check()


def test_a_custom_check_is_given_what_it_judges(desk: Desk) -> None:
    seen: list[Subject] = []

    @guardrail_check("watches")
    def watches(subject: Subject) -> bool:
        """Watch."""
        seen.append(subject)
        return False

    for where in ("input", "output", "tool_call"):
        rule(name=where, where=where, check="custom", settings={"function": "watches"})
    desk.open([call("send", to="ana")], "Done", message="Hello")
    custom._checks.pop("watches")
    assert [(str(s.where), s.agent, s.text, s.tool) for s in seen] == [
        ("input", "desk", "Hello", ""),
        ("tool_call", "desk", "", "send"),
    ]
    assert seen[1].typed == seen[1].arguments == {"to": "ana", "copies": 1}
    assert list(seen[1].texts()) == ["to", "ana", "copies", "1"]


@requires_confirmation
@tool
def wire(amount: int) -> str:
    """Wire money."""
    return "wired"


def test_a_gated_call_that_breaks_a_rule_as_well_is_asked_about_once(desk: Desk) -> None:
    limit(tools=["wire"], settings={"path": "amount", "limit": "5"})
    desk.open([call("wire", amount=9)], "Done", tools=[wire])
    assert len(Park.objects.all()) == 1
    assert desk.parks()[0].metadata["guardrail"]["rule"] == "few copies"
    assert Run.objects.get().status == "WAITING_FOR_INPUT"
