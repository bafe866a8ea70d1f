"""One process under supervision: started, signalled in its parts, started again when it has ended.

Each lives in a session of its own, as under a process manager; its children are found by that.
"""

import os
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic

ROOT = Path(__file__).resolve().parents[2]
RESTART_SECONDS = 0.5
BY_ITSELF = "by itself, status {}"
STOP_SECONDS_MAX = 20
"""After that a process manager loses its patience with a process that was asked to stop."""


class Process:
    """A command that is kept running. `ends` counts why it ended, one word or two each."""

    def __init__(
        self, name: str, command: Sequence[str], *, environment: Mapping[str, str], folder: Path
    ) -> None:
        self.name = name
        self.ends: Counter[str] = Counter()
        self.sessions: list[int] = []
        self._command = list(command)
        self._environment = dict(environment)
        self._log = folder / f"{name}.log"
        self._mark = f"CHAOS_FOLDER={folder}"
        self._running: subprocess.Popen[bytes] | None = None
        self._expected = ""
        self._patience: float | None = None
        self._restart_at: float | None = None

    @property
    def pid(self) -> int | None:
        """The process's id, which is its session's too; None between two lives."""
        return self._running.pid if self._running is not None else None

    @property
    def is_running(self) -> bool:
        return self._running is not None and self._running.poll() is None

    def start(self) -> None:
        self._expected, self._patience, self._restart_at = "", None, None
        with self._log.open("ab") as output:
            self._running = subprocess.Popen(
                self._command,
                cwd=ROOT,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.sessions.append(self._running.pid)

    def tend(self) -> None:
        """Take note of an end, start again after a moment, and end what does not stop in time."""
        now = monotonic()
        if self._running is not None and self._running.poll() is not None:
            self.ends[self._expected or BY_ITSELF.format(self._running.returncode)] += 1
            self._running, self._restart_at = None, now + RESTART_SECONDS
        elif self._running is not None and self._patience is not None and now > self._patience:
            self._expected = "did not stop in time"
            self._signal_all(signal.SIGKILL)
        elif self._restart_at is not None and now >= self._restart_at:
            self.start()

    def kill(self) -> None:
        """End the process and all its children at once."""
        self._expected = self._expected or "killed"
        self._signal_all(signal.SIGKILL)

    def kill_parent(self) -> None:
        """End the process; its children learn of it by themselves."""
        self._expected = self._expected or "killed, not its children"
        self._signal(self.pid, signal.SIGKILL)

    def stop(self, how: signal.Signals) -> None:
        """Ask the process to stop, as a process manager does."""
        self._expected = self._expected or f"asked to, {how.name}"
        self._patience = self._patience or monotonic() + STOP_SECONDS_MAX
        self._signal(self.pid, how)

    def freeze(self) -> None:
        self._signal_all(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal_all(signal.SIGCONT)

    def child(self, number: int) -> int | None:
        """Return the id of one of the children; None when there is none just now."""
        found = sorted(set(self._members()) - {self.pid})
        return found[number % len(found)] if found else None

    def signal_child(self, child: int, which: signal.Signals) -> None:
        if child in self._members():
            self._signal(child, which)

    def end(self) -> None:
        """End every life of this process for good, orphaned children included."""
        self._restart_at = None
        for session in self.sessions:
            for member in _members_of(session, self._mark):
                self._signal(member, signal.SIGKILL)
        if self._running is not None:
            self._running.wait()
            self._running = None

    def _members(self) -> list[int]:
        return [] if self.pid is None else list(_members_of(self.pid, self._mark))

    def _signal_all(self, which: signal.Signals) -> None:
        for member in self._members():
            self._signal(member, which)

    def _signal(self, pid: int | None, which: signal.Signals) -> None:
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, which)


def _members_of(session: int, mark: str) -> Iterator[int]:
    """Yield the processes of a session that carry our mark: its number may be another's by now."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        with suppress(OSError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == session and mark in _environment_of(entry):
                yield int(entry.name)


def _environment_of(entry: Path) -> list[str]:
    return (entry / "environ").read_bytes().decode(errors="replace").split("\0")
