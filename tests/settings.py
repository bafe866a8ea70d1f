"""The project's settings as the tests run them: no environment needed, `DATABASE_URL` may be set.

Service tests start real workers and web processes with `project.settings` and an environment of
their own.
"""

import os

os.environ.setdefault("SECRET_KEY", "only-for-tests")
os.environ.setdefault("HMAC_SECRET", "k8sN2vXq-of-the-tests-and-of-nothing-else")
os.environ.setdefault("LOG_LEVEL", "WARNING")

from project.settings import *  # noqa: F403
from project.settings import DATABASES, VAR

# Quick to compute, which no password of a real person may be.
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    # A file, since threads that share an in-memory database meet locks that no real one has;
    # without waiting for the disk, since no test pulls the plug.
    VAR.mkdir(parents=True, exist_ok=True)
    DATABASES["default"]["TEST"] = {"NAME": str(VAR / f"test-{os.getpid()}.sqlite3")}
    DATABASES["default"]["OPTIONS"]["init_command"] += "PRAGMA synchronous=OFF;"
