"""Conversations: start, send, edit, stop, delete, and reading them back.

The verbs join the caller's transaction: nothing is seen, sent or run before it commits (A13). One
run at a time per thread, which a database constraint says too. Lock order: the thread's current
run, then its parks.
"""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from agents import agent, closing, conf, runs, stopping
from agents import events as event_log
from agents.agent import Agent
from agents.events import EventType
from agents.models import Run, Step, Thread
from agents.states import ACTIVE, FINAL, RunStatus
from hitl import audit, clock, faults, inbox, values
from hitl.errors import HitlError
from hitl.ids import new_id
from hitl.parks import as_uuid
from hitl.rows import Group
from hitl.transactions import unit_of_work

TITLE_CHARS_MAX = 80
METADATA_BYTES_MAX = 16_384
LOCK_TRIES_MAX = 20


class ThreadNotFound(HitlError):
    """There is no such thread."""

    code = "thread_not_found"


class ThreadBusy(HitlError):
    """The thread has a run that is not over: answer or stop it, or send with `supersede=True`."""

    code = "thread_busy"

    def __init__(self, message: str = "", *, requests: tuple[inbox.PendingInput, ...] = ()) -> None:
        """`requests` are the open requests of the run, so that a caller can show them."""
        super().__init__(message)
        self.requests = requests


class InvalidMessage(HitlError):
    """A message is text with something in it."""

    code = "invalid_message"


class MessageNotFound(HitlError):
    """The thread has no such message of the user, or an edit has cut it away."""

    code = "message_not_found"


# ── Verbs ────────────────────────────────────────────────────────────────────────────────────────


def start(
    agent_or_name: Agent | str,
    message: str,
    *,
    user: Any = None,
    metadata: dict[str, Any] | None = None,
    title: str = "",
) -> Thread:
    """Start a thread with this message and return it; its first segment runs on a worker.

    `metadata` is JSON of at most 16 KiB, kept with the thread. Raises `agent.AgentNotFound`,
    `InvalidMessage`, `values.TooLarge`, `values.NotJson`, all before any row is written.
    """
    name = agent_or_name.name if isinstance(agent_or_name, Agent) else agent_or_name
    return _start(name, message, user=user, metadata=metadata, title=title)


def start_for(
    parent: Run, key: str, agent_name: str, message: str, *, user: Any = None, title: str = ""
) -> Thread:
    """Start a thread whose first run reports to another run that waits under this key (W11).

    Otherwise as `start`.
    """
    return _start(agent_name, message, user=user, title=title, parent_id=parent.id, parent_key=key)


def _start(
    name: str,
    message: str,
    *,
    user: Any,
    title: str,
    metadata: dict[str, Any] | None = None,
    **of_parent: Any,
) -> Thread:
    agent.get(name)
    text = _checked(message)
    kept = values.clean(metadata or {}, size_max=METADATA_BYTES_MAX)
    run_id = new_id()
    with unit_of_work():
        thread = Thread(
            agent=name,
            owner=user,
            title=values.clean_text(title or text.strip(), chars_max=TITLE_CHARS_MAX),
            metadata=kept,
            current_run_id=run_id,
            created_at=clock.now(),
        )
        _begin_run(thread, run_id, number=1, text=text, before=0, along=[[thread]], **of_parent)
    return thread


def send(thread: Thread | UUID | str, message: str, *, supersede: bool = False) -> Run:
    """Send the next message and return its run, whose id is the message's.

    A thread whose run is not over refuses with `ThreadBusy`, which names the open requests; a
    message never counts as an answer (H1). With `supersede` a parked or queued run is cancelled,
    its requests withdrawn, and the message begins a new run; a run that a worker holds has to be
    stopped first.
    """
    text = _checked(message)
    with unit_of_work():
        row, last = _locked(thread)
        entries: list[event_log.Entry] = []
        if last is not None and last.status in ACTIVE:
            if not supersede:
                raise _busy(last)
            last = _cancel(last, "superseded by a new message")
        return _follow(row, last, text, entries)


def edit(thread: Thread | UUID | str, message_id: UUID | str, message: str) -> Run:
    """Replace a user message: its turn and all later ones are cut away, and a new run begins.

    Requests of turns cut away are withdrawn and cannot be answered any more (N5). Raises
    `ThreadBusy` while a worker holds the current run, and `MessageNotFound`.
    """
    text = _checked(message)
    cut_id = as_uuid(message_id)
    with unit_of_work():
        row, last = _locked(thread)
        kept = Run.objects.filter(thread=row, dropped_at__isnull=True)
        cut = None if cut_id is None else kept.filter(id=cut_id).first()
        if cut is None or last is None:
            raise MessageNotFound
        if last.status in ACTIVE:
            last = _cancel(last, "cut away by an edit")
        dropped = kept.filter(number__gte=cut.number)
        ids = [str(run_id) for run_id in dropped.order_by("number").values_list("id", flat=True)]
        dropped.update(dropped_at=clock.now())
        faults.point("turns:dropped")
        entry = (EventType.MESSAGES_DROPPED, {"message_ids": ids})
        return _follow(row, last, text, [entry])


