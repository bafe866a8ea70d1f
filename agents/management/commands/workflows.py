"""`manage.py workflows`: runs of workflows from a terminal. Parses; `agents/console` does it."""

import argparse

from agents.console.workflows import ERRANDS
from agents.states import RunStatus
from hitl.console.command import Verb, VerbCommand

LIMIT, LIMIT_MAX = 50, 200
RUN = "the id of a run"


class Command(VerbCommand):
    """Lists, shows, starts, cancels and retries runs, and checks journals against the code."""

    help = "List, show, start, cancel and retry runs of workflows; check open ones before a deploy."
    epilog = (
        "Exit codes: 0 done, 1 failed, too late or some would diverge, 2 usage, 4 not found, "
        "5 --yes missing."
    )
    errands = ERRANDS

    def add_verbs(self, verb: Verb) -> None:
        """Declare the verbs and their options."""
        listing = verb("list", "List runs, newest first.")
        listing.add_argument("--workflow", metavar="NAME", help="only runs of this workflow")
        listing.add_argument("--status", choices=[str(one) for one in RunStatus])
        listing.add_argument(
            "--limit", type=limit, default=LIMIT, metavar="N", help=f"1 to {LIMIT_MAX}"
        )
        listing.add_argument("--cursor", help="go on where an earlier page ended")
        verb("show", "Show a run with its journal, or a workflow.").add_argument(
            "id", help="the id of a run, or the name of a workflow"
        )
        start = verb("start", "Start a run.")
        start.add_argument("name", help="the name of the workflow")
        start.add_argument("--input", default="{}", metavar="JSON", help="its arguments, an object")
        start.add_argument("--key", metavar="TEXT", help="idempotency key: one run for each")
        cancel = verb("cancel", "Cancel a run; what it has open is withdrawn.")
        cancel.add_argument("id", help=RUN)
        cancel.add_argument("--reason", default="", metavar="TEXT", help="for the run and trail")
        retry = verb("retry", "Let a failed run go on from its journal, once its code is mended.")
        retry.add_argument("id", help=RUN)
        for one in (start, cancel, retry):
            one.add_argument("--yes", action="store_true", help="do it; without, only say what")
        verb("check", "Replay open journals against this code, read-only.").add_argument(
            "id", nargs="?", help=f"{RUN}; without, all that are not over"
        )


def limit(text: str) -> int:
    """Read how many rows a page has."""
    if text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= LIMIT_MAX:
        return int(text)
    raise argparse.ArgumentTypeError(f"a whole number from 1 to {LIMIT_MAX} is needed")
