"""What `manage.py agents` does, one function per word of its command line.

Each returns an Outcome; what cannot be done raises Refusal. Threads change through the verbs of
`agents/threads.py`, each in a transaction of its own. Workers do the work: `--wait` and `chat`
only look at the rows.
"""

import sys
from collections.abc import Callable, Iterator
from threading import Event
from time import monotonic
from typing import Any

from django.contrib.auth import get_user_model
from django.db import transaction

import hitl
from agents import agent, threads
from agents.agent import AgentNotFound
from agents.console import documents
from agents.models import Thread
from agents.states import ACTIVE, IDLE, RunStatus
from agents.threads import InvalidMessage, ThreadBusy
from hitl import parks, values
from hitl.console import documents as shared
from hitl.console import login, progress
from hitl.console.command import Options
from hitl.console.exits import Exit, Refusal
from hitl.console.outcomes import Outcome
from hitl.console.screen import line

CHANNEL = "cli"
LOOK_SECONDS = 0.3
WAIT_SECONDS = 120.0
AT_WORK = (RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.WAITING)


def show_list(options: Options) -> Outcome:
    """List one page of threads, newest first, and name the agents that the code has."""
    rows = Thread.objects.select_related("current_run", "owner").defer("metadata").order_by("-id")
    if options["agent"] is not None:
        rows = rows.filter(agent=values.clean_text(options["agent"]))
    if options["status"] == IDLE:
        rows = rows.filter(current_run=None)
    elif options["status"] is not None:
        rows = rows.filter(current_run__status=options["status"])
    if options["cursor"] is not None:
        if (last := parks.as_uuid(options["cursor"])) is None:
            raise Refusal(Exit.USAGE, "invalid_cursor", "--cursor is not of this list.")
        rows = rows.filter(id__lt=last)
    found = list(rows[: options["limit"] + 1])
    page = found[: options["limit"]]
    cursor = str(page[-1].id) if len(found) > len(page) else None
    names = sorted(each.name for each in agent.every())
    told = [documents.thread(row, _status(row)) for row in page]
    return Outcome(
        document={"threads": told, "next_cursor": cursor, "agents": names},
        view=lambda: _tables().threads([(row, _status(row)) for row in page], cursor, names),
    )


def show(options: Options) -> Outcome:
    """Show a thread: its messages and what it waits for."""
    return _shown(_find(options["id"]))


def run(options: Options) -> Outcome:
    """Start a thread with a message; with `--wait`, until it parks or has an answer."""
    try:
        with transaction.atomic(durable=True):
            thread = threads.start(
                options["agent"], options["message"], user=_owner(options["user"])
            )
    except AgentNotFound as error:
        raise Refusal(Exit.NOT_FOUND, error.code, line(str(error))) from None
    except InvalidMessage as error:
        raise Refusal(Exit.USAGE, error.code, str(error)) from None
    return _followed(thread, options)


def send(options: Options) -> Outcome:
    """Send the next message to a thread."""
    thread = _find(options["id"])
    _send(thread, options["message"], supersede=options["supersede"])
    return _followed(thread, options)


def stop(options: Options) -> Outcome:
    """Stop the run of a thread; without `--yes`, only say so."""
    thread = _find(options["id"])
    if _fresh(thread) not in ACTIVE:
        raise Refusal(Exit.FAILED, "too_late", "Nothing was done: no run of it is under way.")
    if not options["yes"]:
        message = "Nothing was done. With --yes: its run ends, and what it has open is withdrawn."
        told = documents.thread(thread, _fresh(thread))
        return Outcome(
            document=shared.failure("unconfirmed", message, thread=told),
            view=lambda: [*_tables().thread(thread, _fresh(thread), [], []), ""],
            exit_code=Exit.UNCONFIRMED,
            complaint=message,
        )
    with transaction.atomic(durable=True):
        won = threads.stop(thread, reason=options["reason"], actor=login.actor(), channel=CHANNEL)
    if not won:
        raise Refusal(Exit.FAILED, "too_late", "Nothing was done: its run is over.")
    return _shown(thread)


def reclaim(options: Options) -> Outcome:
    """Heal a thread whose message was lost: settle what is overdue, hint at what it owes."""
    thread = _find(options["id"])
    healed = hitl.reclaim_if_orphaned(thread.id)
    sentence = "Healed: it goes on." if healed else "There was nothing to heal."
    return Outcome(document={"healed": healed}, view=lambda: [sentence])


