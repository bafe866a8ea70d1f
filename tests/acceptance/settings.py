"""The project's settings with the test app, and with short periods in place of half a minute."""

import os

from project.settings import *  # noqa: F403
from project.settings import AGENTS, HITL, INSTALLED_APPS

INSTALLED_APPS = [app for app in INSTALLED_APPS if not app.startswith("examples.")]
INSTALLED_APPS += ["tests.acceptance.app"]
HITL = HITL | {
    "SWEEP_EVERY": os.environ.get("SWEEP_EVERY", "1s"),
    "HORIZON": os.environ.get("HORIZON", HITL["HORIZON"]),
}
AGENTS = AGENTS | {"LEASE": "3s", "HINT_GRACE": "1s", "ATTEMPTS_MAX": 2}
