"""What starts by itself: the sweep's schedule in beat, and one sweep when a worker comes up.

Connected by `HitlConfig.ready`, so a project that adds the app has the sweep without writing a
schedule (E4). In a web process the signals never fire.
"""

from typing import Any

from celery.signals import beat_init, worker_ready
from django.db import connections

from hitl import conf, deadlines, hints

SCHEDULE_NAME = "hitl-sweep"


def schedule_sweep(sender: Any, **_: object) -> None:
    """Put the sweep into the schedule of a beat that starts, whatever scheduler it uses."""
    entry = {"task": deadlines.SWEEP, "schedule": conf.sweep_every()}
    sender.scheduler.update_from_dict({SCHEDULE_NAME: entry})


def sweep_now(**_: object) -> None:
    """Ask for a sweep: whatever fell due while no worker ran is settled at once."""
    hints.send(deadlines.SWEEP)
    # This is the worker's parent, which never needs the database again.
    connections.close_all()


def connect() -> None:
    """Listen to the two signals; safe to call more than once."""
    beat_init.connect(schedule_sweep, dispatch_uid="hitl.startup.schedule_sweep")
    worker_ready.connect(sweep_now, dispatch_uid="hitl.startup.sweep_now")
