"""The screens and the command line for jobs and subagents: a card for people, else a line."""

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

import hitl
from agents import Agent, ToolContext, park_for_input, requires_confirmation, threads, tool
from agents.models import Thread
from agents.testing import ScriptedModel, call, run_worker
from hitl.models import Park
from tests.console import run
from tests.integration.admin_site import Document, address, boss, page, said, state

INBOX = "/admin/hitl/park/"
EVIL = "<script>\u202e"


@pytest.fixture
def thread(db: None) -> Thread:
    """A studio that waits for a job, and whose subagent's subagent waits for a person."""

    @tool
    def render(ctx: ToolContext, scene: str) -> Any:
        """Render a scene."""
        if ctx.approval:
            return {"picture": ctx.approval.payload}
        if ctx.resumed:
            return "no picture in time"
        raise park_for_input(payload={"job_id": 7, "note": EVIL}, ttl="30m")

    @requires_confirmation(summary=lambda args: "Write to Ana")
    @tool
    def send(to: str) -> str:
        """Send a letter."""
        return f"sent to {to}"

    mailer = Agent(
        "mailer", model=ScriptedModel([[call("send", to="ana")], "Ana knows."]), tools=[send]
    )
    office = Agent(
        "office",
        model=ScriptedModel([[call("delegate_to_mailer", instructions="Tell Ana")], "All told."]),
        subagents=[mailer],
    )
    studio = Agent(
        "studio",
        model=ScriptedModel(
            [
                [
                    call("render", scene="a cup"),
                    call("delegate_to_office", instructions=f"Tell them {EVIL}"),
                ],
                "Drawn and told.",
            ]
        ),
        tools=[render],
        subagents=[office],
    )
    started = threads.start(studio, "Draw a cup")
    run_worker()
    return started


def asked(thread: Thread, reason: str) -> Park:
    return Park.objects.get(scope=thread.id, reason=reason)


def shown(client: Client, thread: Thread) -> str:
    text = Document(client.get(f"/admin/agents/thread/{thread.id}/")).text
    assert EVIL not in text
    return " ".join(text.split())


@pytest.mark.promise("J6", "N1", "S4")
def test_the_inbox_lists_both_and_tells_them_apart(thread: Thread) -> None:
    client = boss()
    text = " ".join(Document(client.get(INBOX)).text.split())
    assert "Waits for a job" in text
    assert "studio › office › mailer (depth 2)" in text
    landing = " ".join(Document(client.get("/admin/")).text.split())
    assert "1 request waits for an answer" in landing
    assert "Job for render" not in landing


@pytest.mark.promise("J6")
def test_a_job_offers_no_yes_and_no_but_a_result_or_an_end(thread: Thread) -> None:
    client, job = boss(), asked(thread, "job")
    response = client.get(page(job))
    text = " ".join(Document(response).text.split())
    offered = [choice.offer.button for choice in response.context["choices"]]
    assert offered == [
        "Finish with a result",
        "Give it up",
        "Withdraw the request",
        "Give more time",
    ]
    assert "Nobody needs to do anything" in text
    assert "What it waits for" in text
    assert '"job_id": 7' in text
    before = state(job)
    refused = client.post(address(job, "approve"), {"reason": ""})
    assert (refused.status_code, state(job)) == (403, before)
    assert "cannot be done with this request" in Document(refused).text


@pytest.mark.promise("J2", "J6")
def test_a_person_finishes_a_job_with_a_result(thread: Thread) -> None:
    client, job = boss(), asked(thread, "job")
    written = {"result": "cup.svg", "kind": "text", "reason": ""}
    response = client.post(address(job, "answer"), written, follow=True)
    assert said(response) == [("success", "Finished. The tool goes on with this result.")]
    assert "Finished by boss through admin" in " ".join(Document(response).text.split())
    [request] = hitl.pending(thread)
    hitl.decide(request.request_id, True)
    run_worker()
    assert thread.status == "COMPLETED"
    assert '"picture": "cup.svg"' in shown(client, thread)


