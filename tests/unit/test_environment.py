"""The environment turned into settings: what is read, what is refused, what each broker gets."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from project import broker, database, environment, logs

ROOT = Path(__file__).resolve().parents[2]
WIRED = ("SECRET_KEY", "DEBUG", "DEMO", "DJANGO_SETTINGS_MODULE", "DATABASE_URL", "BROKER_URL")


def load_settings(tmp_path: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Load `project.settings` in a fresh process with these variables only."""
    kept = {name: value for name, value in os.environ.items() if name not in WIRED}
    return subprocess.run(
        [sys.executable, "-c", "import project.settings as s; print(s.SECRET_KEY)"],
        cwd=ROOT,
        env={**kept, "VAR_DIR": str(tmp_path), **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def test_production_without_a_key_does_not_start(tmp_path: Path) -> None:
    result = load_settings(tmp_path)
    assert result.returncode != 0
    assert "SECRET_KEY is not set" in result.stderr


@pytest.mark.parametrize("blank", ["", "  "])
def test_a_blank_key_is_no_key(blank: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_KEY", blank)
    with pytest.raises(ImproperlyConfigured):
        environment.secret_key(debug=False, demo=False, var=tmp_path)
    monkeypatch.setenv("SECRET_KEY", "given")
    assert environment.secret_key(debug=False, demo=False, var=tmp_path) == "given"


def test_the_demo_keeps_its_own_key_over_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SECRET_KEY")
    first = environment.secret_key(debug=False, demo=True, var=tmp_path)
    assert len(first) > 50
    assert environment.secret_key(debug=False, demo=True, var=tmp_path) == first
    assert stat.S_IMODE((tmp_path / "demo-secret-key").stat().st_mode) == 0o600


@pytest.mark.parametrize("value", ["maybe", "2", "tru"])
def test_an_unreadable_flag_is_refused_by_name(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS", value)
    with pytest.raises(ImproperlyConfigured, match="HTTPS"):
        environment.flag("HTTPS")


@pytest.mark.parametrize("value", ["-1", "1.5", "ten", "²"])
def test_an_unreadable_number_is_refused_by_name(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONN_MAX_AGE", value)
    with pytest.raises(ImproperlyConfigured, match="CONN_MAX_AGE"):
        environment.number("CONN_MAX_AGE", 600)


def test_lists_drop_blanks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALLOWED_HOSTS", " a.example , ,b.example,")
    assert environment.words("ALLOWED_HOSTS") == ["a.example", "b.example"]


def test_sqlite_waits_for_its_one_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DATABASE_URL", raising=False)
    settings = database.default(var=tmp_path / "new")
    assert settings["NAME"] == str(tmp_path / "new" / "sayso.sqlite3")
    assert settings["OPTIONS"]["transaction_mode"] == "IMMEDIATE"
    assert settings["OPTIONS"]["timeout"] == 20
    assert "journal_mode=WAL" in settings["OPTIONS"]["init_command"]


def test_postgres_keeps_connections_and_checks_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgres://user:pass%40word@db.example:5433/sayso")
    monkeypatch.delenv("CONN_MAX_AGE", raising=False)
    monkeypatch.delenv("PREPARE", raising=False)
    settings = database.default(var=tmp_path)
    assert settings["ENGINE"] == "django.db.backends.postgresql"
    assert (settings["PASSWORD"], settings["PORT"]) == ("pass@word", 5433)
    assert settings["CONN_MAX_AGE"] == 600
    assert settings["CONN_HEALTH_CHECKS"] is True
    assert settings["OPTIONS"]["prepare_threshold"] == 5


def test_behind_a_pooler_nothing_is_prepared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgres://user@db.example/sayso")
    monkeypatch.setenv("PREPARE", "0")
    assert database.default(var=tmp_path)["OPTIONS"]["prepare_threshold"] is None


@pytest.mark.promise("E3")
def test_rabbitmq_queues_hold_countdowns_themselves() -> None:
    for queue in broker.queues("amqp://guest@localhost//"):
        # Native delayed delivery needs quorum queues on topic exchanges.
        assert queue.queue_arguments["x-queue-type"] == "quorum"
        assert queue.exchange.type == "topic"


def test_expiries_never_queue_behind_segments() -> None:
    names = {queue.name for queue in broker.queues(broker.MEMORY)}
    assert names == {"agents", "deadlines"}
    assert broker.ROUTES["agents.*"]["queue"] != broker.ROUTES["hitl.*"]["queue"]


@pytest.mark.promise("A3")
def test_no_wait_on_redis_is_without_a_bound() -> None:
    options = broker.transport_options("rediss://redis.example:6380/0")
    assert 0 < options["socket_timeout"] <= 10
    assert 0 < options["socket_connect_timeout"] <= 10


def test_an_unknown_log_style_is_refused() -> None:
    with pytest.raises(ValueError, match="LOG_STYLE"):
        logs.config(style="xml", level="INFO")


@pytest.mark.promise("C4")
def test_callbacks_have_secrets_only_where_somebody_set_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The demo alone makes one, and keeps it."""
    monkeypatch.delenv("HMAC_SECRET", raising=False)
    assert environment.hmac_secrets(demo=False, var=tmp_path) == []
    [made] = environment.hmac_secrets(demo=True, var=tmp_path)
    assert environment.hmac_secrets(demo=True, var=tmp_path) == [made]
    assert len(made) >= 32
    monkeypatch.setenv("HMAC_SECRET", " new , old,")
    assert environment.hmac_secrets(demo=True, var=tmp_path) == ["new", "old"]


def test_secrets_of_triggers_are_known_by_the_end_of_their_variables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TRIGGER_SECRET_MAIL", "new, old")
    monkeypatch.setenv("TRIGGER_SECRET_EMPTY", "")
    monkeypatch.setenv("TRIGGER_SECRET_", "nameless")
    assert environment.named("TRIGGER_SECRET_") == {"mail": ["new", "old"], "empty": []}
