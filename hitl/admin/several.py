"""Deciding several requests at once: first shown in full, then decided, each with its own result.

One POST view. The ids are those that somebody ticked, never a filter (I11); each is decided by the
verb and in a transaction of its own, and only as it was shown. Nothing is done before the page that
shows them was confirmed.
"""

from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse

from hitl import inbox, parks, states
from hitl.admin import acts
from hitl.admin.theme import ReadOnlyAdmin
from hitl.answers import Answer
from hitl.forms import ReasonForm
from hitl.inbox import Act, NotAllowed
from hitl.models import Park
from hitl.states import Code

IDS_MAX = 50
VERDICTS = {"approve": True, "deny": False}


@dataclass(frozen=True, slots=True)
class Item:
    """One of the requests: what it is, and what came of it once it was decided."""

    address: str
    park: Park | None
    answer: Answer | None = None

    @property
    def can_be_decided(self) -> bool:
        return self.park is not None and self.park.is_pending and self.park.is_for_people


def view(admin: ReadOnlyAdmin) -> acts.View:
    """Return the view, guarded as the acts are."""

    def several(request: HttpRequest) -> HttpResponse:
        return _several(admin, request)

    return acts.guard(admin, several, back_to=_list)


def _list() -> str:
    return reverse("admin:hitl_park_changelist")


def _several(admin: ReadOnlyAdmin, request: HttpRequest) -> HttpResponse:
    if not all(inbox.may(request.user, act) for act in (Act.VIEW, Act.DECIDE)):
        return acts.refuse(admin, request, NotAllowed())
    verdict = request.POST.get("decision", "")
    addresses = list(dict.fromkeys(request.POST.getlist("request")))
    problem = _problem(verdict, addresses)
    items = [] if problem else [Item(address, _find(address)) for address in addresses]
    form = ReasonForm(request.POST)
    is_decided = not problem and "confirmed" in request.POST and form.is_valid()
    if is_decided:
        written = form.cleaned_data["reason"]
        items = [_decide(request, item, VERDICTS[verdict], written) for item in items]
    context = admin.page_context(
        request,
        title="Several requests",
        problem=problem,
        items=items,
        verdict=verdict,
        form=form if "confirmed" in request.POST else ReasonForm(),
        is_decided=is_decided,
        done=sum(item.answer is not None and item.answer.delivered for item in items),
    )
    return TemplateResponse(request, "hitl/several.html", context, status=400 if problem else 200)


def _problem(verdict: str, addresses: list[str]) -> str:
    """Say what is wrong with what was sent; nothing when it will do."""
    if verdict not in VERDICTS:
        return "Say whether to approve or to deny them."
    if not addresses:
        return "No request was ticked."
    if len(addresses) > IDS_MAX:
        return f"At most {IDS_MAX} requests are decided at once."
    return ""


def _find(address: str) -> Park | None:
    park = parks.by_id(address)
    return None if park is None or park.is_timer else park


def _decide(request: HttpRequest, item: Item, approved: bool, reason: str) -> Item:
    if item.park is None or not item.park.is_for_people:
        missing = Answer(False, Code.NOT_FOUND, states.SENTENCES[Code.NOT_FOUND])
        return Item(item.address, item.park, missing)
    shown: Any = request.POST.get(f"seen-{item.park.id}", "")
    with transaction.atomic(durable=True):
        answer = parks.decide(
            item.park.id,
            approved,
            reason=reason,
            actor=request.user,
            channel=acts.CHANNEL,
            seen=shown or "not shown",
        )
    return Item(item.address, item.park, answer)
