"""Which request a command line means: its id, or THREAD_ID:TOOL_CALL_ID. Reads only.

An address that could mean several requests is refused; there is no "latest" (S2). A bare thread id
is refused even while it has one request open: between looking and deciding, that may have become
another one.
"""

from django.db.models import Q

from hitl import inbox, parks
from hitl.console.exits import Exit, Refusal
from hitl.console.screen import line
from hitl.models import Park

SHOWN_MAX = 60


def find(address: str) -> Park:
    """Return the request. Raises Refusal: not found, or a thread in place of a request."""
    scope, colon, key = address.partition(":")
    if colon and (park := parks.find(scope, key)) is not None:
        return park
    park_id = parks.as_uuid(address)
    if park_id is None:
        raise _unknown(address)
    here = Park.objects.cards()
    if (park := here.filter(id=park_id).first()) is not None:
        return park
    if here.filter(Q(scope=park_id) | Q(waiter_id=park_id)).exists():
        raise _is_a_thread(address)
    raise _unknown(address)


def _is_a_thread(address: str) -> Refusal:
    """Refuse the id of a thread or run, and name what it has open."""
    open_here = inbox.pending(address)
    if not open_here:
        return Refusal(Exit.NOT_FOUND, "not_found", f"Thread {address} has no open request.")
    names = "".join(f"\n  {one.request_id}  {line(one.tool_name)}" for one in open_here)
    return Refusal(
        Exit.USAGE,
        "ambiguous",
        f"{address} is a thread. Name one of its open requests ({len(open_here)}):{names}",
    )


def _unknown(address: str) -> Refusal:
    shown = address if len(address) <= SHOWN_MAX else address[:SHOWN_MAX] + "…"
    return Refusal(
        Exit.NOT_FOUND,
        "not_found",
        f"There is no request “{line(shown)}”. Write a request id, or THREAD_ID:TOOL_CALL_ID.",
    )
