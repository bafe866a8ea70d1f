"""A PostgreSQL server of the run's own, in a folder of its own, so that it may crash."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import psycopg

DATABASE = "chaos"
HOST = "127.0.0.1"
ACCOUNT = "postgres"
START_SECONDS_MAX = 60
# The disk is not waited for: nobody pulls the plug, and what the kernel has taken stays.
OPTIONS = {"fsync": "off", "max_connections": "80", "unix_socket_directories": ""}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


class Postgres:
    """Started by `start`, removed by `remove`. `url` is where its one database is."""

    def __init__(self, log: Path) -> None:
        self.port = free_port()
        self.url = f"postgres://{ACCOUNT}@{HOST}:{self.port}/{DATABASE}"
        self._log = log
        self._folder = Path(tempfile.mkdtemp(prefix="sayso-chaos-"))
        self._running: subprocess.Popen[bytes] | None = None
        # The server refuses to run as root.
        self._as: dict[str, Any] = {}
        if os.geteuid() == 0:
            self._as = {"user": ACCOUNT, "group": ACCOUNT, "extra_groups": []}
            shutil.chown(self._folder, ACCOUNT, ACCOUNT)

    def create(self) -> None:
        """Make the server's files, start it, and create the database."""
        options = ["-D", str(self._data), "-U", ACCOUNT, "--auth", "trust", "--no-sync"]
        self._run([_program("initdb"), *options])
        self.start()
        with self._connection(ACCOUNT) as connection:
            connection.execute(f"CREATE DATABASE {DATABASE}")

    def start(self) -> None:
        """Start the server and return once it answers."""
        options = [f"-c{name}={value}" for name, value in OPTIONS.items()]
        command = [_program("postgres"), "-D", str(self._data), "-p", str(self.port), *options]
        with self._log.open("ab") as log:
            self._running = subprocess.Popen(
                command, cwd=self._folder, stdout=log, stderr=log, **self._as
            )
        give_up = monotonic() + START_SECONDS_MAX
        while True:
            try:
                self._connection(ACCOUNT).close()
                return
            except psycopg.OperationalError:
                if monotonic() > give_up or self._running.poll() is not None:
                    raise
                sleep(0.05)

    def restart(self) -> None:
        """Restart as an operator does: every connection is closed, then the server starts anew."""
        self._halt(signal.SIGINT)
        self.start()

    def crash(self) -> None:
        """End the server without a checkpoint; it recovers from its log as it starts."""
        self._halt(signal.SIGQUIT)
        self.start()

    def cut(self) -> int:
        """End every connection to the database; returns how many there were."""
        with suppress(psycopg.OperationalError), self._connection(ACCOUNT) as connection:
            found = connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s",
                [DATABASE],
            )
            return len(found.fetchall())
        return 0

    def remove(self) -> None:
        if self._running is not None and self._running.poll() is None:
            self._halt(signal.SIGQUIT)
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    def _halt(self, how: signal.Signals) -> None:
        assert self._running is not None, "the server was started"
        self._running.send_signal(how)
        self._running.wait(START_SECONDS_MAX)

    def _connection(self, database: str) -> psycopg.Connection:
        return psycopg.connect(
            host=HOST,
            port=self.port,
            user=ACCOUNT,
            dbname=database,
            connect_timeout=5,
            autocommit=True,
        )

    def _run(self, command: list[str]) -> None:
        with self._log.open("ab") as log:
            subprocess.run(
                command, cwd=self._folder, stdout=log, stderr=log, check=True, **self._as
            )


def _program(name: str) -> str:
    """Return the path of a program of the server, which Debian keeps off the PATH."""
    found = shutil.which(name) or max(
        map(str, Path("/usr/lib/postgresql").glob(f"*/bin/{name}")), default=""
    )
    if not found:
        raise FileNotFoundError(f"{name} is not installed; chaos runs a PostgreSQL of its own")
    return found
