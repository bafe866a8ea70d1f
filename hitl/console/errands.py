"""What `manage.py hitl` does, one function per word of its command line.

Each returns an Outcome: the document for programs, the view for people, the exit code for the
shell. What cannot be done raises Refusal. The functions take the parsed options.
"""

from collections.abc import Callable, Mapping
from typing import Any

from hitl import doctor, pages, parks, sweeping
from hitl.console import addresses, callbacks, deciding, documents, progress, trail
from hitl.console.documents import Document
from hitl.console.exits import Exit, Refusal
from hitl.console.outcomes import Outcome
from hitl.states import ParkStatus
from hitl.values import clean_text

Options = Mapping[str, Any]


def show_list(options: Options) -> Outcome:
    """List one page of requests."""
    scope = None
    if options["thread"] is not None and (scope := parks.as_uuid(options["thread"])) is None:
        raise Refusal(Exit.USAGE, "usage", "--thread takes the id of a thread or run.")
    topic = options["topic"]
    try:
        page = pages.page(
            status=options["status"],
            topic=None if topic is None else clean_text(topic),
            scope=scope,
            limit=options["limit"],
            cursor=options["cursor"],
        )
    except pages.BadCursor as error:
        raise Refusal(Exit.USAGE, error.code, str(error)) from None
    waiting = options["status"] == ParkStatus.PENDING
    none = "Nothing is waiting." if waiting else "There is no such request."
    return Outcome(
        document=documents.listing(page), view=lambda: _tables().listing(page, none=none)
    )


def show_one(options: Options) -> Outcome:
    """Show everything about one request."""
    park = addresses.find(options["id"])
    trail = list(park.decisions.order_by("at", "id"))
    return Outcome(
        document=documents.detail(park, trail),
        view=lambda: _tables().detail(park, trail, documents.url(park)),
    )


def sweep(options: Options) -> Outcome:
    """Settle what is due now, as beat's sweep does."""
    with progress.told(options["say"], deciding.left_to_settle):
        counts = sweeping.sweep(by_hand=True)
    return Outcome(document={"counts": counts}, view=lambda: _tables().counts(counts))


def examine(options: Options) -> Outcome:
    """Check this deployment."""
    found = list(doctor.examine())
    failed = [one.name for one in found if one.status == doctor.Status.FAIL]
    checks = [
        {"name": one.name, "status": str(one.status), "sentence": one.sentence} for one in found
    ]
    document: Document = {"healthy": not failed, "checks": checks}
    complaint = ""
    if failed:
        complaint = f"Failed: {', '.join(failed)}."
        document = documents.failure("unhealthy", complaint, **document)
    return Outcome(
        document=document,
        view=lambda: _tables().findings(found),
        exit_code=Exit.FAILED if failed else Exit.DONE,
        complaint=complaint,
    )


def _tables() -> Any:
    """Import the readable forms, and rich with them, only when somebody reads."""
    from hitl.console import tables

    return tables


ERRANDS: dict[str, Callable[[Options], Outcome]] = {
    "list": show_list,
    "get": show_one,
    **deciding.ERRANDS,
    **trail.ERRANDS,
    **callbacks.ERRANDS,
    "sweep": sweep,
    "doctor": examine,
}
