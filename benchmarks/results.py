"""Where a benchmark leaves what it found: JSON, the Markdown for the docs, and on what it ran."""

import json
import platform
import statistics
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

HOME = Path(__file__).resolve().parent / "results"
PAGE = HOME.parent.parent / "docs" / "explanation" / "performance.md"
PACKAGES = ("django", "celery", "kombu", "psycopg", "redis")


def machine(server: str) -> dict[str, Any]:
    """Say on what this ran: processors, memory, versions. `server` is the database's own word."""
    cpu = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    kilobytes = int(Path("/proc/meminfo").read_text().split()[1])
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )
    return {
        "at": datetime.now(UTC).isoformat(timespec="minutes"),
        "cpu": f"{cpu or 'unknown'}, {len(_cores())} cores",
        "memory_gb": round(kilobytes / 1e6),
        "python": platform.python_version(),
        "postgresql": server.split(" (")[0],
        **{name: version(name) for name in PACKAGES},
        "commit": commit.stdout.strip(),
    }


def _cores() -> set[int]:
    import os

    return os.sched_getaffinity(0)


def write(name: str, found: dict[str, Any], markdown: str, **texts: str) -> None:
    """Leave the result as `results/NAME.json` and `NAME.md`, each further text beside it."""
    HOME.mkdir(exist_ok=True)
    (HOME / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")
    page = f"{markdown}\n{ran_on(found['machine'])}\n"
    title = f"# What `make bench WHAT={name}` found last"
    (HOME / f"{name}.md").write_text(f"{title}\n\n{page}")
    for suffix, text in texts.items():
        (HOME / f"{name}-{suffix}.txt").write_text(text)
    sys.stdout.write(page)


def ran_on(machine: dict[str, Any]) -> str:
    """Say in a sentence when and on what something ran."""
    on = ", ".join(f"{key} {value}" for key, value in machine.items() if key != "at")
    return f"Ran at {machine['at']} on {on}."


def into_docs(name: str, text: str) -> None:
    """Put a text into the page about performance, between its two marks."""
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->\n"
    head, _, rest = PAGE.read_text().partition(begin)
    _, found, tail = rest.partition(end)
    assert found, f"{PAGE} has the marks of {name!r}"
    PAGE.write_text(f"{head}{begin}{text}{end}{tail}")


def table(head: list[str], rows: list[list[Any]]) -> str:
    """Return a Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join(["---"] * len(head)) + " |"]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def percentile(values: list[float], share: float) -> float:
    """Return the value below which this share (0 to 1) of them lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def median(values: list[float]) -> float:
    return statistics.median(values)


def say(text: str) -> None:
    """Tell how far it has come, on stderr."""
    now = datetime.now(UTC).strftime("%H:%M:%S")
    sys.stderr.write(f"{now} {text}\n")
    sys.stderr.flush()
