"""What a worker does with its database connection between two tasks."""

import psycopg
import pytest
from django.db import connection, connections
from django.test.utils import CaptureQueriesContext

from project.celery import keep_connections
from tests.integration import racing

pytestmark = [pytest.mark.services, pytest.mark.django_db(transaction=True)]


@pytest.fixture(autouse=True)
def _checked(monkeypatch: pytest.MonkeyPatch) -> None:
    racing.needs_postgresql()
    monkeypatch.setattr(connections["default"], "health_check_enabled", True)


def backend() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return int(cursor.fetchone()[0])


def test_a_task_goes_on_with_the_connection_and_asks_nothing_first() -> None:
    before = backend()
    with CaptureQueriesContext(connection) as captured:
        keep_connections()
        assert backend() == before
    assert len(captured) == 1


def test_a_task_gets_a_new_connection_when_the_server_has_hung_up() -> None:
    before = backend()
    params = connection.get_connection_params()
    with psycopg.connect(
        **{name: params[name] for name in ("dbname", "user", "host", "port") if name in params},
        autocommit=True,
    ) as other:
        other.execute("SELECT pg_terminate_backend(%s, 5000)", [before])
    keep_connections()
    assert backend() != before
