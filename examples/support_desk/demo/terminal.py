"""What the demo prints: where to go, what waits, and then each thing that happens. Reads only."""

import os
import sys
import textwrap
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from django.conf import settings
from django.db import DatabaseError, connection
from django.urls import NoReverseMatch, reverse

from agents.events import EventType
from agents.models import Event, Run, RunKind
from examples.support_desk import customer
from examples.support_desk.demo import account
from hitl import clock, display, values
from hitl.models import Park
from hitl.states import Reason
from hitl.templatetags import sayso
from hitl.templatetags.sayso import left
from hitl.views import ACTOR

LOOK_SECONDS = 0.5
WIDTH = 120
TITLE_WIDTH = 40
SHOWN_MAX = 12

WELCOME = """
Sayso: a support desk whose agent asks before it pays, cancels or writes.

  Inbox    {inbox}
  Log in   {username} / {password}

{waiting}

What to do: open the inbox, choose a request, read what would happen, approve or deny it.
The agent goes on at once: see below, and Orders, Refunds and Outbox on the same site.
In another terminal:  {command_line} hitl list
Three workflows have begun as well. One waits for a customer's mail: answer it in the Outbox. An
event from outside begins another, by a trigger:
  curl -H '{header}: {secret}' -d '{{"id": "r1", "order_id": 14, "amount": 12.5}}' {returns}
Leave a request alone and it times out; the agent is told, and no one is said to have refused.
Stop with Ctrl-C, or kill it: the next start goes on from the rows in {data}.
"""
NOTHING_WAITS = """Nothing waits for you. Give the desk something to do:
  make demo ARGS='--say "Refund 120 on order 19 and write to the customer"'"""


def welcome(*, url: str, password: str, data: str) -> str:
    """Return the text that a start prints, once the site is at `url`."""
    return WELCOME.format(
        inbox=url + inbox_path(),
        username=account.USERNAME,
        password=password,
        waiting=_waiting(),
        command_line=_command_line(),
        header=customer.HEADER,
        secret=settings.AGENTS["TRIGGER_SECRETS"].get("demo", ""),
        returns=url + reverse("agents:trigger", args=["returns"]),
        data=data,
    )


def inbox_path() -> str:
    """Return the path of the inbox, or of the admin where the inbox has no page."""
    try:
        return reverse("admin:hitl_park_changelist")
    except NoReverseMatch:
        return reverse("admin:index")


def _command_line() -> str:
    """Return how another terminal in this directory runs a command on the demo's data."""
    python = os.path.relpath(sys.executable)
    elsewhere = f"VAR_DIR={os.environ['VAR_DIR']} " if os.environ.get("VAR_DIR") else ""
    return f"DEMO=1 {elsewhere}{python} manage.py"


def _waiting() -> str:
    parks = list(Park.objects.pending().cards().soonest_first()[:SHOWN_MAX])
    for_you = [_line(park) for park in parks if park.is_for_people]
    jobs = [_line(park) for park in parks if park.reason == "job"]
    hooks = [_line(park) for park in parks if park.reason == Reason.HOOK]
    lines = ["Waiting for you:", *for_you] if for_you else [NOTHING_WAITS]
    if jobs:
        lines += ["Waiting for a job, which finishes by itself:", *jobs]
    if hooks:
        lines += ["Waiting for an event from outside:", *hooks]
    return "\n".join(lines)


def _line(park: Park) -> str:
    who = f"{park.title} ({park.asked_by})" if park.asker_depth else park.title
    return f"  {display.visible(who):<60} {_time_left(park)}".rstrip()


def _time_left(park: Park) -> str:
    return left(park.expires_at) if park.expires_at is not None else ""


class Narrator(threading.Thread):
    """Prints a line for whatever happens to a thread from now on; ends with the process."""

    def __init__(self, write: Callable[[str], Any]) -> None:
        super().__init__(name="narrator", daemon=True)
        self._write = write
        self._last = Event.objects.order_by("-id").values_list("id", flat=True).first() or 0
        self._since = clock.now()

    def run(self) -> None:
        pause = threading.Event()
        while not pause.wait(LOOK_SECONDS):
            # Busy, or gone while the process stops: the next look tells.
            with suppress(DatabaseError):
                self.look()
            connection.close()

    def look(self) -> None:
        """Print what has happened since the last look."""
        news = Event.objects.filter(id__gt=self._last).order_by("id").select_related("thread")
        for event in news:
            self._last = event.id
            if said := sentence(event.type, event.data):
                title = textwrap.shorten(event.thread.title, TITLE_WIDTH, placeholder=" …")
                line = display.visible(f"{event.at:%H:%M:%S}  [{title}] {said}")
                self._write(textwrap.shorten(line, WIDTH, placeholder=" …"))
        ended = Run.objects.filter(kind=RunKind.WORKFLOW, finished_at__gt=self._since)
        for run in ended.order_by("finished_at"):
            assert run.finished_at is not None, "it has ended"
            self._since = run.finished_at
            said = f"{sayso.status(run.status)}: {run.error or values.dumps(run.output)}"
            line = display.visible(f"{run.finished_at:%H:%M:%S}  [{run.target}] {said}")
            self._write(textwrap.shorten(line, WIDTH, placeholder=" …"))


def sentence(kind: str, data: dict[str, Any]) -> str:
    """Tell one event in a few words; empty for those that nobody needs to hear of."""
    match kind:
        case EventType.INPUT_REQUIRED:
            return _asks(data)
        case EventType.INPUT_ANSWERED:
            is_job = data["actor"] == ACTOR
            return "its job is finished" if is_job else f"{data['status']} by {data['actor']}"
        case EventType.SUBAGENT_STARTED:
            return f"hands over to {' › '.join(data['path'])}"
        case EventType.SUBAGENT_FINISHED:
            return f"{data['agent']} hands back: {data['outcome']}"
        case EventType.INPUT_EXPIRED:
            return "found no answer in time"
        case EventType.INPUT_CANCELLED:
            return "had its request withdrawn"
        case EventType.TOOL_RESULT:
            return f"{data['tool_name']}: {data['outcome']}"
        case EventType.RUN_COMPLETED:
            return f"finished: {data['output']}"
        case EventType.RUN_FAILED | EventType.RUN_CANCELLED:
            return f"ended: {data['reason']}"
    return ""


def _asks(data: dict[str, Any]) -> str:
    match data["reason"]:
        case Reason.APPROVAL:
            return f"asks before {data['tool_name']}"
        case Reason.IN_DOUBT:
            return f"asks whether it ran: {data['tool_name']}"
    return f"waits inside {data['tool_name']}: {data['reason']}"
