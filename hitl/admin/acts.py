"""Doing something with a request: one POST view per act. Calls the verbs of `hitl/parks.py`.

Each checks login, CSRF and the act's own permission, then runs its verb in a transaction of its
own. Who acts is the login; the address names the request; the form brings a reason or a result
and nothing else (I2). Safe methods are refused, so no link, scanner or prefetch decides (U6).
"""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.views import redirect_to_login
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.views.decorators.http import require_POST

from hitl import audit, extending, inbox, parks, refusals
from hitl.admin import offers, request_page
from hitl.admin.offers import Offer
from hitl.admin.theme import ReadOnlyAdmin
from hitl.errors import NotJson, TooLarge
from hitl.inbox import NotAllowed, ParkNotFound
from hitl.models import Park
from hitl.parks import Answer
from hitl.states import TOO_LATE, Code

CHANNEL = "admin"

View = Callable[..., HttpResponse]


class NotOffered(NotAllowed):
    """This cannot be done with this request. Nothing was changed."""


def view(admin: ReadOnlyAdmin, name: str) -> View:
    """Return the view of one act."""

    def act(request: HttpRequest, object_id: str) -> HttpResponse:
        return _act(admin, name, request, object_id)

    return guard(admin, act, back_to=page)


def guard(admin: ReadOnlyAdmin, act: View, *, back_to: Callable[..., str]) -> View:
    """Put login, CSRF and "POST only" around an act, and keep ATOMIC_REQUESTS from it.

    Whoever has to log in first lands on the page `back_to` and decides there: nothing is done on
    the way.
    """
    protected = admin.admin_site.admin_view(act)

    @require_POST
    def guarded(request: HttpRequest, **where: str) -> HttpResponse:
        if not admin.admin_site.has_permission(request):
            login = reverse("admin:login", current_app=admin.admin_site.name)
            return redirect_to_login(back_to(*where.values()), login)
        return protected(request, *where.values())

    return transaction.non_atomic_requests(guarded)


def refuse(admin: ReadOnlyAdmin, request: HttpRequest, error: NotAllowed) -> HttpResponse:
    """Say that this user may look but not do this."""
    context = admin.page_context(request, title="Not allowed", message=str(error))
    return TemplateResponse(request, "hitl/forbidden.html", context, status=403)


def page(object_id: str) -> str:
    """Return the address of a request's page."""
    return reverse("admin:hitl_park_change", args=[object_id])


def _act(admin: ReadOnlyAdmin, name: str, request: HttpRequest, object_id: str) -> HttpResponse:
    try:
        park, offer = _access(request.user, object_id, name)
    except ParkNotFound as error:
        raise Http404 from error
    except NotAllowed as error:
        if not isinstance(error, NotOffered):
            note(request, object_id, name)
        return refuse(admin, request, error)
    form = offer.form(request.POST)
    if form.is_valid():
        try:
            with transaction.atomic(durable=True):
                answer = _do(offer, park.id, form.cleaned_data, request.user)
        except (TooLarge, NotJson) as error:
            form.add_error("result", str(error))
        else:
            _report(request, offer, answer)
            return HttpResponseRedirect(page(str(park.id)))
    return request_page.render(admin, request, park, sent_back=(name, form), status=400)


def _access(user: Any, object_id: str, name: str) -> tuple[Park, Offer]:
    """Fetch the request and what this act means for it, if this user may do that."""
    park = inbox.access_park(user, object_id, offers.BY_NAME[name])
    offer = next((offer for offer in offers.on(park) if offer.name == name), None)
    if offer is None:
        raise NotOffered
    if not all(inbox.may(user, act) for act in offer.needs):
        raise NotAllowed
    return park, offer


def note(request: HttpRequest, object_id: str, name: str) -> None:
    """Keep in the trail that someone tried what they may not do (I2)."""
    park = parks.by_id(object_id)
    assert park is not None, "it was found, and refused"
    who = audit.person(request.user, CHANNEL)
    with transaction.atomic(durable=True):
        refusals.refuse(park, who, name, "", Code.NOT_ALLOWED, str(NotAllowed()))


def _do(offer: Offer, park_id: UUID, written: dict[str, Any], user: Any) -> Answer:
    who = {"reason": written["reason"], "actor": user, "channel": CHANNEL}
    seen = written["seen"]
    match offer.name:
        case "approve":
            return parks.decide(park_id, True, seen=seen, **who)
        case "deny":
            return parks.decide(park_id, False, seen=seen, **who)
        case "answer":
            return parks.decide(park_id, True, payload=written["result"], seen=seen, **who)
        case "cancel":
            return parks.cancel(park_id, **who)
        case "extend":
            return extending.extend(park_id, by=written["by"], **who)
    raise AssertionError(f"no such act: {offer.name}")


def _report(request: HttpRequest, offer: Offer, answer: Answer) -> None:
    """Tell what became of it. Too late is never shown as done (A1)."""
    if answer.outstanding:
        messages.success(request, f"Counted. Still needed: {answer.outstanding}.")
    elif answer.delivered:
        messages.success(request, offer.said)
    elif answer.code in TOO_LATE:
        messages.warning(request, f"Too late: nothing was changed. {answer.error}")
    else:
        messages.error(request, f"Nothing was changed. {answer.error}")
