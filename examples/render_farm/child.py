"""A farm as a child of this process, which ends with it however that ends."""

import subprocess
import sys
from pathlib import Path
from types import TracebackType

ROOT = Path(__file__).resolve().parents[2]
STOP_SECONDS_MAX = 2


class Child:
    """A running farm; `url` is where it listens. A context manager that ends it."""

    def __init__(self, *, seconds: float) -> None:
        options = ["--port", "0", "--child", "--seconds", str(seconds)]
        self._process = subprocess.Popen(  # noqa: S603  (our own module)
            [sys.executable, "-m", "examples.render_farm", *options],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # a Ctrl-C in the terminal is for the parent
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if " at http://" not in line:
            self.stop()
            raise RuntimeError("The render farm did not start.")
        self.url = line.split(" at ")[1].strip()

    def stop(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        try:
            self._process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> "Child":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
