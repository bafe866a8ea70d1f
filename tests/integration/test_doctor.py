"""`manage.py hitl doctor`: what it finds on a deployment that is unwell, and what it says to do."""

import json
import socket
from collections.abc import Iterator
from datetime import timedelta
from time import monotonic
from typing import Any

import pytest
from celery import current_app
from django.core.checks import Error, Warning  # noqa: A004
from django.db import OperationalError, connection
from kombu import Connection

from agents import Agent
from agents import agent as register
from agents.models import Run
from agents.states import RunStatus
from agents.testing import call
from hitl import doctor, sweeping
from hitl.doctor import broker, database, examination
from hitl.doctor import setup as settings_checks
from hitl.models import Park, Pulse
from tests import tiers
from tests.console import PAGE, raw_escapes, run
from tests.desk import Desk

RANDOM_KEY = "kx9#2m$vq7!wz4&hj6^tr8*bn3(fd5)gs1_py0+lc"


@pytest.fixture
def agents_put_back() -> Iterator[None]:
    before = dict(register._agents)
    yield
    register._agents.clear()
    register._agents.update(before)


def found() -> dict[str, doctor.Finding]:
    return {finding.name: finding for finding in doctor.examine()}


def one(name: str) -> tuple[str, str]:
    finding = found()[name]
    return str(finding.status), finding.sentence


def diagnose(*words: str) -> tuple[int, str, str]:
    """Run the command and return its exit code, output and errors."""
    ended = run("doctor", *words)
    return ended.code, ended.out, ended.err


# ── The command ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("L1", "O2")
def test_a_deployment_that_is_well_ends_with_zero(db: None, settings: Any) -> None:
    settings.SECRET_KEY = RANDOM_KEY
    sweeping.sweep()
    code, out, err = diagnose()
    assert (code, err) == (0, "")
    assert "fail" not in out
    assert max(len(line) for line in out.splitlines()) <= 80
    code, out, _ = diagnose("--json")
    assert code == 0
    document = json.loads(out)
    assert (document["schema_version"], document["healthy"]) == (1, True)
    assert "error" not in document
    for check in document["checks"]:
        assert list(check) == ["name", "status", "sentence"]
        assert check["status"] in ("ok", "warn", "skip")
        assert check["sentence"].endswith(".")


@pytest.mark.promise("L1", "O2")
def test_one_failed_check_ends_with_one_and_is_named(db: None, settings: Any) -> None:
    settings.SECRET_KEY = "django-insecure-abc"
    code, out, err = diagnose()
    assert code == 1
    assert "fail  secret key" in out
    assert "secret key" in err
    code, out, err = diagnose("--json")
    assert (code, err) == (1, "")
    document = json.loads(out)
    assert (document["healthy"], document["error"]["code"]) == (False, "unhealthy")


@pytest.mark.promise("L1")
def test_the_page_lists_each_check(db: None) -> None:
    text = PAGE.read_text()
    assert [name for name in found() if f"| `{name}` |" not in text] == []


# ── The register ─────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examination, "_checks", {})


def test_a_check_that_breaks_has_failed_and_the_others_are_made(checks: None) -> None:
    @doctor.check("broken")
    def broken() -> doctor.Verdict:
        raise RuntimeError("no \x1b[2J such thing" + "x" * 1000)

    @doctor.check("well")
    def well() -> doctor.Verdict:
        return doctor.ok("Fine.")

    first, second = doctor.examine()
    assert first.status == "fail"
    assert "RuntimeError: no" in first.sentence
    assert len(first.sentence) <= examination.SENTENCE_CHARS_MAX
    assert (second.name, second.status, second.sentence) == ("well", "ok", "Fine.")
    assert raw_escapes(diagnose()[1]) == []


