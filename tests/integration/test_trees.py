"""Nested agents: a gate anywhere below surfaces at the top, its answer unwinds level by level."""

from typing import Any

import pytest

import hitl
from agents import Agent, ToolContext, agent, checks, requires_confirmation, threads, tool
from agents.llm.errors import ModelUnavailable
from agents.llm.messages import AssistantMessage, Request, UserMessage, check_pairs
from agents.models import Event, Frame, Run, Step, ToolCall
from agents.testing import ScriptedModel, call, run_worker
from hitl import faults, parks
from hitl.models import Park
from tests import stream


class House:
    """A chain of agents a0 → a1 → … whose deepest has a gated tool, and what was seen of it."""

    def __init__(self, depth: int, **root: Any) -> None:
        self.effects: list[str] = []
        self.contexts: list[ToolContext] = []
        self.requests: list[Request] = []
        self.depth = depth
        effects, contexts = self.effects, self.contexts

        @requires_confirmation
        @tool
        def pay(ctx: ToolContext, amount: int) -> str:
            """Pay."""
            contexts.append(ctx)
            effects.append(f"pay {amount}")
            return f"paid {amount}"

        @tool
        def look() -> str:
            """Look."""
            effects.append("look")
            return "seen"

        self.pay, self.look = pay, look
        for level in range(depth, -1, -1):
            self.define(level, **(root if level == 0 else {}))

    def define(self, level: int, reply: Any = None, **options: Any) -> None:
        below = [f"a{level + 1}"] if level < self.depth else []
        Agent(
            f"a{level}",
            model=ScriptedModel(self._recording(reply or self._reply(level))),
            tools=[self.pay, self.look],
            subagents=below,
            **options,
        )

    def _recording(self, reply: Any) -> Any:
        def answer(request: Request) -> Any:
            self.requests.append(request)
            return reply(request)

        return answer

    def _reply(self, level: int) -> Any:
        def reply(request: Request) -> Any:
            rest = request.messages[1:]
            if not rest:
                if level < self.depth:
                    return [call(f"delegate_to_a{level + 1}", instructions=f"level {level + 1}")]
                return [call("pay", amount=level)]
            last = rest[-1].results[0]  # type: ignore[union-attr]
            return f"a{level} says {last.outcome}: {last.content}"

        return reply

    def start(self) -> threads.Thread:
        self.thread = threads.start("a0", "Begin")
        run_worker()
        return self.thread

    @property
    def pending(self) -> list[hitl.PendingInput]:
        return hitl.pending(self.thread)

    def answer(self, approved: object = True, **more: Any) -> None:
        [request] = self.pending
        assert hitl.respond(self.thread, request.tool_call_id, approved, **more).delivered
        run_worker()

    def asked(self, name: str) -> int:
        return sum(request.agent == name for request in self.requests)


@pytest.mark.django_db
@pytest.mark.promise("N1", "N2", "A4")
@pytest.mark.parametrize("depth", [0, 1, 2, 3, 5])
def test_a_gate_at_the_bottom_surfaces_at_the_top_and_unwinds(depth: int) -> None:
    """Field reports NEST-01, NEST-02, NEST-05 and NEST-08."""
    house = House(depth)
    thread = house.start()
    [request] = house.pending
    path = tuple(f"a{level}" for level in range(depth + 1))
    assert (request.agent, request.depth, request.path) == (f"a{depth}", depth, path)
    data = Event.objects.get(type="INPUT_REQUIRED").data
    assert (data["agent"], data["depth"], tuple(data["path"])) == (f"a{depth}", depth, path)
    assert Frame.objects.count() == depth
    house.answer(True)
    assert house.effects == [f"pay {depth}"]
    assert thread.status == "COMPLETED"
    said = threads.history(thread)[-1]["text"]
    assert said.startswith("a0 says ok")
    assert f"paid {depth}" in said
    assert house.contexts[0].depth == depth
    for level in range(depth + 1):
        assert house.asked(f"a{level}") == 2, "each level was asked once before and once after"
    for seen in house.requests:
        check_pairs(seen.messages)


@pytest.mark.django_db
@pytest.mark.promise("N1", "A7", "A12")
@pytest.mark.parametrize("how", ["denied", "timed_out", "cancelled"])
def test_every_ending_unwinds_as_what_it_is(how: str, clock: Any) -> None:
    house = House(3)
    thread = house.start()
    [request] = house.pending
    if how == "denied":
        house.answer(False, reason="no")
    elif how == "cancelled":
        parks.cancel(request.request_id, actor="ana", channel="python")
    else:
        clock.advance(minutes=16)
    run_worker()
    assert house.effects == []
    assert thread.status == "COMPLETED"
    assert f"a3 says {how}" in threads.history(thread)[-1]["text"]


