"""What a reply that a guardrail holds, redacts or refuses leaves behind, and what it must not."""

from typing import Any

import pytest

from agents import Agent, threads
from agents.llm.messages import AssistantMessage, Call, Reply
from agents.models import Step
from agents.testing import ScriptedModel, call, run_worker
from tests import invariants
from tests.desk import Desk
from tests.integration.test_guardrails import LOOK, SECRET, rule


@pytest.mark.promise("G3", "N1")
def test_a_held_reply_delegates_nothing_before_it_is_released(desk: Desk) -> None:
    rule(agents=["desk"], action="require_approval")
    clerk = ScriptedModel(["Found out."])
    Agent("clerk", model=clerk, tools=desk.tools())
    ask = call("delegate_to_clerk", instructions="Find out")
    thread = desk.open([f"Asking {SECRET}", ask], "Done", subagents=["clerk"])
    assert clerk.requests == []
    invariants.check()
    desk.answer(True)
    assert len(clerk.requests) == 1
    assert thread.status == "COMPLETED"
    invariants.check()


class Raw:
    """A model whose replies come with a form of its library's own, which tells all."""

    def __init__(self, *turns: Reply) -> None:
        self.turns = list(turns)

    def request(self, request: Any, *, cancelled: Any) -> Reply:
        return self.turns.pop(0)


@pytest.mark.promise("G1", "G3")
@pytest.mark.parametrize("action", ["block", "redact", "require_approval"])
def test_the_librarys_own_form_of_a_reply_is_kept_only_of_what_goes_out_as_it_was(
    desk: Desk, action: str
) -> None:
    rule(action=action)
    raw = {"parts": [f"Ask {SECRET}"]}
    Agent("desk", model=Raw(Reply(f"Ask {SECRET}", raw=raw)), tools=desk.tools())
    desk.thread = threads.start("desk", "Go on")
    run_worker()
    assert Step.objects.get().raw is None
    if action == "require_approval":
        desk.answer(True)
        assert Step.objects.get().raw == raw
    else:
        assert SECRET not in str(Step.objects.values_list("held", "text", "raw"))


@pytest.mark.promise("G1")
def test_the_librarys_own_form_of_a_redacted_call_is_not_kept(desk: Desk) -> None:
    rule(where="tool_call", action="redact")
    made = Call("1", "look", f'{{"what": "{SECRET}"}}')
    reply = Reply("Looking", (made,), raw={"parts": [SECRET]})
    Agent("desk", model=Raw(reply, Reply("Done")), tools=desk.tools())
    desk.thread = threads.start("desk", "Go on")
    run_worker()
    assert desk.effects == ["look [EMAIL]"]
    assert Step.objects.order_by("number")[0].raw is None


@pytest.mark.promise("G3")
def test_a_refused_reply_is_no_part_of_later_turns_nor_are_its_calls(desk: Desk) -> None:
    rule(action="require_approval")
    thread = desk.open([f"Asking {SECRET}", LOOK], "Done")
    desk.answer(False)
    threads.send(thread, "Go on")
    run_worker()
    told = desk.model.requests[-1].messages
    assert not any(isinstance(message, AssistantMessage) for message in told)
