"""The JSON that `workflows --json` and `agents --json` print: plain data in ASCII. Reads only.

Scripts rely on these shapes; `docs/reference/command-line.md` shows them. A field may be added at
any time.
"""

from datetime import datetime
from typing import Any

from agents.models import Run, Thread
from agents.workflows.authoring import Workflow
from agents.workflows.timeline import Shown
from agents.workflows.verbs import Verdict
from hitl.console.documents import Document


def run(row: Run) -> Document:
    """Return one run of a workflow."""
    return {
        "run_id": str(row.id),
        "workflow": row.target,
        "status": row.status,
        "input": row.input,
        "output": row.output,
        "error": row.error,
        "code_version": row.code_version,
        "idempotency_key": row.idempotency_key,
        "correlation_key": row.correlation_key,
        "parent_id": None if row.parent_id is None else str(row.parent_id),
        "created_at": time(row.created_at),
        "finished_at": time(row.finished_at),
    }


def entry(shown: Shown) -> Document:
    """Return one entry of a journal. `delivered` is its place in the order of completions."""
    row, park = shown.entry, shown.park
    return {
        "position": row.position,
        "number": row.number,
        "kind": row.kind,
        "name": row.name,
        "state": row.state,
        "delivered": row.delivered,
        "input": row.input,
        "result": row.result,
        "error": row.error,
        "attempts": row.attempts,
        "request_id": str(park.id) if park is not None and not park.is_timer else None,
        "created_at": time(row.created_at),
        "done_at": time(row.done_at),
    }


def workflow(known: Workflow) -> Document:
    """Return one workflow; `parameters` is the JSON schema of its input."""
    return {
        "workflow": known.name,
        "description": known.description,
        "code_version": known.version,
        "parameters": known.parameters,
    }


def verdict(found: Verdict) -> Document:
    """Return what a check found of one run; `error` is null when its journal fits the code."""
    return {
        "run_id": str(found.run_id),
        "workflow": found.workflow,
        "fits": found.fits,
        "error": found.error,
    }


def thread(row: Thread, status: str) -> Document:
    """Return one thread."""
    return {
        "thread_id": str(row.id),
        "agent": row.agent,
        "title": row.title,
        "owner": None if row.owner is None else row.owner.get_username(),
        "status": status,
        "metadata": row.metadata,
        "created_at": time(row.created_at),
    }


def message(said: dict[str, Any]) -> Document:
    """Return one message; `role` is `user` or `assistant`."""
    return {**said, "id": str(said["id"]), "at": time(said["at"])}


def time(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()
