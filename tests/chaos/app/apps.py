"""The app of a play. Its processes keep shorter pauses than anybody has a setting for."""

from datetime import timedelta

from django.apps import AppConfig


class ChaosConfig(AppConfig):
    """Installed by `tests/chaos/settings.py` alone, so that no other test is in such a hurry."""

    name = "tests.chaos.app"

    def ready(self) -> None:
        from agents.triggers import deliveries as events
        from hitl.callbacks import deliveries as callbacks

        callbacks.BACKOFF_FIRST = timedelta(milliseconds=500)
        callbacks.LEASE_MARGIN = timedelta(seconds=8)
        events.LOOK_AGAIN = timedelta(seconds=6)
