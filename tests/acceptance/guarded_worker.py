"""A Celery app with the project's Redis options and nothing else, for the tests of the guard.

The environment says where Redis is (BROKER_URL) and whether the guard is on (GUARD).
"""

import os
from pathlib import Path

from celery import Celery
from kombu.transport.redis import Channel, QoS

from project import broker, redis_guard

# Importing anything of the project installs the guard.
if os.environ.get("GUARD") == "0":
    Channel._connparams = redis_guard._original  # type: ignore[attr-defined]
    QoS.ack = redis_guard._ack_original  # type: ignore[method-assign]
    QoS.reject = redis_guard._reject_original  # type: ignore[method-assign]

app = Celery("guarded", broker=os.environ.get("BROKER_URL", "redis://127.0.0.1:1/0"))
app.conf.update(
    broker_transport_options=broker.transport_options("redis://"),
    broker_connection_max_retries=None,
    broker_connection_retry_on_startup=True,
    task_acks_late=True,
    task_ignore_result=True,
    worker_prefetch_multiplier=1,
)


@app.task(name="mark")
def mark(path: str) -> None:
    """Leave a sign that the worker ran it."""
    Path(path).touch()