@pytest.mark.django_db
@pytest.mark.promise("N2")
def test_the_childs_messages_stay_in_its_frame() -> None:
    """Field report NEST-04."""
    house = House(2)
    thread = house.start()
    house.answer(True)
    texts = [line["text"] for line in threads.history(thread)]
    assert len(texts) == 2
    for request in house.requests:
        [said, *_] = request.messages
        assert isinstance(said, UserMessage)
        expected = "Begin" if request.agent == "a0" else f"level {request.agent[1]}"
        assert said.text == expected


@pytest.mark.django_db
@pytest.mark.promise("S1", "S2", "N1")
def test_several_children_of_one_step_park_together_in_any_mix() -> None:
    house = House(1)
    house.define(
        0,
        reply=lambda request: (
            [
                call("delegate_to_a1", instructions="one"),
                call("pay", amount=9),
                call("delegate_to_a1", instructions="two"),
                call("look"),
            ]
            if len(request.messages) == 1
            else "All done."
        ),
    )
    thread = house.start()
    assert sorted(request.depth for request in house.pending) == [0, 1, 1]
    assert house.effects == ["look"]
    *rest, last = house.pending
    for request in rest:
        hitl.decide(request.request_id, True)
        assert run_worker() == 0
        assert thread.status == "WAITING_FOR_INPUT"
    hitl.decide(last.request_id, False)
    run_worker()
    assert thread.status == "COMPLETED"
    assert sorted(house.effects) == ["look", "pay 1", "pay 9"]
    [*_, block] = house.requests[-1].messages
    assert [result.name for result in block.results] == [
        "delegate_to_a1",
        "pay",
        "delegate_to_a1",
        "look",
    ]


@pytest.mark.django_db
@pytest.mark.promise("N4")
def test_a_child_may_park_again_while_the_answer_unwinds() -> None:
    house = House(2)

    def twice(request: Request) -> Any:
        done = sum(isinstance(message, AssistantMessage) for message in request.messages)
        return [call("pay", amount=done)] if done < 2 else "paid twice"

    house.define(2, reply=twice)
    thread = house.start()
    house.answer(True)
    assert thread.status == "WAITING_FOR_INPUT"
    house.answer(True)
    assert house.effects == ["pay 0", "pay 1"]
    assert thread.status == "COMPLETED"
    assert house.asked("a1") == 2


@pytest.mark.django_db
@pytest.mark.promise("N3")
@pytest.mark.parametrize("level", [1, 2, 3])
def test_a_child_that_fails_is_the_result_of_its_delegation(level: int) -> None:
    """Field report NEST-06."""
    house = House(3)
    original = house._reply(level)

    def broken(request: Request) -> Any:
        return RuntimeError("model is gone") if len(request.messages) > 1 else original(request)

    house.define(level, reply=broken)
    thread = house.start()
    house.answer(True)
    assert thread.status == "COMPLETED"
    said = threads.history(thread)[-1]["text"]
    assert "model is gone" in said
    assert f"a{level} failed" in said
    assert ToolCall.objects.exclude(phase="done").count() == 0


@pytest.mark.django_db
@pytest.mark.promise("N3", "H6")
def test_a_childs_model_that_is_down_for_a_while_is_tried_again(clock: Any) -> None:
    house = House(1)
    down = [1]
    original = house._reply(1)

    def flaky(request: Request) -> Any:
        if down:
            down.pop()
            return ModelUnavailable("down")
        return original(request)

    house.define(1, reply=flaky)
    thread = house.start()
    assert thread.status == "WAITING"
    clock.advance(seconds=10)
    run_worker()
    house.answer(True)
    assert thread.status == "COMPLETED"


@pytest.mark.django_db
@pytest.mark.promise("N3", "H6")
def test_a_childs_model_that_stays_down_fails_the_child_and_leaves_its_parent_all_its_tries(
    clock: Any, settings: Any
) -> None:
    settings.AGENTS = {"MODEL_RETRIES_MAX": 2}
    house = House(1)
    house.define(1, reply=lambda request: ModelUnavailable("down"))
    original, flaky = house._reply(0), [1]

    def busy_afterwards(request: Request) -> Any:
        if len(request.messages) > 1 and flaky:
            flaky.pop()
            return ModelUnavailable("busy")
        return original(request)

    house.define(0, reply=busy_afterwards)
    thread = house.start()
    for _ in range(4):
        clock.advance(minutes=1)
        run_worker()
    assert thread.status == "COMPLETED"
    assert "a1 failed" in threads.history(thread)[-1]["text"]


