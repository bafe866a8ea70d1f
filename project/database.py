"""The database settings: one URL from the environment, and what SQLite and PostgreSQL each need."""

from pathlib import Path
from typing import Any

import dj_database_url

from project import environment

# Waiting for the one writer beats failing: SQLite has no queue of its own.
SQLITE_BUSY_SECONDS = 20
KEEP_SECONDS = 600
CONNECT_SECONDS = 5
PREPARE_AFTER = 5  # times that a connection sends a statement before it prepares it


def default(*, var: Path) -> dict[str, Any]:
    """Return `DATABASES["default"]` for `DATABASE_URL`, by default a SQLite file in `var`."""
    url = environment.text("DATABASE_URL")
    if not url:
        var.mkdir(parents=True, exist_ok=True)
        url = f"sqlite:///{var / 'sayso.sqlite3'}"
    settings: dict[str, Any] = dict(dj_database_url.parse(url))
    options = settings.setdefault("OPTIONS", {})
    if settings["ENGINE"] == "django.db.backends.sqlite3":
        # A deferred transaction that turns into a write fails at once when another wrote meanwhile;
        # an immediate one waits its turn.
        options["transaction_mode"] = "IMMEDIATE"
        options["timeout"] = SQLITE_BUSY_SECONDS
        options["init_command"] = "PRAGMA journal_mode=WAL;"
    else:
        settings["CONN_MAX_AGE"] = environment.number("CONN_MAX_AGE", KEEP_SECONDS)
        settings["CONN_HEALTH_CHECKS"] = True
        options.setdefault("connect_timeout", CONNECT_SECONDS)
        # Not behind a pooler that hands a connection on between two transactions: PREPARE=0.
        prepares = environment.flag("PREPARE", default=True)
        options.setdefault("prepare_threshold", PREPARE_AFTER if prepares else None)
    return settings