def chat(options: Options) -> Outcome:
    """Talk with an agent line by line, until the end of the input."""
    thread = None if options["thread"] is None else _find(options["thread"])
    if thread is None and options["agent"] is None:
        raise Refusal(Exit.USAGE, "usage", "Name an agent, or a thread with --thread.")
    say = options["say"]
    for text in _lines():
        if thread is None:
            thread = Thread.objects.get(
                id=run({**options, "message": text, "wait": False}).document["thread"]["thread_id"]
            )
        else:
            try:
                _send(thread, text, supersede=False)
            except Refusal as error:
                say(str(error))
                continue
        _wait(thread, options)
        say(_last_word(thread))
    return Outcome(document={}, view=tuple) if thread is None else _shown(thread)


def _lines() -> Iterator[str]:
    """Yield what is typed, until Ctrl-D or Ctrl-C; a program that talks is not prompted."""
    prompt = "> " if sys.stdin.isatty() else ""
    while True:
        try:
            text = input(prompt).strip()
        except (EOFError, KeyboardInterrupt):
            return
        if text:
            yield text


def _last_word(thread: Thread) -> str:
    """Return the answer of the agent, or what it waits for and how to answer that."""
    open_here = hitl.pending(thread)
    if open_here:
        asked = [f"  {line(one.tool_name)}  {one.request_id}" for one in open_here]
        return "\n".join(["It waits for an answer (manage.py hitl approve ID):", *asked])
    said = [one for one in threads.history(thread) if one["role"] == "assistant"]
    return _tables().indented(said[-1]["text"]) if said else f"({_fresh(thread)})"


def _send(thread: Thread, text: str, *, supersede: bool) -> None:
    try:
        with transaction.atomic(durable=True):
            threads.send(thread, text, supersede=supersede)
    except ThreadBusy as error:
        raise Refusal(Exit.FAILED, error.code, str(error)) from None
    except InvalidMessage as error:
        raise Refusal(Exit.USAGE, error.code, str(error)) from None


def _followed(thread: Thread, options: Options) -> Outcome:
    if options["wait"]:
        _wait(thread, options)
    return _shown(thread)


def _wait(thread: Thread, options: Options) -> None:
    """Wait until the run of a thread is over or waits for somebody, a bounded while."""
    pause, began = Event(), monotonic()
    with progress.told(options["say"], lambda: f"{_fresh(thread)}, waiting for a worker"):
        while _fresh(thread) in AT_WORK and monotonic() - began < options["timeout"]:
            pause.wait(LOOK_SECONDS)


def _shown(thread: Thread) -> Outcome:
    thread.refresh_from_db()
    status, said, open_here = _fresh(thread), threads.history(thread), hitl.pending(thread)
    document = {
        "thread": documents.thread(thread, status),
        "messages": [documents.message(one) for one in said],
        "pending": [str(one.request_id) for one in open_here],
    }
    return Outcome(
        document=document, view=lambda: _tables().thread(thread, status, said, open_here)
    )


def _find(address: str) -> Thread:
    thread_id = parks.as_uuid(address)
    rows = Thread.objects.select_related("owner", "current_run")
    thread = None if thread_id is None else rows.filter(id=thread_id).first()
    if thread is None:
        shown = line(address[:60])
        raise Refusal(Exit.NOT_FOUND, "not_found", f"There is no thread “{shown}”.")
    return thread


def _owner(name: str | None) -> Any:
    if name is None:
        return None
    users = get_user_model()
    found = users._default_manager.filter(**{users.USERNAME_FIELD: name}).first()
    if found is None:
        raise Refusal(Exit.NOT_FOUND, "not_found", f"There is no user “{line(name[:60])}”.")
    return found


def _status(thread: Thread) -> str:
    return thread.current_run.status if thread.current_run is not None else IDLE


def _fresh(thread: Thread) -> str:
    return str(thread.status)


def _tables() -> Any:
    """Import the readable forms, and rich with them, only when somebody reads."""
    from agents.console import tables

    return tables


ERRANDS: dict[str, Callable[[Options], Outcome]] = {
    "list": show_list,
    "show": show,
    "run": run,
    "chat": chat,
    "send": send,
    "stop": stop,
    "reclaim": reclaim,
}
