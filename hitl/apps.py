"""The Django app `hitl`: a durable question and its one answer."""

from django.apps import AppConfig


class HitlConfig(AppConfig):
    """Registers the system checks and the sweep."""

    name = "hitl"
    verbose_name = "Approvals"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from hitl import checks, startup, subjects, waiters  # noqa: F401  (importing registers the checks)
        from hitl.callbacks.subject import CallbackSubject
        from hitl.callbacks.waiter import KIND, CallbackWaiter

        waiters.register(CallbackWaiter())
        subjects.register(KIND, CallbackSubject())
        startup.connect()
