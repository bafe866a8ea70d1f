"""The project's settings with the chaos app, and with short periods in place of half a minute."""

import os
from urllib.parse import urlsplit

from project.settings import *  # noqa: F403
from project.settings import AGENTS, HITL, INSTALLED_APPS
from tests.chaos.secrets import HMAC_SECRET, TRIGGERS

RECEIVER = urlsplit(os.environ.get("CHAOS_RECEIVER", "http://127.0.0.1:1")).netloc
INSTALLED_APPS = [app for app in INSTALLED_APPS if not app.startswith("examples.")]
INSTALLED_APPS += ["tests.chaos.app"]
HITL = HITL | {"SWEEP_EVERY": "1s", "BASE_URL": os.environ.get("CHAOS_WEB", "")}
HITL |= {
    "HMAC_SECRET": HMAC_SECRET,
    "CALLBACK_INTERNAL_HOSTS": [RECEIVER],
    "CALLBACK_TIMEOUT": "4s",
}
AGENTS = AGENTS | {
    "LEASE": "3s",
    "HINT_GRACE": "1s",
    "MODEL_BACKOFF": "500ms",
    "TRIGGER_SECRETS": {"chaos": TRIGGERS},
}
