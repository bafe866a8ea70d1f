"""The example's render farm: its jobs and reports, and the studio that waits for them."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from django.test import Client as Browser

import hitl
from agents import agent, threads
from examples.render_farm import agents as studio
from examples.render_farm import farm as farms
from examples.render_farm.child import Child
from examples.render_farm.client import Client, FarmError
from examples.render_farm.server import Server
from examples.support_desk import script as desk_script
from examples.support_desk.demo import opening
from examples.support_desk.models import Mail, Order

SECONDS_MAX = 10


class Site(ThreadingHTTPServer):
    """Somebody who is notified: answers with these statuses in turn, keeps what came."""

    daemon_threads = True

    def __init__(self, *statuses: int) -> None:
        self.statuses = list(statuses)
        self.came: list[Any] = []
        self.enough = threading.Event()
        super().__init__(("127.0.0.1", 0), Notified)
        self.url = f"http://127.0.0.1:{self.server_port}/hooks/resume/secret"


class Notified(BaseHTTPRequestHandler):
    server: Site

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.came.append(json.loads(body))
        self.send_response(self.server.statuses.pop(0))
        self.send_header("Content-Length", "0")
        self.end_headers()
        if not self.server.statuses:
            self.server.enough.set()

    def log_message(self, *args: Any) -> None: ...


def served(server: Any) -> Iterator[Any]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def farm(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A farm whose jobs take for ever unless they are told to finish."""
    monkeypatch.setattr(farms, "REPORT_PAUSE_SECONDS", 0.01)
    yield from served(Server(0, seconds=600))


@pytest.fixture
def site() -> Iterator[Site]:
    yield from served(Site(500, 200))


def test_a_job_is_reported_until_somebody_takes_it(farm: Server, site: Site) -> None:
    client = Client(farm.url)
    job_id = client.submit("a cup & more", notify=site.url, key="k")
    assert client.job(job_id) == {
        "job_id": job_id,
        "scene": "a cup & more",
        "state": "working",
        "replies": [],
    }
    client.finish(job_id)
    assert site.enough.wait(SECONDS_MAX)
    result = {"job_id": job_id, "picture": f"{farm.url}/pictures/{job_id}.svg"}
    assert site.came == [result, result]
    job = farm.farm.find(job_id)
    assert job is not None
    assert "a cup &amp; more" in farm.farm.draw(job)


def test_the_same_key_begins_no_second_job(farm: Server) -> None:
    client = Client(farm.url)
    first = client.submit("a", notify="http://127.0.0.1:9/", key="k")
    assert client.submit("a", notify="http://127.0.0.1:9/", key="k") == first
    assert client.submit("a", notify="http://127.0.0.1:9/", key="other") != first


def test_a_farm_that_is_not_there_or_refuses_says_so(farm: Server) -> None:
    with pytest.raises(FarmError, match="RENDER_FARM_URL"):
        Client("").job(1)
    with pytest.raises(FarmError, match="cannot be reached"):
        Client("http://127.0.0.1:9").job(1)
    with pytest.raises(FarmError, match="no such address"):
        Client(farm.url).job(77)
    with pytest.raises(FarmError, match="notify"):
        Client(farm.url).submit("a", notify="file:///etc/passwd", key="")


def test_a_farm_ends_with_the_program_that_started_it() -> None:
    with Child(seconds=600) as child:
        assert Client(child.url).submit("a", notify="http://127.0.0.1:9/", key="") == 1
    with pytest.raises(FarmError, match="cannot be reached"):
        Client(child.url).job(1)


@pytest.fixture
def shop(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    for one, model in ((studio.studio, studio.script.MODEL), (studio.mailer, desk_script.MODEL)):
        monkeypatch.setitem(agent._agents, one.name, one)
        monkeypatch.setattr(one, "model", model)
    Order.objects.bulk_create(opening.orders())


@pytest.mark.usefixtures("shop")
@pytest.mark.promise("J1", "J2", "N1", "S1")
def test_the_studio_waits_for_a_picture_and_a_yes(
    monkeypatch: pytest.MonkeyPatch, run_worker: Callable[[], int]
) -> None:
    submitted: list[dict[str, str]] = []

    def submit(self: Client, scene: str, **more: str) -> int:
        submitted.append({"scene": scene, **more})
        return 1

    monkeypatch.setattr(Client, "submit", submit)
    thread = threads.start("studio", opening.STUDIO_WISH)
    run_worker()
    assert sorted((one.reason, one.path) for one in hitl.pending(thread)) == [
        ("approval", ("studio", "mailer")),
        ("job", ("studio",)),
    ]
    [job] = submitted
    assert job["scene"] == "tea cup (order 12)"
    address = job["notify"].removeprefix("http://localhost:8000")
    body = {"job_id": 1, "picture": "http://farm/1.svg"}
    assert Browser().post(address, body, content_type="application/json").status_code == 200
    [request] = hitl.pending(thread)
    hitl.decide(request.request_id, True, actor="ana")
    run_worker()
    assert thread.status == "COMPLETED"
    said = threads.history(thread)[-1]["text"]
    assert "The picture is at http://farm/1.svg." in said
    assert "The e-mail to bela@example.com is done." in said
    assert Mail.objects.get().to == "bela@example.com"
    assert len(submitted) == 1


@pytest.mark.usefixtures("shop")
@pytest.mark.promise("J5")
def test_without_a_picture_in_time_the_studio_says_so(
    monkeypatch: pytest.MonkeyPatch, run_worker: Callable[[], int], clock: Any
) -> None:
    monkeypatch.setattr(Client, "submit", lambda *args, **more: 1)
    thread = threads.start("studio", "Draw order 12")
    run_worker()
    clock.advance(minutes=11)
    run_worker()
    assert threads.history(thread)[-1]["text"] == "The picture was not finished in time."


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ("Draw something", "Tell me what to draw"),
        ("Draw order 4711", "I could not look it up"),
        ("Draw order 12", "RENDER_FARM_URL is not set"),
    ],
)
def test_what_cannot_be_drawn_is_said(wish: str, said: str, run_worker: Callable[[], int]) -> None:
    thread = threads.start("studio", wish)
    run_worker()
    assert said in threads.history(thread)[-1]["text"]
