"""Running `manage.py hitl` in this process or as a shell does, and judging what it prints."""

import io
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.core.management import call_command
from django.db import connection

from agents import requires_confirmation, tool
from hitl.models import Decision
from tests.desk import Desk

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/reference/command-line.md"
NASTY = (
    "\x1b[2J\x1b]0;owned\x07\x9b31m\r\u202ednuf\u2066\u200b\x7f"
    "</script>{{7*7}}[bold]\nFake  approved"
)


@dataclass(frozen=True)
class Ended:
    """How one command ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


def run(*words: str, command: str = "hitl") -> Ended:
    """Run `manage.py hitl …`, or another command, in this process, in the test's transaction."""
    out, err = io.StringIO(), io.StringIO()
    code = 0
    try:
        call_command(command, *words, stdout=out, stderr=err)
    except SystemExit as ended:
        code = int(ended.code or 0)
    return Ended(code, out.getvalue(), err.getvalue())


def shell(*words: str, command: str = "hitl", **environment: str) -> Ended:
    """Run it as a shell does, in a process of its own, on the test's database."""
    process = subprocess.run(
        [sys.executable, "manage.py", command, *words],
        cwd=ROOT,
        env={**os.environ, "SECRET_KEY": "x" * 50, "DATABASE_URL": database_url(), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    return Ended(process.returncode, process.stdout, process.stderr)


def database_url() -> str:
    at = connection.settings_dict
    if connection.vendor == "sqlite":
        return f"sqlite:///{at['NAME']}"
    return f"postgres://{at['USER']}:{at['PASSWORD']}@{at['HOST']}:{at['PORT']}/{at['NAME']}"


def request_id(desk: Desk) -> str:
    [request] = desk.pending
    return str(request.request_id)


def trail(park_id: str) -> list[tuple[str, str, str]]:
    rows = Decision.objects.filter(park_id=park_id).order_by("at", "id")
    return list(rows.values_list("verb", "actor", "channel"))


def raw_escapes(text: str) -> list[str]:
    """Return what a terminal or a reader would be misled by."""
    return re.findall(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]", text)


def nasty_tool() -> Any:
    @requires_confirmation(summary=lambda args: f"Send {args['text']}")
    @tool
    def shout(text: str) -> str:
        """Say it."""
        return text

    return shout