@pytest.mark.parametrize("verdict", [doctor.fail, doctor.skip])
def test_a_check_whose_need_is_unwell_is_skipped_all_the_way_down(
    checks: None, verdict: Any
) -> None:
    doctor.check("ground")(lambda: verdict("Gone."))
    doctor.check("house", needs=("ground",))(lambda: doctor.ok("Stands."))
    doctor.check("roof", needs=("house",))(lambda: doctor.ok("Dry."))
    _, house, roof = doctor.examine()
    assert (house.status, roof.status) == ("skip", "skip")
    assert "ground" in house.sentence
    assert "house" in roof.sentence


# ── Settings ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("O2")
def test_the_settings_check_is_manage_py_check(db: None, settings: Any) -> None:
    settings.HITL = {**settings.HITL, "TTL": "soon", "TLT": "4h"}
    status, sentence = one("settings")
    assert status == "fail"
    assert "Errors: 2" in sentence
    assert "hitl.E001" in sentence
    assert "hitl.E002" in sentence


@pytest.mark.promise("O2")
@pytest.mark.parametrize(
    ("messages", "status"),
    [([], "ok"), ([Warning("w", id="x.W1")], "warn"), ([Error("e", id="x.E1")], "fail")],
)
def test_warnings_warn_and_errors_fail(
    monkeypatch: pytest.MonkeyPatch, messages: Any, status: str
) -> None:
    monkeypatch.setattr(settings_checks.checks, "run_checks", lambda: messages)
    assert settings_checks.system_checks().status == status


@pytest.mark.promise("O2")
@pytest.mark.parametrize(
    ("key", "debug", "status"),
    [
        (RANDOM_KEY, False, "ok"),
        ("short-but-mine", False, "warn"),
        ("django-insecure-" + "x" * 50, False, "fail"),
        ("insecure-key-of-debug-mode-never-use-it-in-production", False, "fail"),
        ("ChangeMe" + "x" * 50, False, "fail"),
        ("django-insecure-" + "x" * 50, True, "skip"),
    ],
)
def test_a_sample_key_fails_outside_of_debug(
    settings: Any, key: str, debug: bool, status: str
) -> None:
    settings.SECRET_KEY, settings.DEBUG = key, debug
    verdict = settings_checks.secret_key()
    assert verdict.status == status
    assert key not in verdict.sentence


