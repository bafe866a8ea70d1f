"""The processes of a run: the deployment under test, and the drivers that use it."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from hitl import signing
from tests.chaos import receiver
from tests.chaos.postgres import HOST
from tests.chaos.processes import ROOT, Process
from tests.chaos.secrets import HMAC_SECRET

PASSED_ON = ("PATH", "HOME", "LANG", "VIRTUAL_ENV", "TEST_AMQP_URL")
CELERY = (sys.executable, "-m", "celery", "-A", "project")
DRIVERS = {
    "author": "author",
    "verbs-1": "python",
    "verbs-2": "python",
    "browser": "admin",
    "terminal": "cli",
    "farm": "farm",
    "starter": "starter",
    "courier": "courier",
    "asker": "asker",
}
"""The name of each driver, and the channel through which it answers."""


def environment(
    *, database_url: str, broker_url: str, web_port: int, receiver_port: int, folder: Path
) -> dict[str, str]:
    """Return all that a process of the run is told."""
    return {name: os.environ[name] for name in PASSED_ON if name in os.environ} | {
        "DATABASE_URL": database_url,
        "BROKER_URL": broker_url,
        "DJANGO_SETTINGS_MODULE": "tests.chaos.settings",
        "SECRET_KEY": "only-for-tests",
        "LOG_STYLE": "json",
        "VAR_DIR": str(folder / "var"),
        "CHAOS_FOLDER": str(folder),
        "CHAOS_RECEIVER": f"http://{HOST}:{receiver_port}/decided",
        receiver.SECRET: signing.shared_form(signing.derive(HMAC_SECRET)),
        "CHAOS_WEB": f"http://{HOST}:{web_port}",
        # What the Dockerfile leaves to its 20 seconds.
        "SHUTDOWN_SECONDS": "3",
        # The checks load every page of the site, a quarter of a worker's start.
        "CELERY_SKIP_CHECKS": "1",
        "PYTHONPYCACHEPREFIX": str(ROOT / "var" / "pycache"),
    }


def deployment(told: Mapping[str, str], *, web_port: int, folder: Path) -> dict[str, Process]:
    """Return web, two workers for agents, one for deadlines, beat; and whom callbacks reach."""
    commands = {
        "web": [
            *(sys.executable, "-m", "uvicorn", "project.asgi:application"),
            *("--host", HOST, "--port", str(web_port), "--log-level", "warning"),
        ],
        "prefork": [*_worker("prefork"), "--queues", "agents", "--concurrency", "2"],
        "threads": [
            *(*_worker("threads"), "--queues", "agents"),
            *("--pool", "threads", "--concurrency", "4"),
        ],
        "deadlines": [*_worker("deadlines"), "--queues", "deadlines", "--concurrency", "1"],
        # A beat that was killed leaves its file behind, which Docker's restart would forget.
        "beat": [*CELERY, "beat", "--pidfile="],
        "receiver": [
            *(sys.executable, "-m", "tests.chaos.receiver"),
            str(urlsplit(told["CHAOS_RECEIVER"]).port),
        ],
    }
    return {
        name: Process(name, command, environment=told, folder=folder)
        for name, command in commands.items()
    }


def drivers(told: Mapping[str, str], *, seed: int, folder: Path) -> dict[str, Process]:
    return {
        name: Process(
            name,
            [sys.executable, "-m", "tests.chaos.driver", name, channel, str(seed)],
            environment=told,
            folder=folder,
        )
        for name, channel in DRIVERS.items()
    }


def _worker(name: str) -> list[str]:
    # Without gossip and mingle, which cost a second at each start and are not used.
    quiet = ("--without-gossip", "--without-mingle", "--without-heartbeat")
    return [*CELERY, "worker", "-n", f"{name}@chaos", *quiet]
