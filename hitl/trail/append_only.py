"""Lifting what keeps the trail append-only, for those who empty a whole database: tests, `flush`.

The guards are triggers (`migrations/0002_audit_append_only.py`; other apps have some of the kind).
Nothing in production lifts them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection as default_connection


@contextmanager
def lifted(connection: Any = default_connection) -> Iterator[None]:
    """Let rows of the trail be changed and deleted while the block runs."""
    if connection.vendor == "postgresql":
        yield from _disabled(connection)
    else:
        yield from _dropped(connection)


def _disabled(connection: Any) -> Iterator[None]:
    _set(connection, "DISABLE")
    try:
        yield
    finally:
        _set(connection, "ENABLE")


def _set(connection: Any, word: str) -> None:
    # A table is not altered while checks on its rows wait for the end of the transaction.
    _execute(connection, "SET CONSTRAINTS ALL IMMEDIATE")
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT DISTINCT tgrelid::regclass::text FROM pg_trigger "
            "WHERE tgfoid = 'hitl_append_only'::regproc"
        )
        tables = [name for (name,) in cursor.fetchall()]
    for table in tables:
        _execute(connection, f"ALTER TABLE {table} {word} TRIGGER USER")


def _dropped(connection: Any) -> Iterator[None]:
    """SQLite cannot disable a trigger, so they go and come back as they were written."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND sql LIKE %s",
            ["% is append-only%"],
        )
        triggers = cursor.fetchall()
    for name, _ in triggers:
        _execute(connection, f"DROP TRIGGER {name}")
    try:
        yield
    finally:
        for _, sql in triggers:
            _execute(connection, sql)


def _execute(connection: Any, sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)
