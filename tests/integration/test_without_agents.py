"""hitl alone, in a project that was made a moment ago from the how-to: no agents, no theme."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/how-to/approve-without-agents.md"
BLOCK = re.compile(r"^```python\n# (\S+\.py)\n(.*?)^```", re.MULTILINE | re.DOTALL)

SETTINGS = """
import os

SECRET_KEY = "of a project that lives for a minute, no longer"
ALLOWED_HOSTS = ["testserver"]
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "shop",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
ROOT_URLCONF = "site_.urls"
STATIC_URL = "static/"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "db.sqlite3"}}
"""
MODELS = """
from django.db import models


class Refund(models.Model):
    order = models.CharField(max_length=20)
    amount = models.FloatField()
    status = models.CharField(max_length=10, default="asked")
"""
MANAGE = """
import os
import sys

os.environ["DJANGO_SETTINGS_MODULE"] = "site_.settings"
from celery import Celery
from django.core.management import execute_from_command_line

Celery("shop", broker="memory://localhost/", set_as_current=True)
execute_from_command_line(sys.argv)
assert not any(name == "agents" or name.startswith("agents.") for name in sys.modules)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The project of the page: what it shows, and the little that every project has."""
    blocks = dict(BLOCK.findall(PAGE.read_text()))
    blocks["site/settings.py"] = SETTINGS + blocks["site/settings.py"]
    blocks |= {"manage.py": MANAGE, "shop/models.py": MODELS}
    blocks |= {f"{app}/__init__.py": "" for app in ("site", "shop")}
    for name, code in blocks.items():
        # `site` is a module of Python's own.
        path = tmp_path / name.replace("site/", "site_/")
        path.parent.mkdir(exist_ok=True)
        path.write_text(code)
    return tmp_path


def manage(project: Path, *words: str) -> str:
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG")}
    ended = subprocess.run(
        [sys.executable, "-W", "error", "manage.py", *words],
        cwd=project,
        env=kept | {"PYTHONPATH": str(ROOT), "HMAC_SECRET": "x7" * 20, "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout + ended.stderr


@pytest.mark.promise("I3", "I4", "C1", "C2", "L6", "L7")
def test_the_how_to_works_in_a_new_project_without_agents(project: Path) -> None:
    assert "no issues" in manage(project, "check")
    manage(project, "makemigrations", "shop")
    manage(project, "migrate", "-v0")
    assert "Ran 4 tests" in manage(project, "test")
    assert "Nothing is waiting." in manage(project, "hitl", "list")