@pytest.mark.promise("J6")
def test_a_job_that_is_given_up_says_so(thread: Thread) -> None:
    client, job = boss(), asked(thread, "job")
    response = client.post(address(job, "deny"), {"reason": "too dear"}, follow=True)
    assert said(response) == [("success", "Given up. The tool does not go on.")]
    assert "Given up by boss" in " ".join(Document(response).text.split())


@pytest.mark.promise("J6")
def test_a_question_that_a_tool_asks_itself_is_a_card(db: None) -> None:
    @tool
    def order(ctx: ToolContext) -> str:
        """Order."""
        if ctx.approval:
            return f"ordered {ctx.approval.payload}"
        raise park_for_input(reason="approval", payload={"colour": "?"})

    Agent("shop", model=ScriptedModel([[call("order")], "Done."]), tools=[order])
    thread = threads.start("shop", "Order")
    run_worker()
    client, park = boss(), asked(thread, "approval")
    response = client.get(page(park))
    offered = [choice.offer for choice in response.context["choices"]]
    assert [offer.button for offer in offered[:2]] == ["Approve", "Deny"]
    assert "goes on from where it asked" in offered[0].help
    assert "1 request waits for an answer" in Document(client.get("/admin/")).text
    client.post(address(park, "approve"), {"reason": ""})
    run_worker()
    assert thread.status == "COMPLETED"


@pytest.mark.promise("N1", "U4", "U5")
def test_the_thread_page_shows_each_subagent_inside_the_one_above(thread: Thread) -> None:
    client = boss()
    story = [
        *("Draw a cup", "render", "Waits for a job", '"job_id": 7', "Subagent office depth 1"),
        *("Under way", "Tell them", "Subagent mailer depth 2", "Tell Ana", "send"),
        *("Waits for an answer", "Write to Ana"),
    ]
    check_order(shown(client, thread), story)
    hitl.decide(asked(thread, "job").id, True, payload="cup.svg")
    hitl.decide(asked(thread, "approval").id, True)
    run_worker()
    story = [
        *("Draw a cup", "render", "Done", "Finished", "Subagent office depth 1", "Done"),
        *("Subagent mailer depth 2", "Done", "send", "Approved", "Ana knows."),
        *("Result of mailer", "Ana knows.", "All told.", "Result of office", "All told."),
        *("Drawn and told.", "Completed"),
    ]
    check_order(shown(client, thread), story)


def check_order(text: str, story: list[str]) -> None:
    """Check that these words come one after the other."""
    place = 0
    for words in story:
        found = text.find(words, place)
        assert found >= 0, f"{words!r} is not in {text[place:]!r}"
        place = found + len(words)


@pytest.mark.promise("U4")
def test_the_thread_page_costs_the_same_however_many_subagents_it_shows(thread: Thread) -> None:
    client = boss()

    def cost(shown: Thread) -> int:
        with CaptureQueriesContext(connection) as captured:
            assert client.get(f"/admin/agents/thread/{shown.id}/").status_code == 200
        return len(captured)

    Agent("plain", model=ScriptedModel(["Yes."]))
    plain = threads.start("plain", "Hello")
    run_worker()
    assert cost(plain) == cost(thread)


@pytest.mark.promise("J6", "L1", "N1")
def test_the_command_line_has_words_of_its_own_for_a_job(thread: Thread) -> None:
    job = str(asked(thread, "job").id)
    assert "render (job) by studio" in run("list").out
    told = " ".join(run("get", job).out.split())
    assert "Waits for" in told
    assert "is what it waited for; it goes on" in told
    effects = {
        ("approve", "--payload", '"cup.svg"'): "goes on, with the payload as what it waited for.",
        ("approve",): "goes on, with an empty answer to what it waited for.",
        ("reject",): "does not go on; whoever asked is told no.",
        ("cancel",): "does not go on; it is withdrawn.",
    }
    for (verb, *more), effect in effects.items():
        assert f"With --yes: render {effect}" in run(verb, job, *more).err
    told = run("get", str(asked(thread, "approval").id)).out
    assert "studio › office › mailer (depth 2)" in told
    assert run("approve", job, "--payload", '"cup.svg"', "--yes").code == 0
    assert asked(thread, "job").answer == {"payload": "cup.svg"}
