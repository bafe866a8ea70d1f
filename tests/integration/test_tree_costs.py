"""What an answer costs that unwinds through a tree, and a step in a run that is already long.

Statements are exact and grow with each level by the same few, since each level keeps its own reply
and its call's result; what a segment reads does not depend on the depth.
"""

from typing import Any

import pytest

import hitl
from agents import Agent, threads, tool
from agents.llm.errors import ModelUnavailable
from agents.llm.messages import Request
from agents.models import Run
from agents.testing import ScriptedModel, call
from hitl import clock, sweeping
from tests.integration.racing import segment
from tests.integration.test_queries import Cost, counted
from tests.integration.test_trees import House

COUNTS = {0: 10, 1: 15, 3: 23, 5: 31}
"""Statements by depth: four for each level, and one to read the frames where there are any."""


STEP = 9
"""Statements of one step with one free call: four to keep the reply, two to claim, three to keep
the output."""


def unwind(depth: int) -> tuple[Cost, Cost]:
    """Return what the answer to a gate at this depth costs, and what the rest of its run does."""
    house = House(depth)
    thread = house.start()
    [request] = house.pending
    with counted() as answering:
        assert hitl.respond(thread, request.tool_call_id, True).delivered
    run = Run.objects.get(thread=thread)
    with counted() as finishing:
        assert segment(run.id)
    assert thread.status == "COMPLETED"
    return answering, finishing


@pytest.mark.django_db(transaction=True)
@pytest.mark.promise("N2")
def test_an_answer_costs_the_same_at_any_depth_and_its_unwind_so_much_a_level() -> None:
    costs = {depth: unwind(depth) for depth in COUNTS}
    answers = {depth: len(answering.statements) for depth, (answering, _) in costs.items()}
    assert len(set(answers.values())) == 1, answers
    counts = {depth: len(finishing.statements) for depth, (_, finishing) in costs.items()}
    assert counts == COUNTS, f"{counts}\n{costs[1][1]}"
    for depth, (_, finishing) in costs.items():
        assert finishing.write_transactions == 3 + depth, "one for each level's last word"


def walk(steps: int) -> tuple[int, int]:
    """Return the statements of a segment of so many steps, and of one that goes on after them."""
    asked = [0]

    @tool
    def look() -> str:
        """Look."""
        return "seen"

    def reply(request: Request) -> Any:
        asked[0] += 1
        if asked[0] == steps + 1:
            raise ModelUnavailable("down")
        return [call("look")] if asked[0] <= steps else "Done."

    Agent("long", model=ScriptedModel(reply), tools=[look], max_steps=steps + 1)
    run_id = threads.start("long", "Go").current_run_id
    assert run_id is not None
    with counted() as walking:
        assert segment(run_id)
    clock.advance(minutes=1)
    sweeping.settle_due()
    with counted() as going_on:
        assert segment(run_id)
    assert Run.objects.get(id=run_id).status == "COMPLETED"
    return len(walking.statements), len(going_on.statements)


@pytest.mark.django_db(transaction=True)
@pytest.mark.promise("P5")
@pytest.mark.usefixtures("clock")
def test_a_step_costs_the_same_however_many_came_before() -> None:
    costs = {steps: walk(steps) for steps in (5, 10, 40)}
    walked = {steps: walking for steps, (walking, _) in costs.items()}
    assert walked[10] - walked[5] == 5 * STEP, walked
    assert walked[40] - walked[10] == 30 * STEP, walked
    assert {going_on for _, going_on in costs.values()} == {6}, costs
