"""Changing a call's arguments and approving them in one act, from its page: one POST view (A9)."""

from django.contrib import messages
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect

from hitl import edits, inbox, parks
from hitl.admin import acts, request_page
from hitl.admin.theme import ReadOnlyAdmin
from hitl.argument_forms import ArgumentsForm
from hitl.inbox import Act, NotAllowed, ParkNotFound
from hitl.models import Park
from hitl.subjects import InvalidEdit

SAID = "Approved. The tool will run with the arguments as you changed them."


def view(admin: ReadOnlyAdmin) -> acts.View:
    """Return the view that takes the form of the arguments."""

    def revise(request: HttpRequest, object_id: str) -> HttpResponse:
        return _revise(admin, request, object_id)

    return acts.guard(admin, revise, back_to=acts.page)


def _revise(admin: ReadOnlyAdmin, request: HttpRequest, object_id: str) -> HttpResponse:
    try:
        park = inbox.access_park(request.user, object_id, Act.EDIT)
        if not inbox.may(request.user, Act.DECIDE):
            raise NotAllowed
        if park.is_standalone or not park.editable:
            raise acts.NotOffered
    except ParkNotFound as error:
        raise Http404 from error
    except NotAllowed as error:
        if not isinstance(error, acts.NotOffered):
            acts.note(request, object_id, "revise")
        return acts.refuse(admin, request, error)
    form = ArgumentsForm(request.POST, park=park)
    if form.is_valid() and _decide(request, park, form):
        return HttpResponseRedirect(acts.page(str(park.id)))
    status = 400 if edits.may_be_edited(park) else 409
    return request_page.render(admin, request, park, arguments_form=form, status=status)


def _decide(request: HttpRequest, park: Park, form: ArgumentsForm) -> bool:
    """Approve with these arguments; False when they do not fit, which the form then says."""
    try:
        with transaction.atomic(durable=True):
            answer = parks.decide(
                park.id,
                True,
                arguments=form.cleaned_data["payload"],
                reason=form.cleaned_data["reason"],
                seen=form.cleaned_data["seen"],
                actor=request.user,
                channel=acts.CHANNEL,
            )
    except InvalidEdit as error:
        form.add_error(None, str(error))
        return False
    if answer.delivered:
        messages.success(request, SAID)
    else:
        messages.warning(request, f"Nothing was changed. {answer.error}")
    return True
