"""The Django app of the example shop."""

from django.apps import AppConfig


class SupportDeskConfig(AppConfig):
    """Its agent is found in `agents.py`."""

    name = "examples.support_desk"
    verbose_name = "Shop"
    default_auto_field = "django.db.models.BigAutoField"
