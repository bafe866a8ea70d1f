"""The Django app `agents`: runs agents, parks on hitl."""

from django.apps import AppConfig


class AgentsConfig(AppConfig):
    """Registers the waiter and the checks, and finds the agents of all installed apps."""

    name = "agents"
    verbose_name = "Agents"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from agents import (  # noqa: F401  (some register)
            agent,
            checks,
            doctor,
            startup,
            subject,
            waiter,
        )
        from hitl import subjects, waiters

        waiters.register(waiter.RunWaiter())
        subjects.register(waiter.RunWaiter.kind, subject.CallSubject())
        startup.connect()
        agent.autodiscover()
