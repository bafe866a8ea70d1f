"""`manage.py hitl callbacks`, `resend` and `callback-key`: who was told, telling again, the key.

One function per word, as in `errands`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from django.db import transaction

from hitl import keys, signing
from hitl.callbacks import addresses as places
from hitl.callbacks import deliveries
from hitl.console import addresses, documents, login
from hitl.console.documents import Document
from hitl.console.exits import Exit, Refusal
from hitl.console.outcomes import Outcome
from hitl.console.screen import line
from hitl.models import CallbackDelivery, Park
from hitl.pages import ALL
from hitl.states import CallbackStatus
from hitl.templatetags import sayso

CHANNEL = "cli"
STATUSES = (*(str(status) for status in CallbackStatus), ALL)

Options = Mapping[str, Any]


def show(options: Options) -> Outcome:
    """List callbacks, newest first: those that were given up unless asked otherwise."""
    found = CallbackDelivery.objects.select_related("park").order_by("-id")
    if options["status"] != ALL:
        found = found.filter(status=options["status"])
    listed = list(found[: options["limit"]])
    return Outcome(
        document={"callbacks": [_document(one) for one in listed]},
        view=lambda: _lines(listed, options["status"]),
    )


def resend(options: Options) -> Outcome:
    """Send the callbacks of these requests again; exit code 1 when one cannot be."""
    parks = [addresses.find(one) for one in options["ids"]]
    for park in parks:
        if not park.is_standalone:
            raise Refusal(Exit.USAGE, "no_callback", f"Request {park.id} has no callback.")
    ordered = [_resend(park) for park in parks]
    refused = [str(park.id) for park, done in zip(parks, ordered, strict=True) if not done]
    complaint = ""
    document: Document = {
        "callbacks": [
            {"request_id": str(park.id), "ordered": done}
            for park, done in zip(parks, ordered, strict=True)
        ]
    }
    if refused:
        complaint = (
            f"Nothing to send again for {', '.join(refused)}: it is being sent at this moment, "
            "nothing is decided yet, nobody is to be called, or its payload was blanked."
        )
        document = documents.failure("not_resent", complaint, **document)
    done = f"Ordered again: {ordered.count(True)}."
    return Outcome(
        document=document,
        view=lambda: [done] if any(ordered) else [],
        exit_code=Exit.FAILED if refused else Exit.DONE,
        complaint=complaint,
    )


def show_key(options: Options) -> Outcome:
    """Print the keys that sign callbacks, as other Standard Webhooks libraries take them."""
    shared = [signing.shared_form(key) for key in keys.current()]
    return Outcome(document={"keys": shared}, view=lambda: shared)


def _resend(park: Park) -> bool:
    callback = CallbackDelivery.objects.get(park=park)
    with transaction.atomic(durable=True):
        return deliveries.resend(callback.id, actor=login.actor(), channel=CHANNEL)


def _document(callback: CallbackDelivery) -> Document:
    return {
        "callback_id": str(callback.id),
        "request_id": str(callback.park_id),
        "title": callback.park.title,
        "to": places.shown(callback.url),
        "status": str(callback.status),
        "attempts": callback.attempts,
        "next_attempt_at": documents.time(callback.next_attempt_at),
        "delivered_at": documents.time(callback.delivered_at),
        "last_error": callback.last_error,
    }


def _lines(callbacks: list[CallbackDelivery], status: str) -> Iterable[str]:
    """Yield two lines or three for each callback."""
    if not callbacks:
        given_up = status == CallbackStatus.DEAD
        yield "No callback has been given up." if given_up else "There is no such callback."
    for one in callbacks:
        yield f"{one.park_id}  {sayso.callback(one.status)}"
        yield f"  {line(str(one.park))} → {line(places.shown(one.url)) or 'nobody'}"
        if one.last_error:
            yield f"  attempt {one.attempts}: {line(one.last_error)}"


ERRANDS: dict[str, Callable[[Options], Outcome]] = {
    "callbacks": show,
    "resend": resend,
    "callback-key": show_key,
}
