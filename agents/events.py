"""The event log of a thread: ordered, gap-free, append-only (H5). Only writer of `Event` rows.

The caller holds the current run's row and has advanced its `event_seq` by as many numbers as it
writes events, in the same transaction; that makes the numbers gap-free without another lock.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from agents.models import Event, Run
from hitl import rows

PREVIEW_CHARS_MAX = 2000


class EventType(StrEnum):
    """The kinds of event; a tool's own come as CUSTOM."""

    RUN_STARTED = "RUN_STARTED"
    STEP_SAVED = "STEP_SAVED"
    TOOL_CALL = "TOOL_CALL"
    TOOL_RESULT = "TOOL_RESULT"
    TEXT = "TEXT"
    INPUT_REQUIRED = "INPUT_REQUIRED"
    INPUT_ANSWERED = "INPUT_ANSWERED"
    INPUT_EXPIRED = "INPUT_EXPIRED"
    INPUT_CANCELLED = "INPUT_CANCELLED"
    SUBAGENT_STARTED = "SUBAGENT_STARTED"
    SUBAGENT_FINISHED = "SUBAGENT_FINISHED"
    GUARDRAIL = "GUARDRAIL"
    MESSAGES_DROPPED = "MESSAGES_DROPPED"
    RUN_COMPLETED = "RUN_COMPLETED"
    RUN_FAILED = "RUN_FAILED"
    RUN_CANCELLED = "RUN_CANCELLED"
    CUSTOM = "CUSTOM"


Entry = tuple[EventType, dict[str, Any]]


def append(
    run: Run, entries: Sequence[Entry], *, at: datetime, along: Iterable[rows.Group] = ()
) -> None:
    """Write these events under the last `len(entries)` numbers that the run's row has given out.

    `along` are rows of other tables that are inserted in the same round trip, before the events.
    """
    rows.insert(*along, _log(run, entries, at, _last(run, len(entries))))


def append_unseen(
    run: Run, entries: Sequence[Entry], *, at: datetime, along: Iterable[rows.Group] = ()
) -> None:
    """Do what `append` does for a caller who has not read which numbers the row gave out."""
    behind = _log(run, entries, at, range(len(entries) - 1, -1, -1))
    rows.insert(*along, rows.CountedBack(behind, "seq", Run, "event_seq", run.id))


def append_each(logged: Iterable[tuple[Run, Sequence[Entry]]], *, at: datetime) -> None:
    """Write the events of several runs, as `append` does for one, in one statement."""
    rows.insert(
        [
            event
            for run, entries in logged
            for event in _log(run, entries, at, _last(run, len(entries)))
        ]
    )


def _log(run: Run, entries: Sequence[Entry], at: datetime, numbers: Iterable[int]) -> list[Event]:
    if run.thread_id is None:  # a workflow's timeline is its journal
        return []
    return [
        rows.new(Event, thread_id=run.thread_id, seq=seq, type=kind, data=data, at=at)
        for seq, (kind, data) in zip(numbers, entries, strict=True)
    ]


def _last(run: Run, count: int) -> range:
    """Return the last `count` numbers that the row, as the caller has it, has given out."""
    return range(run.event_seq - count + 1, run.event_seq + 1)


def after(thread_id: UUID, seq: int, *, limit: int = 1000) -> list[dict[str, Any]]:
    """Return up to `limit` events with a higher number, oldest first."""
    rows = Event.objects.filter(thread_id=thread_id, seq__gt=seq).order_by("seq")[:limit]
    return [{"seq": row.seq, "type": row.type, "data": row.data, "at": row.at} for row in rows]
