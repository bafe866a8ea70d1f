"""A Celery app with the Redis options of the project alone; BROKER_URL says where Redis is."""

import os
from pathlib import Path

from celery import Celery

from project import broker

app = Celery("lone", broker=os.environ.get("BROKER_URL", "redis://127.0.0.1:1/0"))
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
