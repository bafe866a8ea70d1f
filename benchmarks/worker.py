"""The project's Celery app, saying "ready" on standard output once a worker consumes."""

import os
from typing import Any

from celery.signals import worker_ready

from project.celery import app

__all__ = ["app"]


@worker_ready.connect
def say_so(**_: Any) -> None:
    os.write(1, b"ready\n")