@pytest.mark.django_db
@pytest.mark.promise("N3")
def test_a_child_whose_agent_left_the_code_is_reported_and_nothing_of_it_runs() -> None:
    house = House(2)
    thread = house.start()
    [request] = house.pending
    hitl.decide(request.request_id, True)
    removed = agent._agents.pop("a2")
    try:
        run_worker()
    finally:
        agent._agents["a2"] = removed
    assert thread.status == "COMPLETED"
    assert house.effects == []
    assert "a2 failed" in threads.history(thread)[-1]["text"]


@pytest.mark.django_db
@pytest.mark.promise("N1")
def test_delegating_has_a_limit_of_depth() -> None:
    Agent(
        "self",
        model=ScriptedModel(
            lambda request: (
                [call("delegate_to_self", instructions="again")]
                if len(request.messages) == 1
                else f"told: {request.messages[-1].results[0].content}"
            )
        ),
        subagents=["self"],
        max_depth=3,
    )
    thread = threads.start("self", "Go down")
    run_worker()
    assert thread.status == "COMPLETED"
    assert Frame.objects.count() == 3
    assert "3 levels deep" in threads.history(thread)[-1]["text"]


@pytest.mark.django_db
@pytest.mark.promise("N1")
def test_a_delegation_without_a_word_is_a_tool_error_and_opens_no_frame() -> None:
    house = House(1)
    house.define(
        0,
        reply=lambda request: (
            [call("delegate_to_a1", instructions=" \n")]
            if len(request.messages) == 1
            else f"told: {request.messages[-1].results[0].content}"
        ),
    )
    thread = house.start()
    assert "instructions are blank" in threads.history(thread)[-1]["text"]
    assert not Frame.objects.exists()


@pytest.mark.promise("N1")
def test_delegating_to_an_agent_that_nobody_defines_is_shown_before_a_deploy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(agent, "_agents", {})
    Agent("desk", model=ScriptedModel([]), subagents=["mailer", "desk"])
    [warning] = checks.check_subagents()
    assert (warning.id, warning.msg) == (
        "agents.W001",
        "The agent 'desk' delegates to 'mailer', which nobody defines.",
    )


@pytest.mark.django_db
@pytest.mark.promise("N1")
def test_delegations_of_one_step_are_bounded(settings: Any) -> None:
    settings.AGENTS = {"DELEGATIONS_MAX": 2}
    house = House(1)
    house.define(
        0,
        reply=lambda request: (
            [call("delegate_to_a1", instructions=str(n)) for n in range(3)]
            if len(request.messages) == 1
            else "Done"
        ),
    )
    house.start()
    assert len(house.pending) == 2
    assert Frame.objects.count() == 2


@pytest.mark.django_db
@pytest.mark.promise("N6")
def test_budgets_span_the_tree_and_a_park() -> None:
    house = House(3, max_steps=5)
    thread = house.start()
    assert Run.objects.get().steps == 4
    house.answer(True)
    assert thread.status == "FAILED"
    assert "5 steps" in Run.objects.get().error
    assert not Park.objects.filter(status="pending").exists()


@pytest.mark.django_db
@pytest.mark.promise("N6")
def test_a_childs_own_limit_of_steps_fails_the_child_only() -> None:
    house = House(1)
    house.define(1, max_steps=1)
    thread = house.start()
    house.answer(True)
    assert thread.status == "COMPLETED"
    assert "limit of 1 steps" in threads.history(thread)[-1]["text"]


@pytest.mark.django_db
@pytest.mark.promise("N6")
@pytest.mark.parametrize(
    ("limit", "said"),
    [({"token_budget": 30}, "30 tokens"), ({"cost_budget": 0.01}, "0.01 dollars")],
)
def test_budgets_of_tokens_and_cost_end_the_run(limit: dict[str, Any], said: str) -> None:
    from agents.llm.messages import Call, Reply, Usage

    house = House(1)

    def costly(request: Request) -> Any:
        usage = Usage(input_tokens=15, output_tokens=5, cost_micros=6000)
        return Reply("", (Call("1", "look", "{}"),), usage)

    house.define(0, reply=costly, **limit)
    thread = house.start()
    assert thread.status == "FAILED"
    assert said in Run.objects.get().error
    assert len(house.requests) == 2


