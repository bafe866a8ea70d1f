"""Tools that park themselves: a job elsewhere, its answer by webhook, answers that come early."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.core import signing
from django.test import Client

import hitl
from agents import ToolContext, park_for_input, requires_confirmation, threads, tool
from agents.models import ToolCall
from agents.testing import call, run_worker
from hitl import faults, parks, sweeping
from hitl.answers import read
from hitl.audit import Actor
from hitl.errors import BadDuration
from hitl.models import EarlyAnswer, Park
from tests.desk import Desk

RENDER = call("render", scene="a")


class Farm:
    """A tool that starts a job elsewhere, and what was seen of it."""

    def __init__(self, *, parks_again: bool = False, **options: Any) -> None:
        self.contexts: list[ToolContext] = []
        self.started: list[str] = []
        contexts, started = self.contexts, self.started

        @tool
        def render(ctx: ToolContext, scene: str) -> Any:
            """Render a scene."""
            contexts.append(ctx)
            if ctx.approval:
                if parks_again:
                    raise park_for_input(reason="job")
                return ctx.approval.payload
            if ctx.resumed:
                return "not finished in time"
            started.append(scene)
            try:
                raise park_for_input(
                    **{"reason": "job", "payload": {"job_id": 7}, "ttl": "30m"} | options
                )
            except Exception:
                return "swallowed"

        self.render = render


@pytest.fixture
def farm() -> Farm:
    return Farm()


def open_job(desk: Desk, farm: Farm, *more: Any) -> None:
    desk.open([RENDER, *more], "Done", tools=[farm.render, *desk.tools()])


@pytest.mark.promise("J1", "J6")
def test_a_tool_parks_itself_and_its_own_handler_does_not_swallow_that(
    desk: Desk, farm: Farm
) -> None:
    open_job(desk, farm)
    assert desk.thread.status == "WAITING_FOR_INPUT"
    [request] = desk.pending
    assert (request.reason, request.tool_name) == ("job", "render")
    assert request.arguments == {"job_id": 7}
    assert request.expires_at == request.opened_at + timedelta(minutes=30)
    assert farm.started == ["a"]
    assert desk.run.lease_until is None
    event = threads.events(desk.thread)[-1]
    assert event["type"] == "INPUT_REQUIRED"
    assert event["data"]["reason"] == "job"


@pytest.mark.promise("J2")
def test_the_same_call_runs_again_with_the_answer_and_its_return_is_the_result(
    desk: Desk, farm: Farm
) -> None:
    open_job(desk, farm)
    assert desk.answer(True, payload={"url": "x"}, actor="farm").delivered
    first, second = farm.contexts
    assert first.tool_call_id == second.tool_call_id
    assert first.idempotency_key == second.idempotency_key
    assert (first.approval, first.resumed) == (None, False)
    assert second.approval is not None
    assert (second.approval.payload, second.approval.actor) == ({"url": "x"}, "farm")
    assert desk.results["render"].content == {"url": "x"}
    assert farm.started == ["a"]
    assert desk.thread.status == "COMPLETED"


@pytest.mark.promise("J4")
def test_parking_again_from_the_resumed_call_is_a_tool_error(desk: Desk) -> None:
    farm = Farm(parks_again=True)
    open_job(desk, farm)
    desk.answer(True, payload=1)
    assert desk.results["render"].outcome == "error"
    assert "parked again" in desk.results["render"].content["error"]
    assert desk.pending == []


@pytest.mark.promise("J5")
def test_a_job_that_outlives_its_deadline_resumes_without_an_approval(
    desk: Desk, farm: Farm, clock: Any
) -> None:
    open_job(desk, farm)
    clock.advance(minutes=31)
    run_worker()
    _, second = farm.contexts
    assert (second.approval, second.resumed) == (None, True)
    assert desk.results["render"].content == "not finished in time"
    assert farm.started == ["a"]
    assert hitl.respond(desk.thread, second.tool_call_id, True, payload=1).code == "expired"


@pytest.mark.promise("J4", "J5")
def test_a_tool_that_looks_at_its_approval_alone_and_parks_again_at_its_deadline_says_why(
    desk: Desk, clock: Any
) -> None:
    @tool
    def render(ctx: ToolContext, scene: str) -> Any:
        """Render."""
        if ctx.approval:
            return ctx.approval.payload
        raise park_for_input(reason="job", ttl="30m")

    desk.open([RENDER], "Done", tools=[render])
    clock.advance(minutes=31)
    run_worker()
    assert desk.results["render"].outcome == "error"
    assert "not finished before its deadline" in desk.results["render"].content["error"]
    assert "parked again" in desk.results["render"].content["error"]
    assert desk.pending == []


@pytest.mark.promise("J1")
def test_a_park_that_is_returned_and_not_raised_parks_as_well(desk: Desk) -> None:
    @tool
    async def render(ctx: ToolContext, scene: str) -> Any:
        """Render."""
        return ctx.approval.payload if ctx.approval else park_for_input(payload={"job_id": 7})

    desk.open([RENDER], "Done", tools=[render])
    assert desk.thread.status == "WAITING_FOR_INPUT"
    desk.answer(True, payload="built")
    assert desk.results["render"].content == "built"


@pytest.mark.promise("J2", "A7")
def test_a_job_that_is_said_no_to_does_not_run_its_tool_again(desk: Desk, farm: Farm) -> None:
    open_job(desk, farm)
    desk.answer(False, reason="the farm burnt down")
    assert len(farm.contexts) == 1
    assert desk.results["render"].outcome == "denied"
    assert desk.results["render"].content["reason"] == "the farm burnt down"


@pytest.mark.promise("J1")
@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"ttl": 0}, "BadDuration"),
        ({"ttl": "soon"}, "BadDuration"),
        ({"reason": "retry"}, "InvalidPark"),
        ({"reason": "in_doubt"}, "InvalidPark"),
        ({"reason": "x" * 41}, "InvalidPark"),
        ({"payload": object()}, "NotJson"),
    ],
)
def test_a_park_that_makes_no_sense_is_a_tool_error(
    desk: Desk, options: dict[str, Any], error: str
) -> None:
    @tool
    def render(scene: str) -> Any:
        """Render."""
        raise park_for_input(**options)

    desk.open([RENDER], "Done", tools=[render])
    assert desk.results["render"].outcome == "error"
    assert error in desk.results["render"].content["error"]
    assert not Park.objects.exists()
    assert issubclass(BadDuration, Exception)


@pytest.mark.promise("S1", "P5")
def test_jobs_gates_and_free_calls_of_one_step_park_together(
    desk: Desk, farm: Farm, clock: Any
) -> None:
    """Field reports PAR-07, PAR-09 and MSG-09."""
    open_job(desk, farm, call("look", what="x"), call("send", to="ana"), call("look", what="y"))
    assert {request.tool_name for request in desk.pending} == {"render", "send"}
    assert desk.effects == ["look x", "look y"]
    job = next(request for request in desk.pending if request.reason == "job")
    hitl.respond(desk.thread, job.tool_call_id, True, payload="built")
    assert run_worker() == 0
    clock.advance(minutes=16)
    run_worker()
    assert desk.effects == ["look x", "look y"]
    [*_, block] = desk.model.requests[-1].messages
    assert [(result.name, result.outcome) for result in block.results] == [
        ("render", "ok"),
        ("look", "ok"),
        ("send", "timed_out"),
        ("look", "ok"),
    ]
    assert farm.started == ["a"]
    assert not hitl.respond(desk.thread, job.tool_call_id, True, payload="again").delivered


@pytest.mark.promise("J1", "A4")
def test_a_gated_tool_may_park_itself_once_it_was_allowed(desk: Desk) -> None:
    started = []

    @requires_confirmation
    @tool
    def render(ctx: ToolContext, scene: str) -> Any:
        """Render, once somebody allowed it."""
        if ctx.resumed:
            return ctx.approval and ctx.approval.payload
        assert ctx.approval is not None
        started.append(scene)
        raise park_for_input(reason="job")

    desk.open([RENDER], "Done", tools=[render])
    assert started == []
    desk.answer(True)
    assert started == ["a"]
    [request] = desk.pending
    assert request.reason == "job"
    desk.answer(True, payload="built")
    assert desk.results["render"].content == "built"
    assert [park.status for park in desk.parks()] == ["approved", "approved"]


# Early answers.


@pytest.mark.promise("J3")
@pytest.mark.parametrize("approved", [True, False])
def test_an_answer_that_comes_before_the_park_is_kept_and_applied(
    desk: Desk, approved: bool
) -> None:
    answers = []

    @tool
    def render(ctx: ToolContext, scene: str) -> Any:
        """Render."""
        if ctx.approval:
            return ctx.approval.payload
        for payload in ("fast", "faster"):
            answers.append(hitl.respond(ctx.thread_id, ctx.tool_call_id, approved, payload=payload))
        raise park_for_input(reason="job")

    desk.open([RENDER], "Done", tools=[render])
    first, second = answers
    assert first.delivered
    assert (second.delivered, second.code) == (False, "already_answered")
    assert desk.thread.status == "COMPLETED"
    expected = "ok" if approved else "denied"
    assert desk.results["render"].outcome == expected
    if approved:
        assert desk.results["render"].content == "fast"
    assert not EarlyAnswer.objects.exists()
    assert "INPUT_ANSWERED" in desk.event_types()


@pytest.mark.promise("J3", "S1")
def test_an_early_answer_waits_for_its_siblings(desk: Desk) -> None:
    @tool
    def render(ctx: ToolContext, scene: str) -> Any:
        """Render."""
        if ctx.approval:
            return ctx.approval.payload
        hitl.respond(ctx.thread_id, ctx.tool_call_id, True, payload="fast")
        raise park_for_input(reason="job")

    desk.open([RENDER, call("send", to="ana")], "Done", tools=[render, *desk.tools()])
    assert [request.tool_name for request in desk.pending] == ["send"]
    assert desk.thread.status == "WAITING_FOR_INPUT"
    desk.answer(True)
    assert desk.results["render"].content == "fast"
    assert desk.thread.status == "COMPLETED"


@pytest.mark.promise("J3", "A2")
def test_an_answer_to_a_call_that_has_not_begun_is_not_kept(desk: Desk) -> None:
    """Field report DEC-07: nothing is approved that was not asked."""
    desk.open([call("send", to="ana")], "Done")
    [request] = desk.pending
    hitl.respond(desk.thread, request.tool_call_id, False)
    again = read(True, Actor("eve", "python"), payload="forged")
    answer = parks.resume("run", desk.run.id, request.tool_call_id, again)
    assert (answer.delivered, answer.code) == (False, "already_answered")
    run_worker()
    assert desk.effects == []


def gated_job(answers: list[Any], *given: Any, waits: bool = True) -> Any:
    """Return a gated tool that parks itself, and is answered by thread and call before it has."""

    @requires_confirmation
    @tool
    def render(ctx: ToolContext, scene: str) -> Any:
        """Render, once somebody allowed it."""
        if ctx.resumed:
            return ctx.approval and ctx.approval.payload
        for approved, options in given:
            answers.append(hitl.respond(ctx.thread_id, ctx.tool_call_id, approved, **options))
        if waits:
            raise park_for_input(reason="job")
        return "rendered at once"

    return render


@pytest.mark.promise("J2", "J3")
def test_a_gated_tool_is_answered_by_thread_and_call_before_it_has_parked(desk: Desk) -> None:
    answers: list[Any] = []
    built, again = (True, {"payload": "built"}), (True, {"payload": "built twice"})
    desk.open([RENDER], "Done", tools=[gated_job(answers, built, again)])
    desk.answer(True)
    assert [(answer.delivered, answer.code) for answer in answers] == [
        (True, None),
        (False, "already_answered"),
    ]
    assert desk.results["render"].content == "built"
    assert desk.thread.status == "COMPLETED"


@pytest.mark.promise("A2", "J3")
@pytest.mark.parametrize("approved", [True, False])
def test_a_gate_that_is_answered_again_while_its_tool_runs_finishes_no_job(
    desk: Desk, approved: bool
) -> None:
    """A second press of the button is not the result of the job that the first press began."""
    answers: list[Any] = []
    desk.open([RENDER], "Done", tools=[gated_job(answers, (approved, {"reason": "pressed"}))])
    desk.answer(True)
    assert [answer.code for answer in answers] == ["already_answered"]
    [request] = desk.pending
    assert request.reason == "job"


@pytest.mark.promise("A2", "J3")
def test_a_second_answer_to_a_gate_whose_tool_parks_never_is_too_late_while_it_runs(
    desk: Desk,
) -> None:
    answers: list[Any] = []

    @requires_confirmation
    @tool
    def render(ctx: ToolContext, scene: str) -> Any:
        """Render, once somebody allowed it."""
        answers.append(hitl.respond(ctx.thread_id, ctx.tool_call_id, True, payload="by hand"))
        return "rendered"

    desk.open([RENDER], "Done", tools=[render])
    desk.answer(True)
    assert [answer.code for answer in answers] == ["already_answered"]
    assert desk.results["render"].content == "rendered"
    assert not EarlyAnswer.objects.exists()


@pytest.mark.promise("J3")
def test_an_early_answer_that_nobody_came_to_want_is_dropped_by_the_sweep_and_logged(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    answers: list[Any] = []
    tools = [gated_job(answers, (True, {"payload": "built"}), waits=False)]
    desk.open([RENDER], "Done", tools=tools)
    desk.answer(True)
    assert desk.results["render"].content == "rendered at once"
    assert EarlyAnswer.objects.count() == 1
    assert sweeping.sweep()["early_answers_dropped"] == 1
    assert not EarlyAnswer.objects.exists()
    assert str(desk.run.id) in caplog.text


@pytest.mark.promise("J3")
def test_the_sweep_leaves_an_early_answer_whose_call_may_still_park(desk: Desk) -> None:
    swept = []

    @tool
    def render(ctx: ToolContext, scene: str) -> Any:
        """Render."""
        if ctx.approval:
            return ctx.approval.payload
        hitl.respond(ctx.thread_id, ctx.tool_call_id, True, payload="fast")
        swept.append(sweeping.sweep()["early_answers_dropped"])
        raise park_for_input(reason="job")

    desk.open([RENDER], "Done", tools=[render])
    assert swept == [0]
    assert desk.results["render"].content == "fast"


@pytest.mark.promise("J1", "J6")
@pytest.mark.parametrize(
    ("reason", "title"),
    [
        ("job", "Job for render"),
        ("approval", "Approval for render"),
        ("bank transfer", "Bank transfer for render"),
    ],
)
def test_a_park_without_a_payload_says_what_it_waits_for_and_shows_no_arguments(
    desk: Desk, reason: str, title: str
) -> None:
    farm = Farm(reason=reason, payload=None)
    open_job(desk, farm)
    [request] = desk.pending
    assert request.arguments == {}
    assert [str(park) for park in desk.parks()] == [title]


@pytest.mark.promise("J2", "N5")
def test_a_job_of_an_earlier_run_wakes_nothing_while_another_run_waits(
    desk: Desk, farm: Farm
) -> None:
    """Field report WAKE-05: the thread has moved on, and the farm calls back after all."""
    desk.open([RENDER], [call("send", to="ana")], "Done", tools=[farm.render, *desk.tools()])
    old_address = farm.contexts[0].resume_url
    threads.send(desk.thread, "Write to Ana instead", supersede=True)
    run_worker()
    [request] = desk.pending
    late = post(old_address, {"url": "x"})
    assert (late.status_code, late.json()["code"]) == (409, "moved_on")
    assert run_worker() == 0
    assert desk.pending == [request]
    assert desk.thread.status == "WAITING_FOR_INPUT"


@pytest.mark.promise("J2", "A1", "A3")
@pytest.mark.django_db(transaction=True)
def test_a_farm_that_lost_the_reply_asks_again_and_is_told_that_it_was_heard(
    desk: Desk, farm: Farm, clock: Any
) -> None:
    """Field report WAKE-02: the process dies after the commit, before it sends word of it."""
    open_job(desk, farm)
    url = farm.contexts[0].resume_url
    lost = faults.CrashAt(1, name="hint:committed")
    with faults.armed(lost), pytest.raises(faults.Crash):
        post(url, {"url": "x"})
    again = post(url, {"url": "x"})
    assert (again.status_code, again.json()["code"]) == (409, "already_answered")
    clock.advance(seconds=10)
    assert sweeping.sweep()["runs_hinted"] == 1, "the wake-up is owed by the row"
    run_worker()
    assert desk.results["render"].content == {"url": "x"}


# The signed address.


def post(url: str, body: Any = b"", **more: Any) -> Any:
    path = url.removeprefix("http://localhost:8000")
    data = body if isinstance(body, bytes) else json.dumps(body)
    return Client(enforce_csrf_checks=True).post(
        path, data=data, content_type="application/json", **more
    )


@pytest.mark.promise("J2", "A1", "A2")
def test_the_resume_address_takes_the_result_once(desk: Desk, farm: Farm) -> None:
    open_job(desk, farm)
    url = farm.contexts[0].resume_url
    assert url.startswith("http://localhost:8000/hooks/resume/")
    taken = post(url, {"url": "x"})
    assert (taken.status_code, taken.json()) == (200, {"delivered": True})
    for _ in range(2):
        late = post(url, {"url": "y"})
        assert late.status_code == 409
        assert late.json()["code"] == "already_answered"
    run_worker()
    late = post(url, {"url": "z"})
    assert late.status_code == 409
    assert desk.results["render"].content == {"url": "x"}
    assert Park.objects.get().channel == "webhook"


@pytest.mark.promise("J2")
@pytest.mark.parametrize(
    ("body", "status", "stored"),
    [
        (b"", 200, None),
        (b"null", 200, None),
        (b"[1, 2.5]", 200, [1, 2.5]),
        (b'"a\\u0000b"', 200, "a\u2400b"),
        (b"{", 400, None),
        (b"\xff\xfe", 400, None),
        (b"NaN", 400, None),
        (b'"' + b"x" * 300_000 + b'"', 413, None),
        (b"[" * 5000, 400, None),
    ],
)
def test_any_body_is_stored_or_refused_and_never_a_500(
    desk: Desk, farm: Farm, body: bytes, status: int, stored: Any
) -> None:
    open_job(desk, farm)
    assert post(farm.contexts[0].resume_url, body).status_code == status
    if status == 200:
        run_worker()
        assert desk.results["render"].content == stored
    else:
        assert len(desk.pending) == 1


@pytest.mark.promise("J2")
@pytest.mark.parametrize("token", ["x", "a:b:c", "é", "WyJydW4iXQ:1:x"])
def test_a_forged_address_is_not_found(db: None, token: str) -> None:
    assert post(f"/hooks/resume/{token}", {}).status_code == 404


@pytest.mark.promise("J2")
def test_an_address_opens_its_own_call_and_no_other_kind_of_token_does(
    desk: Desk, farm: Farm, settings: Any
) -> None:
    open_job(desk, farm)
    key = str(farm.contexts[0].tool_call_id)
    other = signing.dumps(["run", desk.run.id.hex, key], salt="something.else")
    assert post(f"/hooks/resume/{other}", {}).status_code == 404
    settings.HITL = {"RESUME_URL_TTL": 1}
    path = farm.contexts[0].resume_url
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = "rotated"
    settings.HITL = {}
    assert post(path, 1).status_code == 200


@pytest.mark.promise("U7")
def test_only_a_post_resumes(desk: Desk, farm: Farm) -> None:
    open_job(desk, farm)
    path = farm.contexts[0].resume_url.removeprefix("http://localhost:8000")
    for method in ("get", "head", "options", "put", "delete"):
        assert getattr(Client(), method)(path).status_code == 405
    assert len(desk.pending) == 1


# Crashes.


@pytest.mark.promise("J1", "P5")
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("point", ["asked:kept", "park:opened", "park:saving"])
def test_a_job_that_was_begun_is_not_begun_again_after_a_crash(clock: Any, point: str) -> None:
    desk, farm = Desk(), Farm()

    def crash(name: str) -> None:
        if name == point:
            raise faults.Crash

    with faults.armed(crash), pytest.raises(faults.Crash):
        open_job(desk, farm)
    clock.advance(seconds=7)
    run_worker()
    assert farm.started == ["a"]
    desk.thread = threads.Thread.objects.get()
    desk.answer(True, payload="built")
    assert ToolCall.objects.get().result == "built"


@pytest.mark.promise("H8")
def test_a_stop_closes_a_job_that_waits(desk: Desk, farm: Farm) -> None:
    open_job(desk, farm)
    url = farm.contexts[0].resume_url
    threads.stop(desk.thread)
    assert post(url, 1).status_code == 409
    assert ToolCall.objects.get().outcome == "unknown"


@pytest.mark.django_db(transaction=True)
def test_free_calls_that_may_run_side_by_side_do_and_results_keep_their_order() -> None:
    import threading

    together = threading.Barrier(3, timeout=10)

    @tool(parallel=True)
    def fetch(page: str) -> str:
        """Fetch a page."""
        together.wait()
        return f"page {page}"

    desk = Desk()
    desk.open([call("fetch", page=str(n)) for n in range(3)], "Done", tools=[fetch])
    [*_, block] = desk.model.requests[-1].messages
    assert [result.content for result in block.results] == ["page 0", "page 1", "page 2"]
    assert all(made.claimed_by for made in ToolCall.objects.all()), "a crash would be noticed"
    assert desk.thread.status == "COMPLETED"
