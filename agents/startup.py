"""What a worker does at its edges: load the models, look for a dead one's runs, hand its own back.

Connected by `AgentsConfig.ready`; in a web process these signals never fire.
"""

from datetime import timedelta

from celery.signals import celeryd_init, worker_init, worker_ready, worker_shutting_down

from agents import agent, conf, segments
from agents.llm import models
from hitl import deadlines, hints

LAPSED_BY = timedelta(milliseconds=500)


def load_models(**_: object) -> None:
    """Load the model library in the worker's parent, so that its children share it."""
    wanted = {each.model or conf.default_model() for each in agent.every()}
    for model in wanted:
        if model is not None:
            models.preload(model)


def sweep_again(**_: object) -> None:
    """Ask for a sweep when the leases have lapsed that a worker killed just before may have held.

    The sweep of a worker that comes up is too early for these, and beat's may be half a minute off.
    """
    hints.send(deadlines.SWEEP, delay=conf.duration("LEASE") + LAPSED_BY)


def connect() -> None:
    """Listen to the signals; safe to call more than once."""
    celeryd_init.connect(segments.clear_shutdown, dispatch_uid="agents.clear_shutdown")
    worker_ready.connect(sweep_again, dispatch_uid="agents.sweep_again")
    worker_init.connect(load_models, dispatch_uid="agents.load_models")
    worker_init.connect(
        segments.announce_soft_shutdown, dispatch_uid="agents.announce_soft_shutdown"
    )
    worker_shutting_down.connect(
        segments.announce_shutdown, dispatch_uid="agents.announce_shutdown"
    )
