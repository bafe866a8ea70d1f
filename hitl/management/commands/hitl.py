"""`manage.py hitl`: requests and their answers from a terminal. Parses; `hitl/console` does it."""

import argparse

from hitl import pages
from hitl.console import callbacks
from hitl.console.command import Verb, VerbCommand
from hitl.console.errands import ERRANDS
from hitl.trail import exporting

ID = "a request id, or THREAD_ID:TOOL_CALL_ID"
EPILOG = "Exit codes: 0 done, 1 failed or no longer pending, 2 usage, 4 not found, 5 --yes missing."


class Command(VerbCommand):
    """Lists, shows and decides requests, sweeps, and examines the deployment."""

    help = "List, show and decide what waits for a person; sweep; examine the deployment."
    epilog = EPILOG
    errands = ERRANDS

    def add_verbs(self, verb: Verb) -> None:
        """Declare the verbs and their options."""
        _add_list(verb("list", "List requests: pending ones soonest deadline first."))
        verb("get", "Show one request in full, with its audit trail.").add_argument("id", help=ID)
        approve = verb("approve", "Say yes to requests.")
        approve.add_argument(
            "--payload",
            metavar="JSON",
            help="answer with this: the tool does NOT run and this becomes its result, "
            'unless the tool takes payloads as context (payload="context")',
        )
        approve.add_argument(
            "--arguments",
            metavar="JSON",
            help="run with these arguments in place of the proposed ones, where the tool allows it",
        )
        extend = verb("extend", "Give requests more time.")
        span = extend.add_mutually_exclusive_group(required=True)
        span.add_argument("--by", metavar="DURATION", help='so much longer, such as "2h"')
        span.add_argument("--until", metavar="TIME", help="until this time, ISO 8601")
        for one in (
            approve,
            verb("reject", "Say no to requests."),
            verb("cancel", "Withdraw requests."),
            extend,
        ):
            one.add_argument("ids", nargs="+", metavar="id", help=ID)
            one.add_argument("--yes", action="store_true", help="do it; without, only say what")
            one.add_argument("--reason", default="", metavar="TEXT", help="for model and trail")
        _add_audit(verb("audit", "Verify, export and show the audit trail; blank old payloads."))
        _add_callbacks(verb("callbacks", "List callbacks: those that were given up."))
        again = verb("resend", "Send the callbacks of requests again.")
        again.add_argument("ids", nargs="+", metavar="id", help=ID)
        verb("callback-key", "Print the keys that callbacks are signed with.")
        verb("sweep", "Settle what is due now and repeat lost messages.")
        verb("doctor", "Examine settings, database, clock, broker, workers and sweep.")


def _add_list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--status", choices=pages.STATUSES, default="pending", help="default: pending"
    )
    parser.add_argument("--topic", help="only this topic: for a tool call, the tool's name")
    parser.add_argument("--thread", metavar="ID", help="only requests of this thread or run")
    parser.add_argument(
        "--limit",
        type=_limit,
        default=pages.LIMIT,
        metavar="N",
        help=f"1 to {pages.LIMIT_MAX}, default {pages.LIMIT}",
    )
    parser.add_argument("--cursor", help="go on where an earlier page ended")


def _add_callbacks(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--status", choices=callbacks.STATUSES, default="dead", help="default: dead (given up)"
    )
    parser.add_argument(
        "--limit",
        type=_limit,
        default=pages.LIMIT,
        metavar="N",
        help=f"1 to {pages.LIMIT_MAX}, default {pages.LIMIT}",
    )


def _add_audit(parser: argparse.ArgumentParser) -> None:
    parts = parser.add_subparsers(dest="part", required=True, metavar="PART")

    def part(name: str, text: str) -> argparse.ArgumentParser:
        added = parts.add_parser(
            name, help=text, description=text, epilog=EPILOG, allow_abbrev=False
        )
        # The word before may have taken the option already.
        added.add_argument(
            "--json",
            action="store_true",
            default=argparse.SUPPRESS,
            help="print one JSON document",
        )
        return added

    part("verify", "Check that the trail is as it was written.").add_argument(
        "--anchor",
        default="",
        metavar="HASH",
        help="a head that an earlier verification printed; it must still be in the chain",
    )
    part("show", "Show the evidence of one request.").add_argument("id", help=ID)
    export = part("export", "Write the trail line by line.")
    export.add_argument("--format", choices=exporting.FORMATS, default="jsonl")
    export.add_argument("--since", metavar="TIME", help="from this time on, ISO 8601")
    export.add_argument("--until", metavar="TIME", help="before this time, ISO 8601")
    export.add_argument("--request", metavar="ID", help="only this request")
    export.add_argument("--output", metavar="FILE", help="a new file, in place of stdout")
    blank = part("blank", "Blank what old, finished requests held. The trail stays.")
    blank.add_argument("--older-than", required=True, metavar="DURATION", help='such as "90d"')
    blank.add_argument("--yes", action="store_true", help="do it; without, only say how many")


def _limit(text: str) -> int:
    if text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= pages.LIMIT_MAX:
        return int(text)
    raise argparse.ArgumentTypeError(f"a whole number from 1 to {pages.LIMIT_MAX} is needed")