@pytest.mark.django_db
@pytest.mark.promise("N2")
def test_a_long_answer_of_a_child_is_cut_with_a_mark() -> None:
    house = House(1)
    house.define(1, reply=lambda request: "x" * 20_000)
    house.start()
    result = ToolCall.objects.get().result
    assert len(result) <= 8_000
    assert "20000" in result


@pytest.mark.django_db
@pytest.mark.promise("M5")
def test_delegating_does_not_remove_a_mark() -> None:
    """The same tool, renamed, in a child: its calls still wait."""
    house = House(0)
    renamed = house.pay.renamed("settle_bill")
    Agent(
        "child",
        model=ScriptedModel([[call("settle_bill", amount=1)], "done"]),
        tools=[renamed],
    )
    Agent(
        "top",
        model=ScriptedModel([[call("delegate_to_child", instructions="pay")], "done"]),
        subagents=["child"],
    )
    house.thread = threads.start("top", "Go")
    run_worker()
    assert [request.tool_name for request in house.pending] == ["settle_bill"]
    assert house.effects == []


@pytest.mark.django_db
@pytest.mark.promise("H8", "N5")
def test_a_stop_closes_every_level() -> None:
    house = House(3)
    thread = house.start()
    threads.stop(thread)
    assert thread.status == "CANCELLED"
    assert house.pending == []
    assert ToolCall.objects.exclude(phase="done").count() == 0


def told_after(thread: threads.Thread, seq: int) -> list[tuple[str, str]]:
    """Return what the log says of calls and subagents after this number: what, and of whom."""
    return [
        (event["type"], event["data"].get("agent") or event["data"]["tool_name"])
        for event in threads.events(thread, after=seq)
        if event["type"] in ("SUBAGENT_FINISHED", "TOOL_RESULT")
    ]


@pytest.mark.django_db
@pytest.mark.promise("H5", "H8", "N3")
@pytest.mark.parametrize("how", ["stopped", "failed"])
def test_what_ends_early_is_told_from_the_deepest_level_up(how: str) -> None:
    house = House(3)
    house.define(
        1,
        reply=lambda request: (
            [call("delegate_to_a2", instructions="level 2"), call("pay", amount=1)]
            if len(request.messages) == 1
            else "a1 is done"
        ),
    )
    thread = house.start()
    before = Run.objects.get().event_seq
    if how == "stopped":
        threads.stop(thread)
    else:
        for request in house.pending:
            hitl.decide(request.request_id, True)
        removed = agent._agents.pop("a1")
        try:
            run_worker()
        finally:
            agent._agents["a1"] = removed
    assert told_after(thread, before)[:7] == [
        ("TOOL_RESULT", "pay"),
        ("SUBAGENT_FINISHED", "a3"),
        ("TOOL_RESULT", "delegate_to_a3"),
        ("SUBAGENT_FINISHED", "a2"),
        ("TOOL_RESULT", "delegate_to_a2"),
        ("TOOL_RESULT", "pay"),
        ("SUBAGENT_FINISHED", "a1"),
    ]
    assert stream.apply(stream.View(), threads.events(thread)) == stream.read(thread)
    broken_off = ToolCall.objects.get(tool_name="delegate_to_a2")
    assert broken_off.outcome == "stopped"
    assert "may have been performed" in broken_off.result["message"]


@pytest.mark.promise("N4", "N2")
@pytest.mark.django_db(transaction=True)
def test_an_unwind_cut_short_at_any_point_goes_on_and_no_level_runs_twice(clock: Any) -> None:
    """Field report NEST-06: each fault point on the way up, in a tree three levels deep."""
    nth = 0
    while True:
        nth += 1
        house = House(3)
        thread = house.start()
        [request] = house.pending
        hitl.decide(request.request_id, True)
        crash = faults.CrashAt(nth)
        try:
            with faults.armed(crash):
                run_worker()
        except faults.Crash:
            pass
        for _ in range(4):
            clock.advance(seconds=7)
            run_worker()
            for doubt in house.pending:
                assert doubt.reason == "in_doubt"
                happened = {"payload": "paid 3"} if house.effects else {}
                hitl.decide(doubt.request_id, True, **happened)
        assert thread.status == "COMPLETED", f"after a crash at point {nth}"
        assert house.effects == ["pay 3"]
        run = Run.objects.get(thread=thread)
        assert Step.objects.filter(run=run).count() == run.steps == 8
        if not crash.fired:
            break
    assert nth > 15
