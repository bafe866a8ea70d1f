"""`manage.py agents`: threads from a terminal. Parses; `agents/console` does it."""

import argparse
import math

from agents.console.threads import ERRANDS, WAIT_SECONDS
from agents.management.commands.workflows import LIMIT, LIMIT_MAX, limit
from agents.states import IDLE, RunStatus
from hitl.console.command import Verb, VerbCommand

THREAD = "the id of a thread"


class Command(VerbCommand):
    """Starts, lists and shows threads, talks to agents, stops and heals."""

    help = "Start threads and talk with agents; list, show, stop and heal threads."
    epilog = (
        "Exit codes: 0 done, 1 failed, busy or too late, 2 usage, 4 not found, 5 --yes missing."
    )
    errands = ERRANDS

    def add_verbs(self, verb: Verb) -> None:
        """Declare the verbs and their options."""
        listing = verb("list", "List threads, newest first.")
        listing.add_argument("--agent", metavar="NAME", help="only threads of this agent")
        listing.add_argument("--status", choices=[IDLE, *map(str, RunStatus)])
        listing.add_argument(
            "--limit", type=limit, default=LIMIT, metavar="N", help=f"1 to {LIMIT_MAX}"
        )
        listing.add_argument("--cursor", help="go on where an earlier page ended")
        verb("show", "Show a thread: its messages, what it waits for.").add_argument(
            "id", help=THREAD
        )
        run = verb("run", "Start a thread with a message.")
        run.add_argument("agent", help="the name of the agent")
        run.add_argument("message")
        chat = verb("chat", "Talk with an agent, line by line.")
        chat.add_argument("agent", nargs="?", help="the name of the agent")
        chat.add_argument("--thread", metavar="ID", help="go on with this thread")
        send = verb("send", "Send the next message to a thread.")
        send.add_argument("id", help=THREAD)
        send.add_argument("message")
        send.add_argument(
            "--supersede", action="store_true", help="withdraw what is open, and go on from here"
        )
        for one in (run, chat):
            one.add_argument("--user", metavar="NAME", help="who owns the thread")
        for one in (run, send):
            one.add_argument("--wait", action="store_true", help="until it parks or has an answer")
        for one in (run, send, chat):
            one.add_argument("--timeout", type=_seconds, default=WAIT_SECONDS, metavar="SECONDS")
        stop = verb("stop", "Stop the run of a thread; what it has open is withdrawn.")
        stop.add_argument("id", help=THREAD)
        stop.add_argument("--reason", default="", metavar="TEXT", help="for the run and trail")
        stop.add_argument("--yes", action="store_true", help="do it; without, only say what")
        verb("reclaim", "Heal a thread whose message was lost.").add_argument("id", help=THREAD)


def _seconds(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not 0 <= found <= 24 * 3600:  # also for NaN
        raise argparse.ArgumentTypeError("a number of seconds is needed, up to a day")
    return found
