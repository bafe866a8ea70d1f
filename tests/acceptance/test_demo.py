"""`make demo CHECK=1`, as a stranger to the machine would run it: no server, no environment."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SECONDS_MAX = 240


@pytest.mark.timeout(SECONDS_MAX + 30)
@pytest.mark.promise(
    "L6", "A2", "A3", "A4", "A7", "E2", "E4", "E7", "J2", "J6", "N1", "N2", "P4", "S1"
)
def test_the_demo_proves_itself_unattended() -> None:
    done = subprocess.run(
        [sys.executable, "manage.py", "demo", "--check"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "The demo works." in done.stdout
    assert "✗" not in done.stdout
