"""The project's settings with the benchmarks' app in place of the example."""

from project.settings import *  # noqa: F403
from project.settings import INSTALLED_APPS

INSTALLED_APPS = [app for app in INSTALLED_APPS if not app.startswith("examples")]
INSTALLED_APPS.append("benchmarks.app")