# ── Database ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("O2")
def test_without_a_database_the_checks_that_need_it_are_skipped(
    db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone() -> None:
        raise OperationalError("connection refused")

    with monkeypatch.context() as patched:
        patched.setattr(database.connection, "cursor", gone)
        findings = found()
    assert findings["database"].status == "fail"
    assert "connection refused" in findings["database"].sentence
    for name in ("database clock", "sweep", "overdue requests", "queued runs", "lapsed leases"):
        assert findings[name].status == "skip"
    assert findings["models"].status != "skip"


@pytest.mark.promise("O2")
def test_a_migration_that_is_not_applied_fails(db: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM django_migrations WHERE app = 'agents'")
    status, sentence = one("database")
    assert status == "fail"
    assert "agents.0001_initial" in sentence
    assert "manage.py migrate" in sentence


@pytest.mark.promise("O2")
@pytest.mark.parametrize(
    ("ahead", "status", "word"),
    [(0, "ok", "differ"), (10, "warn", "behind"), (-10, "warn", "ahead"), (45, "fail", "behind")],
)
def test_the_clocks_of_database_and_machine_are_compared(
    db: None, clock: Any, ahead: int, status: str, word: str
) -> None:
    clock.advance(seconds=ahead)  # this machine's; the database keeps its own
    verdict = database.database_clock()
    assert verdict.status == status
    assert word in verdict.sentence


@pytest.mark.promise("O2")
def test_a_skew_is_judged_at_two_and_at_thirty_seconds() -> None:
    def judged(**by: float) -> str:
        return str(database.judge_skew(timedelta(**by)).status)

    assert [judged(seconds=s) for s in (-1.9, 0, 1.9)] == ["ok"] * 3
    assert [judged(seconds=s) for s in (-29.9, -2, 2, 29.9)] == ["warn"] * 4
    assert [judged(seconds=s) for s in (-30, 30, 90_000)] == ["fail"] * 3


# ── The sweep and what it leaves ─────────────────────────────────────────────────────────────────


@pytest.mark.promise("O3")
def test_a_sweep_that_never_came_warns_and_one_that_stays_away_fails(db: None, clock: Any) -> None:
    status, sentence = one("sweep")
    assert (status, "beat or the worker is not running" in sentence) == ("warn", True)
    sweeping.sweep()
    assert one("sweep")[0] == "ok"
    clock.advance(seconds=89)
    assert one("sweep")[0] == "ok"
    clock.advance(seconds=5)
    status, sentence = one("sweep")
    assert status == "fail"
    assert "1m 34s ago" in sentence
    assert Pulse.objects.count() == 1


@pytest.mark.promise("O3")
def test_a_sweep_by_hand_does_not_hide_that_beat_is_dead(db: None, clock: Any) -> None:
    sweeping.sweep()
    clock.advance(minutes=5)
    assert run("sweep").code == 0
    assert one("sweep")[0] == "fail"


@pytest.mark.promise("O3")
def test_a_request_that_nobody_closed_fails_after_a_minute(desk: Desk, clock: Any) -> None:
    desk.open([call("send", to="ana"), call("wipe")])
    clock.advance(minutes=15, seconds=59)
    assert one("overdue requests")[0] == "ok"
    clock.advance(seconds=2)
    status, sentence = one("overdue requests")
    assert status == "fail"
    assert ": 2." in sentence
    sweeping.sweep()
    assert one("overdue requests")[0] == "ok"
    assert Park.objects.pending().count() == 0


@pytest.mark.promise("O3", "I12")
def test_a_trail_that_nobody_seals_is_warned_of(desk: Desk, clock: Any) -> None:
    desk.open([call("send", to="ana")])
    assert one("audit trail")[0] == "ok"
    clock.advance(minutes=11)
    assert one("audit trail")[0] == "warn"
    sweeping.sweep()
    assert one("audit trail")[0] == "ok"


@pytest.mark.promise("O3")
def test_runs_that_wait_for_a_worker_are_a_backlog(desk: Desk, clock: Any) -> None:
    desk.open("Done")
    Run.objects.update(status=RunStatus.QUEUED)
    assert one("queued runs")[0] == "ok"
    clock.advance(seconds=61)
    status, sentence = one("queued runs")
    assert status == "warn"
    assert "over a minute: 1, the longest for 1m" in sentence
    clock.advance(minutes=10)
    assert one("queued runs")[0] == "fail"


@pytest.mark.promise("O3")
def test_a_run_that_lost_its_worker_fails_after_a_minute(desk: Desk, clock: Any) -> None:
    desk.open("Done")
    Run.objects.update(status=RunStatus.RUNNING, lease_until=clock.now())
    assert one("lapsed leases")[0] == "ok"
    clock.advance(seconds=61)
    status, sentence = one("lapsed leases")
    assert (status, ": 1." in sentence) == ("fail", True)


@pytest.mark.promise("O2")
def test_an_agent_without_any_model_is_named(
    db: None, settings: Any, agents_put_back: None
) -> None:
    settings.AGENTS = {**settings.AGENTS, "DEFAULT_MODEL": None}
    register._agents.clear()
    assert one("models")[0] == "ok"
    Agent("orphan")
    status, sentence = one("models")
    assert (status, "orphan" in sentence) == ("warn", True)
    settings.AGENTS = {**settings.AGENTS, "DEFAULT_MODEL": "scripted:x"}
    assert one("models")[0] == "ok"


# ── Broker and workers ───────────────────────────────────────────────────────────────────────────


@pytest.fixture
def broker_at(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let Celery's app, in this process, talk to another broker."""

    def use(url: str, **options: Any) -> None:
        def connect(*_: Any, **__: Any) -> Connection:
            return Connection(url, connect_timeout=3, transport_options=options)

        monkeypatch.setattr(current_app, "connection_for_write", connect)

    return use


@pytest.mark.promise("O2")
def test_the_in_memory_broker_is_skipped_with_a_reason(db: None) -> None:
    findings = found()
    assert [findings[name].status for name in ("broker", "queues", "workers")] == ["skip"] * 3
    assert "one process" in findings["broker"].sentence


@pytest.mark.promise("O2", "O3")
@pytest.mark.parametrize("scheme", ["redis", "amqp"])
def test_a_broker_that_refuses_fails_and_its_password_is_not_shown(
    db: None, broker_at: Any, scheme: str
) -> None:
    broker_at(f"{scheme}://user:sekret@127.0.0.1:1//")
    findings = found()
    assert findings["broker"].status == "fail"
    assert "127.0.0.1:1" in findings["broker"].sentence
    assert "sekret" not in findings["broker"].sentence
    assert [findings[name].status for name in ("queues", "workers")] == ["skip"] * 2


@pytest.mark.promise("O2", "O3")
@pytest.mark.parametrize("scheme", ["redis", "amqp"])
def test_a_broker_that_takes_the_connection_and_says_nothing_is_given_up(
    broker_at: Any, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    monkeypatch.setattr(broker, "CONNECT_SECONDS_MAX", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        broker_at(f"{scheme}://127.0.0.1:{silent.getsockname()[1]}//")
        began = monotonic()
        verdict = broker.broker()
        assert monotonic() - began < 3
    assert verdict.status == "fail"
    assert "0.5 s" in verdict.sentence


@pytest.mark.promise("O3")
def test_no_worker_or_a_queue_without_one_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers: list[dict[str, Any]] = []
    taken: dict[str, Any] = {}

    class Inspect:
        def active_queues(self) -> dict[str, Any]:
            return taken

    monkeypatch.setattr(current_app.control, "ping", lambda **_: answers)
    monkeypatch.setattr(current_app.control, "inspect", lambda **_: Inspect())
    assert broker.workers().status == "fail"
    answers.append({"w1@here": {"ok": "pong"}})
    taken["w1@here"] = [{"name": "agents"}]
    verdict = broker.workers()
    assert verdict.status == "fail"
    assert "-Q deadlines" in verdict.sentence
    taken["w2@here"] = [{"name": "deadlines"}]
    verdict = broker.workers()
    assert (verdict.status, "w1@here" in verdict.sentence) == ("ok", True)


def test_what_a_bounded_call_raises_is_raised_and_what_it_returns_is_returned() -> None:
    assert broker.within(5, lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        broker.within(5, lambda: 1 / 0)


@pytest.mark.services
@pytest.mark.promise("O2")
def test_redis_and_rabbitmq_answer(broker_at: Any) -> None:
    for url in (tiers.redis_url(), tiers.amqp_url()):
        broker_at(url)
        verdict = broker.broker()
        assert verdict.status == "ok", verdict.sentence


@pytest.mark.services
@pytest.mark.promise("O2")
def test_quorum_queues_and_delayed_delivery_are_looked_for_and_not_declared(
    broker_at: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker, "QUORUM", current_app.conf.task_default_queue_type)
    queue, exchange = "doctor-test", "doctor-test-delayed"
    monkeypatch.setattr(broker, "DELAYED_EXCHANGE", exchange)
    monkeypatch.setattr(broker, "queue_names", lambda: [queue])
    broker_at(tiers.amqp_url())
    with Connection(tiers.amqp_url()) as rabbit:
        channel: Any = rabbit.channel()
        channel.queue_delete(queue)
        channel.exchange_delete(exchange)
        try:
            for _ in range(2):  # looking has made nothing
                verdict = broker.queues()
                assert verdict.status == "warn"
                assert f"queue {queue}, exchange {exchange}" in verdict.sentence
            channel.exchange_declare(exchange, type="topic")
            channel.queue_declare(queue)
            verdict = broker.queues()
            assert verdict.status == "ok", verdict.sentence
        finally:
            channel.queue_delete(queue)
            channel.exchange_delete(exchange)
