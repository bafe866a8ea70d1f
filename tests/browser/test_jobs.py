"""Jobs and subagents in a real browser: nothing sticks out, and a job is finished by its form."""

from typing import TYPE_CHECKING, Any

import pytest

from agents import Agent, ToolContext, park_for_input, threads, tool
from agents.models import Thread
from agents.testing import ScriptedModel, call, run_worker
from hitl.models import Park
from tests.browser.test_inbox import log_in, site  # noqa: F401  (a fixture)

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

DEPTH = 5


@pytest.fixture
def thread(transactional_db: None) -> Thread:
    """A job that waits five levels down, and a question of a tool at the top."""

    @tool
    def render(ctx: ToolContext, scene: str) -> Any:
        """Render a scene."""
        if ctx.approval:
            return ctx.approval.payload
        raise park_for_input(payload={"job_id": 7, "address": "x" * 200}, ttl="30m")

    @tool
    def order(ctx: ToolContext) -> Any:
        """Order."""
        if ctx.approval:
            return "ordered"
        raise park_for_input(reason="approval", payload={"colour": "red"}, ttl="30m")

    for level in range(DEPTH, -1, -1):
        below = [f"level{level + 1}"] if level < DEPTH else []
        calls = [call(f"delegate_to_{name}", instructions="Go on") for name in below]
        made = calls or [call("render", scene="a cup")]
        made += [call("order")] if level == 0 else []
        Agent(
            f"level{level}",
            model=ScriptedModel([made, f"Word of level {level}."]),
            tools=[render, order],
            subagents=below,
        )
    started = threads.start("level0", "Draw")
    run_worker()
    return started


def fits(page: "Page") -> bool:
    """Tell whether nothing on the page makes it scroll sideways."""
    return bool(
        page.evaluate(
            "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
        )
    )


@pytest.mark.promise("J2", "J6", "N1", "U4")
def test_a_person_looks_at_the_tree_and_finishes_its_job(
    thread: Thread,
    page: "Page",
    site: str,  # noqa: F811
) -> None:
    log_in(page, site)
    tree = f"{site}/admin/agents/thread/{thread.id}/"
    page.goto(tree)
    frames = page.locator("section.sayso-frame")
    assert frames.count() == DEPTH
    innermost = frames.nth(DEPTH - 1)
    assert "depth 5" in innermost.inner_text()
    # However deep it is, there is room to read.
    inner, outer = innermost.bounding_box(), frames.first.bounding_box()
    assert inner is not None
    assert outer is not None
    assert inner["width"] > outer["width"] * 0.7
    assert fits(page)
    innermost.get_by_role("link", name="Job for render").click()
    page.get_by_text("Nobody needs to do anything").wait_for()
    assert page.get_by_role("button", name="Approve").count() == 0
    assert fits(page)
    page.locator("summary", has_text="Finish with a result").click()
    page.fill("textarea[name=result]", "cup.svg")
    page.locator("form").get_by_role("button", name="Finish with a result").click()
    page.get_by_text("Finished. The tool goes on with this result.").wait_for()
    question = Park.objects.pending().get()
    page.goto(f"{site}/admin/hitl/park/{question.id}/")
    page.get_by_text("The tool goes on from where it asked").first.wait_for(state="attached")
    page.get_by_role("button", name="Approve", exact=True).click()
    page.get_by_text("Approved. The tool will go on.").wait_for()
    run_worker()
    page.goto(tree)
    page.get_by_text("Word of level 0.").wait_for()
    assert fits(page)
    page.get_by_text("Result of level1").click()
    page.get_by_text('"Word of level 1."').wait_for()
