"""The statuses of a run, the phases of a tool call and the endings of a call. Pure.

```
  QUEUED ──take──→ RUNNING ──┬─ park ────→ WAITING_FOR_INPUT | WAITING ──wake──→ QUEUED
    ↑                        ├─ hand back → QUEUED
    └── (lease lapsed) ──────┤
                             └─ finish ──→ COMPLETED | FAILED | CANCELLED
```

A stop cancels from any status that is not final. A workflow that FAILED and whose code was mended
goes back to QUEUED by `retry`.
"""

from enum import StrEnum


class RunStatus(StrEnum):
    """Where a run stands."""

    QUEUED = "QUEUED"
    """Owes a segment: some worker is to take it."""
    RUNNING = "RUNNING"
    """One worker holds its lease."""
    WAITING_FOR_INPUT = "WAITING_FOR_INPUT"
    """Parked: at least one question is open."""
    WAITING = "WAITING"
    """Parked: only timers are open, or steps and runs of its own that work elsewhere."""
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


IDLE = "IDLE"
"""What a thread without any run shows."""

PARKED = frozenset({RunStatus.WAITING_FOR_INPUT, RunStatus.WAITING})
FINAL = frozenset({RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED})
ACTIVE = frozenset(RunStatus) - FINAL


class Phase(StrEnum):
    """How far a tool call has come."""

    OPEN = "open"
    """Not begun."""
    CLAIMED = "claimed"
    """A worker went into the tool and has not come back with its output yet."""
    ASKED = "asked"
    """The tool ran and parked itself: it goes on when its job is settled."""
    DONE = "done"
    """Its one result is kept."""


class EntryState(StrEnum):
    """Where an entry of a workflow's journal stands."""

    OPEN = "open"
    """Asked for and not complete; a step that nobody is in."""
    CLAIMED = "claimed"
    """A worker went into the step and has not come back with its output yet."""
    ASKED = "asked"
    """A worker died inside the step, and a person is asked whether it happened."""
    DONE = "done"
    """Complete, with a result or an error."""
    CLOSED = "closed"
    """The run went on without it, or ended: nothing comes of it any more."""


class DeliveryStatus(StrEnum):
    """What became of an event that came to a trigger."""

    RECEIVED = "received"
    """Written down; a worker is to look at it."""
    BUFFERED = "buffered"
    """Kept for a run that is about to wait for it."""
    STARTED = "started"
    """It began a run."""
    RESUMED = "resumed"
    """It ended the wait of a run."""
    IGNORED = "ignored"
    """No run waits for it, and the trigger starts none."""
    EXPIRED = "expired"
    """The run that it was kept for did not wait for it within the window."""
    FAILED = "failed"
    """It could not be used; the error says why."""


UNSETTLED = frozenset({DeliveryStatus.RECEIVED, DeliveryStatus.BUFFERED})
REPEATABLE = frozenset({DeliveryStatus.IGNORED, DeliveryStatus.EXPIRED, DeliveryStatus.FAILED})
"""Nothing came of these, so somebody may have them looked at again."""


class Outcome(StrEnum):
    """How a tool call ended; each gives the model a result of its own (A12)."""

    OK = "ok"
    """The tool ran and returned."""
    ERROR = "error"
    """The tool raised, or the call could not be made."""
    ANSWERED = "answered"
    """A person gave the result in place of the tool."""
    DENIED = "denied"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    STOPPED = "stopped"
    UNKNOWN = "unknown"
    """A worker died inside the tool; whether it happened is not known."""


class OnDoubt(StrEnum):
    """What a tool wants when a worker died inside it (A6)."""

    ASK = "ask"
    FAIL = "fail"
    RETRY = "retry"
