"""The Django app of the example office."""

from django.apps import AppConfig


class PurchasingConfig(AppConfig):
    """Has no agent: it asks through `hitl.approval`."""

    name = "examples.purchasing"
    verbose_name = "Office"
    default_auto_field = "django.db.models.BigAutoField"
