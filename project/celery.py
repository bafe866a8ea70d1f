"""The Celery app. Wiring only: settings, found tasks, log fields, what a worker's process keeps.

Deployments stop a worker with SIGQUIT, or set REMAP_SIGTERM=SIGQUIT in its environment (the
Dockerfile does): running segments then have `SHUTDOWN_SECONDS` to reach their next boundary.
Celery's answer to a plain SIGTERM waits for them without a bound.
"""

import gc
import os
import select
import sys
from contextlib import suppress
from typing import Any

import structlog
from celery import Celery, signals
from django.db import connections

from project import broker

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")

app = Celery("sayso")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()

# Celery's fixup for Django would close the database connection around each task; connecting anew
# costs more than most segments do. `keep_connections` closes what is stale, as Django does.
app.conf.CELERY_DB_REUSE_MAX = sys.maxsize

# The tasks take ids only, so a task's first argument names what every line of its log is about.
FIELDS = {
    "agents.segment": "run_id",
    "agents.step": "entry_id",
    "agents.report": "run_id",
    "hitl.expire": "park_id",
    "hitl.deliver": "callback_id",
}


@signals.setup_logging.connect
def keep_logging(**_: Any) -> None:
    """Leave Django's LOGGING in place: with a receiver here, Celery sets up none of its own."""


@signals.worker_init.connect
def declare_queues(**_: Any) -> None:
    """Declare every queue before the worker consumes the one it was started for.

    On RabbitMQ a worker ties all queues to the delayed delivery, and calls it critical that one is
    missing which another worker has yet to declare. A broker that does not answer is left to the
    worker, which waits for it.
    """
    if not broker.is_rabbitmq(app.conf.broker_url):
        return
    with suppress(OSError), app.connection_for_write() as connection:
        connection.connect()
        channel = connection.channel()
        for queue in app.amqp.queues.values():
            queue.bind(channel).declare()


@signals.worker_before_create_process.connect
@signals.worker_ready.connect
def spare_what_stays(**_: Any) -> None:
    """Leave what the imports made out of garbage collections, here and in the process forked next.

    As `project/asgi.py` does; and the memory that both share stays shared.
    """
    gc.freeze()


@signals.task_prerun.connect
def keep_connections(**_: Any) -> None:
    """Go on with a connection that is alive; close one that is broken or past its age.

    A server that has hung up has said so, and only what it said costs Django's question whether it
    still answers: a round trip that would be one in eight of a segment that parks.
    """
    connection: Any
    for connection in connections.all(initialized_only=True):
        connection.close_if_unusable_or_obsolete()
        connection.health_check_done = is_silent(connection)


def is_silent(connection: Any) -> bool:
    """Tell whether the server has sent nothing since its last answer; idle, it has no reason to."""
    raw = connection.connection
    if raw is None or connection.vendor != "postgresql":
        return False
    waiting = select.poll()
    waiting.register(raw.fileno(), select.POLLIN)
    return not waiting.poll(0)


@signals.task_prerun.connect
def bind_task(*, task_id: str, task: Any, args: Any = (), **_: Any) -> None:
    """Put the task and the id it was given on every line that it logs."""
    structlog.contextvars.clear_contextvars()
    fields = {"task": task.name, "task_id": task_id}
    if task.name in FIELDS and args:
        fields[FIELDS[task.name]] = str(args[0])
    structlog.contextvars.bind_contextvars(**fields)


@signals.task_postrun.connect
def unbind_task(**_: Any) -> None:
    structlog.contextvars.clear_contextvars()
