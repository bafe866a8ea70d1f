"""The tiers of the tests, and what each needs. A command: `python -m tests.tiers left|check|clean`.

Fast tests need nothing. Tests marked `services` need PostgreSQL, Redis or RabbitMQ, at the
addresses that the functions here return; tests marked `browser` need Chromium.
"""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psycopg

SECONDS_MAX = 5


def database_url() -> str:
    """Return the PostgreSQL that service tests may create databases in."""
    return os.environ.get("TEST_DATABASE_URL", "postgres://postgres@127.0.0.1:5432/sayso")


def redis_url() -> str:
    """Return a Redis database whose content service tests may destroy."""
    return os.environ.get("TEST_REDIS_URL", "redis://127.0.0.1:6379/9")


def amqp_url() -> str:
    """Return a RabbitMQ virtual host whose queues service tests may destroy."""
    return os.environ.get("TEST_AMQP_URL", "amqp://guest:guest@127.0.0.1:5672//")


def postgres() -> "psycopg.Connection":
    """Return an open connection to the server's maintenance database; each statement commits."""
    import dj_database_url
    import psycopg

    url = dj_database_url.parse(database_url())
    return psycopg.connect(
        host=url["HOST"],
        port=url["PORT"] or 5432,
        user=url["USER"],
        password=url["PASSWORD"],
        dbname="postgres",
        connect_timeout=SECONDS_MAX,
        autocommit=True,
    )


def check_postgres() -> None:
    postgres().close()


def check_redis() -> None:
    import redis

    redis.Redis.from_url(redis_url(), socket_connect_timeout=SECONDS_MAX).ping()


def check_rabbitmq() -> None:
    from kombu import Connection

    with Connection(amqp_url(), connect_timeout=SECONDS_MAX) as connection:
        connection.connect()


CHECKS: dict[str, Callable[[], None]] = {
    "PostgreSQL (TEST_DATABASE_URL)": check_postgres,
    "Redis (TEST_REDIS_URL)": check_redis,
    "RabbitMQ (TEST_AMQP_URL)": check_rabbitmq,
}


def check() -> int:
    """Try each service once; return 1 and name what is missing, so that nothing is skipped."""
    missing = 0
    for name, connect in CHECKS.items():
        try:
            connect()
        except Exception as error:
            missing = 1
            sys.stderr.write(f"missing  {name}: {type(error).__name__}: {error}\n")
        else:
            sys.stdout.write(f"answers  {name}\n")
    return missing


def clean() -> int:
    """Drop the databases named test_<name of `database_url()`>… and empty the Redis database."""
    import dj_database_url
    import redis
    from psycopg import sql

    name = dj_database_url.parse(database_url())["NAME"]
    with postgres() as connection:
        query = "SELECT datname FROM pg_database WHERE starts_with(datname, %s)"
        for (database,) in connection.execute(query, [f"test_{name}"]).fetchall():
            drop = sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(database))
            connection.execute(drop)
    redis.Redis.from_url(redis_url(), socket_connect_timeout=SECONDS_MAX).flushdb()
    return 0


def left() -> int:
    """Say which tests the fast tier did not run, by file."""
    for marker, command in (("services", "make test-services"), ("browser", "make test-browser")):
        command_line = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", marker]
        # The answer is in the output; "no such test" is an answer too (exit code 5).
        listed = subprocess.run(command_line, capture_output=True, text=True, check=False)
        files = Counter(line.split("::")[0] for line in listed.stdout.splitlines() if "::" in line)
        sys.stdout.write(f"Left to `{command}`: {files.total()} tests marked {marker}")
        sys.stdout.write("".join(f"\n  {count:4} {file}" for file, count in sorted(files.items())))
        sys.stdout.write("\n")
        if listed.returncode not in (0, 5):
            sys.stderr.write(listed.stdout + listed.stderr)
            return 1
    return 0


if __name__ == "__main__":
    commands = {"left": left, "check": check, "clean": clean}
    if len(sys.argv) != 2 or sys.argv[1] not in commands:
        sys.exit("usage: python -m tests.tiers left|check|clean")
    sys.exit(commands[sys.argv[1]]())
