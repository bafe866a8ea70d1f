"""A station: a database, a broker, and the processes that share both."""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import dj_database_url
import pytest
from psycopg import sql

from tests import tiers
from tests.acceptance.brokers import Broker
from tests.acceptance.processes import ROOT, Process, python, wait_until

PASSED_ON = ("PATH", "HOME", "LANG", "VIRTUAL_ENV")
# Nothing that a test does not need: gossip and mingle cost a second at each start.
QUIET = ("--without-gossip", "--without-mingle", "--without-heartbeat")


def database_name(slot: int, part: str) -> str:
    """Return the name of a database of this test run, which `tiers.clean` drops too."""
    name = dj_database_url.parse(tiers.database_url())["NAME"]
    return f"test_{name}_acceptance_{slot}_{part}"


def drop_database(name: str) -> None:
    with tiers.postgres() as connection:
        connection.execute(
            sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
        )


def create_database(name: str, *, template: str | None = None) -> None:
    drop_database(name)
    with tiers.postgres() as connection:
        connection.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(
                sql.Identifier(name), sql.Identifier(template or "template1")
            )
        )


def environment_of(database: str, broker_url: str, folder: Path) -> dict[str, str]:
    """Return all that a process of the project is told."""
    url = urlsplit(tiers.database_url())
    return {name: os.environ[name] for name in PASSED_ON if name in os.environ} | {
        "DATABASE_URL": urlunsplit(url._replace(path="/" + database)),
        "BROKER_URL": broker_url,
        "DJANGO_SETTINGS_MODULE": "tests.acceptance.settings",
        "SECRET_KEY": "only-for-tests",
        "LOG_STYLE": "json",
        "VAR_DIR": str(folder / "var"),
        "EFFECTS_FILE": str(folder / "effects.jsonl"),
        # The checks load every page of the site, a quarter of a worker's start.
        "CELERY_SKIP_CHECKS": "1",
        # Compiled once for all the processes, whatever the shell says about it.
        "PYTHONPYCACHEPREFIX": str(ROOT / "var" / "pycache"),
    }


