"""The demo as a child process, known by what it prints. For the check alone."""

import queue
import re
import signal
import subprocess
import sys
import threading
from time import monotonic

from django.conf import settings

START_SECONDS_MAX = 40
STOP_SECONDS_MAX = 5
LINK = re.compile(r"Inbox\s+(http://\S+?)(/\S*)")
LOGIN = re.compile(r"Log in\s+(\S+) / (\S+)")


class NotStarted(RuntimeError):
    """The demo ended, or said nothing useful, before it served; what it printed follows."""


class Server:
    """One start of the demo; `url`, `inbox`, `username` and `password` are read off its output."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.printed: list[str] = []
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._process = subprocess.Popen(
            [sys.executable, "manage.py", "demo", "--port", "0"],
            cwd=settings.BASE_DIR,
            env=environment | {"PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        threading.Thread(target=self._read, daemon=True).start()
        self.url, self.inbox = self._wait_for(LINK)
        self.username, self.password = self._wait_for(LOGIN)

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """End it as a power cut would."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> int:
        """Press Ctrl-C and return its exit code; raises TimeoutExpired if it does not stop."""
        self._process.send_signal(signal.SIGINT)
        return self._process.wait(STOP_SECONDS_MAX)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.printed.append(line)
            self._lines.put(line)
        self._lines.put(None)

    def _wait_for(self, pattern: re.Pattern[str]) -> tuple[str, str]:
        began = monotonic()
        while (left := began + START_SECONDS_MAX - monotonic()) > 0:
            try:
                line = self._lines.get(timeout=left)
            except queue.Empty:
                break
            if line is None:
                break
            if found := pattern.search(line):
                return found[1], found[2]
        self.kill()
        raise NotStarted("".join(self.printed))
