"""The two health addresses, and what a web process loads."""

from collections.abc import Iterator

import pytest
from django.db import DatabaseError, connection
from django.test import Client

from benchmarks.start import DJANGO, SAYSO, start
from project import health

# Three times is usual, and ten with the model libraries.
START_TIMES_MAX = 5


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """Each test asks the database itself."""
    health._migrated.clear()
    yield
    health._migrated.clear()


@pytest.mark.django_db
def test_a_migrated_database_is_ready(client: Client) -> None:
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


@pytest.mark.django_db
def test_a_missing_migration_is_not_ready(client: Client) -> None:
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM django_migrations WHERE app = 'hitl'")
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()["database"]) == (503, "not migrated")


def test_a_silent_database_is_not_ready_and_its_address_stays_inside(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse() -> None:
        raise DatabaseError("could not connect to db.internal as sayso")

    monkeypatch.setattr(connection, "cursor", refuse)
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert b"db.internal" not in answer.content
    assert "db.internal" in caplog.text


def test_a_process_is_alive_without_its_database(client: Client) -> None:
    assert client.get("/healthz").json() == {"status": "ok"}


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_probes_take_no_writes(client: Client, path: str) -> None:
    assert client.post(path).status_code == 405


def test_the_front_page_leads_to_the_admin(client: Client) -> None:
    assert client.get("/").headers["Location"] == "/admin/"


def test_the_web_process_starts_soon_and_loads_no_model_library() -> None:
    """CPU time beside a bare Django started in turn, so that a slow machine is slow for both."""
    for _ in range(3):
        sayso, bare = start(SAYSO), start(DJANGO)
        assert (sayso["libraries"], sayso["warnings"]) == ([], "")
        times = sayso["cpu_s"] / bare["cpu_s"]
        if times < START_TIMES_MAX:
            break
    assert times < START_TIMES_MAX