class Caller:
    """Calls `verbs.py` in a process of its own: `caller("status", thread=…)`."""

    def __init__(self, environment: Mapping[str, str], log: Path) -> None:
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                python("-m", "tests.acceptance.caller"),
                cwd=ROOT,
                env=dict(environment),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self._log = log

    def __call__(self, verb: str, **arguments: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([verb, arguments]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            pytest.fail(f"the caller ended:\n{self._log.read_text()[-4000:]}")
        return json.loads(line)

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


class Station:
    """Starts workers, beat and callers, and remembers them; reads the effects of the tools."""

    def __init__(self, broker: Broker, folder: Path, *, database: str, template: str) -> None:
        self.broker = broker
        self.folder = folder
        self.database = database
        create_database(database, template=template)
        broker.create()
        self.environment = environment_of(database, broker.url, folder)
        self.call = self.caller()
        self._processes: list[Process] = []
        self._standing: Process | None = None

    # ── Processes ────────────────────────────────────────────────────────────────────────────────

    def caller(self, **environment: str) -> Caller:
        """Start a process that calls the public verbs."""
        log = self.folder / f"caller-{len(list(self.folder.glob('caller-*')))}.log"
        return Caller(self.environment | environment, log)

    def worker(self, name: str, *options: str, ready: bool = True, **environment: str) -> Process:
        """Start a worker on both queues, and by default wait until it is ready."""
        command = [*python("-m", "celery"), "-A", "project", "worker", "-n", f"{name}@test"]
        command += ["--queues", "agents,deadlines", *QUIET, *(options or ("--concurrency", "2"))]
        started = self._start(name, command, environment)
        if ready:
            started.wait_for(f"{name}@test ready.")
        return started

    def beat(self, **environment: str) -> Process:
        """Start beat with the project's scheduler, and wait until it runs."""
        pidfile = self.folder / "beat.pid"
        pidfile.unlink(missing_ok=True)
        command = [*python("-m", "celery"), "-A", "project", "beat", "--pidfile", str(pidfile)]
        started = self._start("beat", command, environment)
        started.wait_for("beat: Starting...")
        return started

    def site(self) -> str:
        """Start the web server on any free port, and return its address."""
        command = [*python("-m", "uvicorn"), "project.asgi:application", "--lifespan", "off"]
        started = self._start("site", [*command, "--host", "127.0.0.1", "--port", "0"], {})
        return started.address_after("Uvicorn running on ")

    def farm(self) -> str:
        """Start the example's render farm, and return its address; its jobs end when told to."""
        command = python("-m", "examples.render_farm", "--port", "0", "--seconds", "3600")
        return self._start("farm", command, {}).address_after("The farm listens at ")

    def standing_worker(self) -> Process:
        """Return the worker that tests share, started when it is not there."""
        if self._standing is None or not self._standing.is_alive:
            self._standing = self.worker("standing")
        return self._standing

    def clear(self) -> None:
        """Kill every worker and beat, and forget their messages."""
        for one in self._processes:
            one.kill()
        self._processes.clear()
        self.broker.flush()

    def close(self) -> None:
        self.clear()
        self.call.close()
        self.broker.drop()
        drop_database(self.database)

    def _start(self, name: str, command: list[str], environment: dict[str, str]) -> Process:
        log = self.folder / f"{len(list(self.folder.glob('*.log')))}-{name}.log"
        started = Process(name, command, environment=self.environment | environment, log=log)
        self._processes.append(started)
        return started

    # ── What the tools did, and what the rows say ────────────────────────────────────────────────

    def effects(self, reference: str) -> list[str]:
        """Return what the tools of this reference did, in order."""
        return [line["effect"] for line in self._effect_lines(reference)]

    def sessions(self, reference: str, effect: str) -> set[int]:
        """Return the pids of the workers in which, or in whose children, this effect happened."""
        lines = self._effect_lines(reference)
        return {line["session"] for line in lines if line["effect"] == effect}

    def release(self, reference: str) -> None:
        """Let the tools of this reference that hold go on."""
        (self.folder / f"release-{reference}").touch()

    def wait_for_effect(self, reference: str, effect: str) -> None:
        wait_until(lambda: effect in self.effects(reference), f"{reference} does {effect!r}")

    def job_of(self, reference: str) -> int:
        """Return the number of the job that this reference has begun, once it has."""

        def begun() -> list[str]:
            return [one for one in self.effects(reference) if one.startswith("job ")]

        [job] = wait_until(begun, f"{reference} begins a job")
        return int(job.removeprefix("job "))

    def wait_for_status(self, thread: str, *wanted: str) -> str:
        """Return the thread's status as soon as it is one of these."""
        seen: list[str] = []

        def reached() -> str | None:
            seen.append(self.call("status", thread=thread))
            return seen[-1] if seen[-1] in wanted else None

        return wait_until(reached, f"a thread becomes {wanted}") or seen[-1]

    def started(self, agent: str, reference: str, *, until: str = "WAITING_FOR_INPUT") -> str:
        """Start a thread and return its id once it has that status."""
        thread: str = self.call("start", agent=agent, message=reference)
        self.wait_for_status(thread, until)
        return thread

    def answer(self, thread: str, approved: bool = True, **more: Any) -> dict[str, Any]:
        """Answer the one open request of a thread."""
        [request] = self.call("pending", thread=thread)
        answer: dict[str, Any] = self.call(
            "respond",
            thread=thread,
            tool_call_id=request["tool_call_id"],
            approved=approved,
            **more,
        )
        return answer

    def connections(self) -> int:
        """Return how many connections to the database there are, this one not counted."""
        with tiers.postgres() as connection:
            [count] = connection.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = %s", [self.database]
            ).fetchone() or [0]
        return int(count)

    def _effect_lines(self, reference: str) -> list[dict[str, Any]]:
        file = self.folder / "effects.jsonl"
        lines = file.read_text().splitlines() if file.exists() else []
        found = [json.loads(line) for line in lines]
        return [line for line in found if line["reference"] == reference]
