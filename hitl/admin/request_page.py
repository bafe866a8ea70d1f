"""The page of one request: what is asked, by whom, what was done and what may be done. Only reads.

Costs the same number of queries whatever the request or its trail holds.
"""

from dataclasses import dataclass
from typing import Any

from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from hitl import approvers, clock, edits, inbox, subjects, values, voting, waiters
from hitl.admin import offers
from hitl.admin.offers import Offer
from hitl.admin.theme import ReadOnlyAdmin
from hitl.argument_forms import ArgumentsForm
from hitl.callbacks import addresses, deliveries
from hitl.forms import ReasonForm
from hitl.inbox import Act
from hitl.models import CallbackDelivery, Decision, Park, Vote
from hitl.payload_forms import PayloadForm
from hitl.states import Reason
from hitl.trail import evidence

TRAIL_MAX = 200
DECISIONS = frozenset({"approve", "deny", "answer", "revise"})
# Above this the arguments are shown once, as JSON: twice would bury the rest of the page.
READABLE_CHARS_MAX = 20_000


@dataclass(frozen=True, slots=True)
class Choice:
    """An act that this user may do now, with its form, filled in if it was sent back."""

    offer: Offer
    form: ReasonForm
    is_open: bool


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument to read: a text as it is, anything else as JSON."""

    name: str
    value: values.JSON

    @property
    def is_text(self) -> bool:
        return isinstance(self.value, str)


def render(
    admin: ReadOnlyAdmin,
    request: HttpRequest,
    park: Park,
    *,
    sent_back: tuple[str, ReasonForm] | None = None,
    payload_form: PayloadForm | None = None,
    arguments_form: ArgumentsForm | None = None,
    status: int = 200,
) -> HttpResponse:
    """Show a request. `sent_back` is the act and the form that was not accepted.

    `payload_form` and `arguments_form` are forms of what is asked that were not accepted.
    """
    arguments = _arguments(request.user, park)
    trail = list(Decision.objects.filter(park=park).order_by("id")[: TRAIL_MAX + 1])
    context = admin.page_context(
        request,
        title="Request",
        park=park,
        asked_by=park.asked_by or "A program",
        is_overdue=park.is_overdue(clock.now()),
        is_in_doubt=park.reason == Reason.IN_DOUBT,
        denied_before=park.metadata.get("denied_before"),
        payload=_payload(park),
        is_line=park.is_job and not park.is_for_people,
        readable=_readable(arguments),
        arguments=arguments,
        exact=arguments is not park.arguments,
        hidden=bool(park.redacted),
        changed=_changed(park),
        choices=_choices(request.user, park, sent_back),
        may_audit=inbox.may(request.user, Act.AUDIT),
        **_approvers(request.user, park),
        trail=trail[:TRAIL_MAX],
        trail_is_cut=len(trail) > TRAIL_MAX,
        work_url=_work_url(request.user, park),
        following=_following(park),
        arguments_form=arguments_form or _arguments_form(request.user, park),
        payload_form=payload_form or _payload_form(request.user, park),
        **_callback(request.user, park),
    )
    return TemplateResponse(request, "hitl/request.html", context, status=status)


@dataclass(frozen=True, slots=True)
class Change:
    """One argument that a reviewer changed."""

    name: str
    proposed: values.JSON
    approved: values.JSON


def _arguments(user: Any, park: Park) -> Any:
    """Return what is asked about; without masks to those who may see behind them (O6)."""
    subject = subjects.of(park)
    if not park.redacted or subject is None or not inbox.may(user, Act.REVEAL):
        return park.arguments
    return subject.exact(park)


def _changed(park: Park) -> list[Change]:
    """Return what differs between the proposed arguments and the effective ones."""
    before, after = park.proposed, park.arguments
    if park.blanked_at is not None or not isinstance(before, dict) or not isinstance(after, dict):
        return []
    return [
        Change(name, before.get(name), after.get(name))
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]


def _approvers(user: Any, park: Park) -> dict[str, Any]:
    """Return who has to approve, who has, and why this user may not."""
    standing = evidence.standing(park)
    if not standing:
        return {"standing": []}
    votes = list(Vote.objects.filter(park=park, digest=park.digest).order_by("at", "id"))
    outstanding = voting.outstanding(approvers.read(park.policy), voting.ballots_of(park))
    refusal = voting.judge(user, park, approves=True) if park.is_pending else None
    return {
        "standing": standing,
        "votes": votes,
        "outstanding": outstanding if park.is_pending else "",
        "refusal": refusal[1] if refusal is not None and inbox.may(user, Act.DECIDE) else "",
    }


def _choices(user: Any, park: Park, sent_back: tuple[str, ReasonForm] | None) -> list[Choice]:
    if not park.is_pending or park.is_overdue(clock.now()):
        return []
    name, form = sent_back or ("", None)
    return [
        Choice(offer, form if form and offer.name == name else offer.form(), offer.name == name)
        for offer in offers.on(park)
        if all(inbox.may(user, act) for act in offer.needs) and _counts(user, park, offer)
    ]


def _counts(user: Any, park: Park, offer: Offer) -> bool:
    """Tell whether the approvers of this request leave this act to this user."""
    if not park.policy or offer.name not in DECISIONS:
        return True
    if offer.name == "answer" and approvers.read(park.policy).takes_several:
        return False
    return voting.judge(user, park, approves=offer.name != "deny") is None


def _payload_form(user: Any, park: Park) -> PayloadForm | None:
    """Return the form that changes the payload, for those who may do that now."""
    is_open = park.is_pending and not park.is_overdue(clock.now())
    if not (park.is_standalone and is_open and inbox.may(user, Act.EDIT)):
        return None
    return PayloadForm(payload=park.arguments)


def _arguments_form(user: Any, park: Park) -> ArgumentsForm | None:
    """Return the form that changes the arguments and approves, for those who may do that now."""
    is_open = edits.may_be_edited(park) and not park.is_overdue(clock.now())
    allowed = all(inbox.may(user, act) for act in (Act.EDIT, Act.DECIDE))
    if park.is_standalone or not is_open or not allowed:
        return None
    if approvers.read(park.policy).takes_several or voting.judge(user, park, approves=True):
        return None
    return ArgumentsForm(park=park)


def _callback(user: Any, park: Park) -> dict[str, Any]:
    """Return who is told of a standalone request, and whether this user may send it again."""
    callback = CallbackDelivery.objects.filter(park=park).first() if park.is_standalone else None
    if callback is None:
        return {"callback": None}
    now = clock.now()
    is_at_it = callback.lease_until is not None and callback.lease_until > now
    return {
        "callback": callback,
        "callback_to": addresses.shown(callback.url),
        "may_resend": callback.status in deliveries.AGAIN
        and not is_at_it
        and inbox.may(user, Act.RESEND),
    }


def _payload(park: Park) -> dict[str, Any] | None:
    """Return the answer if a payload came with it, so that an empty one is not the same as none."""
    return park.answer if park.answer and "payload" in park.answer else None


def _readable(arguments: Any) -> list[Argument]:
    """Return the arguments one by one, where that is easier to read than JSON."""
    if not isinstance(arguments, dict) or len(values.dumps(arguments)) > READABLE_CHARS_MAX:
        return []
    return [Argument(name, value) for name, value in arguments.items()]


def _work_url(user: Any, park: Park) -> str | None:
    """Return the page about the work that asked, to those who may open it."""
    if not waiters.known(park.waiter_kind):
        return None
    waiter = waiters.of(park.waiter_kind)
    return waiter.url(park) if user.has_perm(waiter.permission) else None


def _following(park: Park) -> Park | None:
    """Return the request to look at next: the one with the nearest deadline that can be met."""
    in_time = Q(expires_at__gt=clock.now()) | Q(expires_at__isnull=True)
    rows = Park.objects.pending().for_people().filter(in_time).exclude(id=park.id).soonest_first()
    return rows.only("id", "title", "reason", "key").first()
