"""Files of lines that no rollback takes back: what tools did to the world, what people were told.

Each line is written in one piece (O_APPEND), whichever process writes; only whole lines are read.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hitl import clock

EFFECTS = "effects.jsonl"
"""What tools did, and how often models were asked in vain."""
JOURNAL = "journal.jsonl"
"""What the drivers tried, and what they were told."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """One such file; `lines` returns its entries of some kinds, oldest first."""

    path: Path

    def write(self, kind: str, **data: Any) -> None:
        entry = {"kind": kind, "at": clock.now().isoformat(), **data}
        handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(handle, json.dumps(entry).encode() + b"\n")
        finally:
            os.close(handle)

    def lines(self, *kinds: str) -> list[dict[str, Any]]:
        if not self.path.exists():
            return []
        whole = self.path.read_text().rpartition("\n")[0]
        entries = [json.loads(line) for line in whole.splitlines()]
        return [entry for entry in entries if entry["kind"] in kinds]


def effects() -> Ledger:
    """Return the file of this process's run; the environment says where."""
    return Ledger(Path(os.environ["CHAOS_FOLDER"]) / EFFECTS)


def journal() -> Ledger:
    """Return the file of this process's run; the environment says where."""
    return Ledger(Path(os.environ["CHAOS_FOLDER"]) / JOURNAL)
