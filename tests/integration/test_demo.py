"""The parts of the demo: its administrator, its opening, its words, its port."""

import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command

import hitl
from agents import agent, threads
from agents.models import Run, Thread, Trigger
from examples.render_farm import agents as studio
from examples.support_desk import agents as shop
from examples.support_desk import script
from examples.support_desk.demo import account, opening, terminal
from examples.support_desk.models import Order, Refund
from hitl.models import Decision, Park
from project import embedded


@pytest.fixture(autouse=True)
def the_desk(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shop's own agents with the scripts behind them, and no waiting for a worker."""
    models = {
        shop.desk: script.MODEL,
        studio.studio: studio.script.MODEL,
        studio.mailer: script.MODEL,
    }
    for one, model in models.items():
        monkeypatch.setitem(agent._agents, one.name, one)
        monkeypatch.setattr(one, "model", model)
    monkeypatch.setattr(opening, "BEGIN_SECONDS_MAX", 0)


def can_log_in(password: str) -> bool:
    return get_user_model().objects.get(username=account.USERNAME).check_password(password)


def test_the_password_is_made_once_and_kept_for_its_owner(tmp_path: Path) -> None:
    first = account.ensure(tmp_path)
    assert account.ensure(tmp_path) == first
    assert can_log_in(first)
    assert stat.S_IMODE((tmp_path / account.PASSWORD_FILE).stat().st_mode) == 0o600


def test_a_lost_password_file_brings_a_new_password(tmp_path: Path) -> None:
    first = account.ensure(tmp_path)
    (tmp_path / account.PASSWORD_FILE).unlink()
    second = account.ensure(tmp_path)
    assert second != first
    assert can_log_in(second)


def test_a_password_that_someone_set_stays_and_is_not_shown(tmp_path: Path) -> None:
    account.ensure(tmp_path)
    admin = get_user_model().objects.get(username=account.USERNAME)
    admin.set_password("mine")
    admin.save()
    assert account.ensure(tmp_path).startswith("(the one you set")
    assert can_log_in("mine")


@pytest.mark.promise("A13")
def test_the_opening_is_written_once_and_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(opening, "WISHES", [*opening.WISHES, " "])  # one that is no message
        with pytest.raises(threads.InvalidMessage):
            opening.fill()
    assert not Order.objects.exists()
    assert opening.fill()
    assert not opening.fill()
    assert (Order.objects.count(), Thread.objects.count()) == (8, 7)
    assert (Run.objects.filter(kind="workflow").count(), Trigger.objects.count()) == (3, 2)


@pytest.fixture
def opened(run_worker: Callable[[], int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(studio.Client, "submit", lambda *args, **more: 1)
    opening.fill()
    run_worker()
    opening.settle()
    run_worker()


def test_the_opening_leaves_nine_requests_a_job_a_hook_a_refund_and_a_no(opened: None) -> None:
    assert Park.objects.pending().for_people().count() == 9
    assert Park.objects.pending().get(reason="hook").asked_by == "support_desk.ask_customer"
    assert Park.objects.pending().get(reason="job").asked_by == "studio"
    assert list(Refund.objects.values_list("order_id", flat=True)) == [12]
    no = Decision.objects.get(verb="rejected")
    assert (no.actor, no.reason, no.system) == (opening.COLLEAGUE, opening.NO, False)


def test_the_welcome_says_where_to_go_and_what_waits(opened: None) -> None:
    said = terminal.welcome(url="http://127.0.0.1:8000", password="open sesame", data="var")
    assert "http://127.0.0.1:8000/admin/hitl/park/" in said
    assert "admin / open sesame" in said
    for_you, jobs = said.split("Waiting for a job, which finishes by itself:")
    assert "Refund 249.00 € on order 17" in for_you
    assert "News from our shop (studio › mailer)" in for_you
    assert "Job for render" in jobs


def test_the_welcome_has_a_proposal_when_nothing_waits() -> None:
    said = terminal.welcome(url="http://127.0.0.1:8000", password="open sesame", data="var")
    assert "Nothing waits for you" in said


@pytest.mark.promise("U5")
def test_the_narrator_tells_what_happens_from_now_on(
    opened: None, run_worker: Callable[[], int]
) -> None:
    said: list[str] = []
    narrator = terminal.Narrator(said.append)
    narrator.look()
    assert said == []
    [request] = hitl.pending(Thread.objects.get(title=opening.WISHES[0]))
    hitl.decide(request.request_id, True, actor="ana\u202e")
    run_worker()
    narrator.look()
    told = [line.split("] ")[1] for line in said]
    assert told == ["approved by ana⟨U+202E⟩", "issue_refund: ok", told[2]]
    assert told[2].startswith("finished: The refund of 249.00 €")
    narrator.look()
    assert len(said) == 3


def test_a_taken_port_gives_the_next_that_is_free() -> None:
    with embedded.listen(0) as first:
        port = first.getsockname()[1]
        with embedded.listen(port) as second:
            assert second.getsockname()[1] > port
            assert second.getsockname()[0] == "127.0.0.1"


def test_the_demo_keeps_away_from_a_deployments_database(
    monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.DEMO = True
    monkeypatch.setenv("DATABASE_URL", "postgres://db/production")
    with pytest.raises(CommandError, match="unset DATABASE_URL"):
        call_command("demo")
    assert not get_user_model().objects.exists()


def test_the_demo_runs_as_the_demo_alone() -> None:
    with pytest.raises(CommandError, match="DEMO=1"):
        call_command("demo")
