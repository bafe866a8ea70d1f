"""The JSON that `--json` prints: one document per command, plain data in ASCII. Reads only.

Scripts rely on these shapes; `docs/reference/command-line.md` shows them. A field may be added at
any time. Whatever breaks a script raises SCHEMA_VERSION.
"""

import json
from datetime import datetime
from typing import Any

from hitl import clock, waiters
from hitl.models import Decision, Park
from hitl.pages import Page

SCHEMA_VERSION = 1

Document = dict[str, Any]


def dumps(document: Document) -> str:
    """Return the document as indented JSON that no terminal takes for a command."""
    return json.dumps({"schema_version": SCHEMA_VERSION, **document}, indent=2, allow_nan=False)


def failure(code: str, message: str, **more: Any) -> Document:
    """Return what any command prints when it does not end with 0."""
    return {"error": {"code": code, "message": message}, **more}


def listing(page: Page) -> Document:
    """Return one page of `list`."""
    return {"requests": [request(park) for park in page.parks], "next_cursor": page.next_cursor}


def detail(park: Park, trail: list[Decision]) -> Document:
    """Return what `get` shows: the request, the page about the work that asked, the trail."""
    return {"request": request(park), "url": url(park), "trail": [entry(row) for row in trail]}


def request(park: Park) -> Document:
    """Return one request. `answer` is null until one came with a payload, then {"payload": …}."""
    return {
        "request_id": str(park.id),
        "thread_id": str(park.scope),
        "tool_call_id": park.key,
        "status": park.status,
        "overdue": park.is_overdue(clock.now()),
        "reason": park.reason,
        "topic": park.topic,
        "title": park.title,
        "description": park.description,
        "agent": park.asker,
        "depth": park.asker_depth,
        "path": park.asker_path,
        "arguments": park.arguments,
        "proposed_arguments": park.proposed,
        "redacted": park.redacted,
        "editable": park.editable,
        "policy": park.policy,
        "digest": park.digest,
        "takes_payload": park.takes_payload,
        "on_timeout": park.on_timeout,
        "opened_at": time(park.opened_at),
        "expires_at": time(park.expires_at),
        "settled_at": time(park.settled_at),
        "settled_by": park.settled_by,
        "channel": park.channel,
        "answer_reason": park.answer_reason,
        "answer": park.answer or None,
        "metadata": park.metadata,
    }


def entry(row: Decision) -> Document:
    """Return one row of the audit trail."""
    return {
        "verb": row.verb,
        "actor": row.actor,
        "system": row.system,
        "channel": row.channel,
        "reason": row.reason,
        "detail": row.detail,
        "at": time(row.at),
    }


def url(park: Park) -> str | None:
    """Return the address of the page about the work that asked, where the project has one."""
    if not waiters.known(park.waiter_kind):
        return None
    return waiters.of(park.waiter_kind).url(park)


def time(at: datetime | None) -> str | None:
    """Return a time as ISO 8601, or null."""
    return None if at is None else at.isoformat()