def stop(
    thread: Thread | UUID | str, *, reason: str = "", actor: object = None, channel: str = "python"
) -> bool:
    """Stop the current run; False when it was over already.

    A parked or queued run is CANCELLED at once, with everything it has open. A run that a worker
    holds is cancelled between steps, or during a model call where the provider allows (H8). Its
    end and the trail of its requests name `actor` and `reason`; of several who ask, the first.
    """
    why = values.clean_text(reason, chars_max=audit.REASON_CHARS_MAX) or "stopped"
    who = audit.person(actor, channel)
    with unit_of_work():
        _, run = _locked(thread)
        if run is None or run.status in FINAL:
            return False
        if not stopping.request_stop(run, reason=why, actor=who):
            _cancel(run, why, actor=who)
        return True


def delete(thread: Thread | UUID | str) -> None:
    """Delete a thread with its runs, steps and events; its requests are cancelled and kept.

    The audit trail stays. A worker in the middle of a segment finds its lease gone.
    """
    with unit_of_work():
        row, run = _locked(thread)
        if run is not None and run.status in ACTIVE:
            _cancel(run, "the thread was deleted")
        row.delete()
        faults.point("thread:deleted")


# ── Reading ──────────────────────────────────────────────────────────────────────────────────────


def history(thread: Thread | UUID | str) -> list[dict[str, Any]]:
    """Return the user-visible messages, oldest first: `{id, role, text, at}`.

    `role` is `user` or `assistant`; a user message's id is what `edit` takes.
    """
    found: list[dict[str, Any]] = []
    turns = Run.objects.filter(thread_id=_id(thread), dropped_at__isnull=True).order_by("number")
    steps = Step.objects.filter(run__in=turns, frame__isnull=True).exclude(text="")
    said: dict[UUID, list[Step]] = {}
    for step in steps.order_by("run_id", "number"):
        said.setdefault(step.run_id, []).append(step)
    for run in turns:
        text = run.input["message"]
        found.append({"id": run.id, "role": "user", "text": text, "at": run.created_at})
        for step in said.get(run.id, []):
            found.append(
                {"id": step.id, "role": "assistant", "text": step.text, "at": step.created_at}
            )
    return found


def events(thread: Thread | UUID | str, after: int = 0) -> list[dict[str, Any]]:
    """Return events with a number above `after`, oldest first: `{seq, type, data, at}` (H5)."""
    return event_log.after(_id(thread), after)


# ── Inside ───────────────────────────────────────────────────────────────────────────────────────


def _id(thread: Thread | UUID | str) -> UUID:
    found = as_uuid(thread)
    if found is None:
        raise ThreadNotFound
    return found


def _locked(thread: Thread | UUID | str) -> tuple[Thread, Run | None]:
    """Return the thread with its current run locked.

    The run may have been replaced while this waited for the lock; then the newer one is locked.
    """
    for _ in range(LOCK_TRIES_MAX):
        row = Thread.objects.filter(id=_id(thread)).first()
        if row is None:
            raise ThreadNotFound
        if row.current_run_id is None:
            return row, None
        run = runs.lock(row.current_run_id)
        fresh = Thread.objects.filter(id=row.id).values_list("current_run_id", flat=True).first()
        if fresh == row.current_run_id:
            return row, run
    raise ThreadBusy("The thread's run keeps being replaced; try again.")


def _cancel(run: Run, reason: str, *, actor: audit.Actor | None = None) -> Run:
    """Cancel a locked run that no worker holds, with everything it has open."""
    if run.status == RunStatus.RUNNING and not runs.is_owed(run):
        raise ThreadBusy("A worker holds this run; stop it first and try again when it has ended.")
    who = actor or audit.system("thread")
    entries = closing.close_open_work(run, reason=reason, actor=who)
    entries.append((EventType.RUN_CANCELLED, {"reason": reason, "actor": who.name}))
    closed = runs.close(run, RunStatus.CANCELLED, entries, error=reason)
    assert closed is not None, "the run was locked and active"
    return closed


def _follow(thread: Thread, last: Run | None, text: str, entries: list[event_log.Entry]) -> Run:
    """Begin the run after `last` and make it the thread's current one."""
    run_id = new_id()
    number, before = (last.number + 1, last.event_seq) if last is not None else (1, 0)
    moved = Thread.objects.filter(id=thread.id, current_run_id=last and last.id)
    if not moved.update(current_run_id=run_id):
        raise ThreadBusy
    return _begin_run(thread, run_id, number=number, text=text, before=before, entries=entries)


def _begin_run(
    thread: Thread,
    run_id: UUID,
    *,
    number: int,
    text: str,
    before: int,
    entries: Iterable[event_log.Entry] = (),
    along: Iterable[Group] = (),
    **of_parent: Any,
) -> Run:
    begun = (EventType.RUN_STARTED, {"message_id": str(run_id), "message": text})
    return runs.create(
        thread,
        run_id=run_id,
        number=number,
        message=text,
        before=before,
        entries=[*entries, begun],
        along=along,
        **of_parent,
    )


def _busy(run: Run) -> ThreadBusy:
    requests = tuple(inbox.pending(run.id))
    names = ", ".join(f"{request.tool_name} ({request.tool_call_id})" for request in requests)
    waits = f" Open requests: {names}." if names else ""
    return ThreadBusy(f"The thread's run is {run.status}.{waits}", requests=requests)


def _checked(message: str) -> str:
    """Return the message cleaned; refuse what is no text, is blank, or is too long."""
    most = conf.count("MESSAGE_CHARS_MAX")
    if not isinstance(message, str) or not message.strip():
        raise InvalidMessage
    if len(message) > most:
        raise InvalidMessage(
            f"The message has {len(message)} characters; at most {most} are taken."
        )
    return values.clean_text(message)
