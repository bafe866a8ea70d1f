"""The web server, a worker and beat in one process, for one machine without any server.

The queue is this process's memory and is lost with it, so a start sends again whatever the rows
owe. All else is as in a deployment: the same tasks, the same sweep, the same site.
"""

import signal
import socket
import threading
from contextlib import suppress
from typing import Any

import uvicorn
from celery import beat, signals
from celery.worker import WorkController
from django.db import close_old_connections

from agents import backlog, runs
from project import broker
from project.celery import app

HOST = "127.0.0.1"
PORTS_TRIED = 100
THREADS = 4  # tasks at a time
BEAT_PAUSE_SECONDS_MAX = 1  # how long beat sleeps at a time
START_SECONDS_MAX = 30
WEB_STOP_SECONDS_MAX = 1
STOP_SECONDS_MAX = 3


class Worker(WorkController):
    """A Celery worker inside another program: it leaves the process's signals and logs alone."""

    def __init__(self) -> None:
        self.ready = threading.Event()
        super().__init__(
            app=app,
            pool_cls="threads",
            concurrency=THREADS,
            queues=[broker.AGENTS, broker.DEADLINES],
            without_gossip=True,
            without_mingle=True,
            without_heartbeat=True,
        )

    def on_consumer_ready(self, consumer: Any) -> None:
        """Tell whoever listens, the sweep among them, as Celery's own program does."""
        signals.worker_ready.send(sender=consumer)
        self.ready.set()


class Workers:
    """A worker and beat, each in a thread of this process."""

    def __init__(self) -> None:
        self._worker = Worker()
        # The schedule in memory: the sweep puts itself into it at each start.
        self._beat = beat.Service(
            app, max_interval=BEAT_PAUSE_SECONDS_MAX, scheduler_cls=beat.Scheduler
        )
        self._threads = [
            threading.Thread(target=self._worker.start, name="worker", daemon=True),
            threading.Thread(target=self._beat.start, name="beat", daemon=True),
        ]

    def start(self) -> None:
        """Start both and send again what the rows owe. Raises RuntimeError if the worker fails."""
        for thread in self._threads:
            thread.start()
        if not self._worker.ready.wait(START_SECONDS_MAX):
            raise RuntimeError("The worker did not start; the log says why.")
        for run_id in backlog.owing():
            runs.hurry(run_id)
        close_old_connections()

    def stop(self) -> bool:
        """Stop both within `STOP_SECONDS_MAX`; False if a task is still in hand after that.

        What is in hand may reach its next boundary and goes on from there at the next start.
        """
        signals.worker_shutting_down.send(sender="embedded", sig="SIGTERM", how="Warm", exitcode=0)
        self._beat.stop()
        # It waits for the tasks in hand, however long they take.
        stopping = threading.Thread(target=self._worker.stop, name="stop-worker", daemon=True)
        stopping.start()
        stopping.join(STOP_SECONDS_MAX)
        return not stopping.is_alive()


def listen(port: int) -> socket.socket:
    """Return a socket that listens on loopback: on this port, or on the next that is free.

    Port 0 means any free one. Raises OSError when none is free.
    """
    for candidate in range(port, min(port + PORTS_TRIED, 65536) if port else 1):
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with suppress(OSError):
            listening.bind((HOST, candidate))
            listening.listen()
            return listening
        listening.close()
    raise OSError(f"No port from {port} on is free.")


def serve(listening: socket.socket) -> None:
    """Serve the site until SIGINT or SIGTERM, which it passes on when it has closed."""
    config = uvicorn.Config(
        "project.asgi:application",
        lifespan="off",
        log_config=None,
        timeout_graceful_shutdown=WEB_STOP_SECONDS_MAX,
    )
    uvicorn.Server(config).run(sockets=[listening])


def interrupt_on_sigterm() -> None:
    """Make SIGTERM end the program as Ctrl-C does: by KeyboardInterrupt."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
