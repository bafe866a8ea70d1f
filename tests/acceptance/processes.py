"""The processes of a test: started, watched by their log, ended one way or another."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import pytest

ROOT = Path(__file__).resolve().parents[2]
SECONDS_MAX = 40
PAUSE_SECONDS = 0.03

T = TypeVar("T")


def wait_until(read: Callable[[], T], what: str, *, seconds: float = SECONDS_MAX) -> T:
    """Return what `read` returns as soon as that is true; fail the test after so many seconds."""
    give_up_at = time.monotonic() + seconds
    while not (found := read()):
        if time.monotonic() > give_up_at:
            pytest.fail(f"waited {seconds} s in vain: {what}")
        time.sleep(PAUSE_SECONDS)
    return found


class Process:
    """One process with its children in a session of its own, so that a kill reaches all of them."""

    def __init__(
        self, name: str, command: Sequence[str], *, environment: Mapping[str, str], log: Path
    ) -> None:
        self.name = name
        self.log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def wait_for(self, text: str) -> None:
        """Return once the process has written this text; fail the test if it ends before."""
        wait_until(
            lambda: text in self.output() or not self.is_alive, f"{self.name} writes {text!r}"
        )
        if text not in self.output():
            pytest.fail(f"{self.name} ended early:\n{self.output()[-4000:]}")

    def address_after(self, text: str) -> str:
        """Return the http address that the process writes after this text."""
        self.wait_for(text)
        found = re.search(re.escape(text) + r"(http://[\w.:]+)\s", self.output())
        assert found is not None, self.output()
        return found[1]

    def terminate(self) -> None:
        """Ask it to stop, as a process manager does, and return at once."""
        self._process.send_signal(signal.SIGTERM)

    def wait(self) -> int:
        """Return its exit status once it has ended by itself."""
        wait_until(lambda: not self.is_alive, f"{self.name} ends")
        return self._process.returncode

    def kill(self) -> None:
        """Kill it and its children at once, without a chance to clean up."""
        if self.is_alive:
            os.killpg(self.pid, signal.SIGKILL)
            self._process.wait()


def python(*arguments: str) -> list[str]:
    """Return a command of the interpreter that runs the tests."""
    return [sys.executable, *arguments]
