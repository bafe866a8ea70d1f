"""The Django app of the studio."""

from django.apps import AppConfig


class RenderFarmConfig(AppConfig):
    """Its agents are found in `agents.py`."""

    name = "examples.render_farm"
    verbose_name = "Studio"
