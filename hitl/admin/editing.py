"""Changing the payload of a standalone request, from its page: one POST view (I6)."""

from django.contrib import messages
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect

from hitl import editing, inbox
from hitl.admin import acts, request_page
from hitl.admin.theme import ReadOnlyAdmin
from hitl.errors import NotJson, TooLarge
from hitl.inbox import Act, NotAllowed, ParkNotFound
from hitl.payload_forms import PayloadForm


def view(admin: ReadOnlyAdmin) -> acts.View:
    """Return the view that takes the form of a payload."""

    def edit(request: HttpRequest, object_id: str) -> HttpResponse:
        return _edit(admin, request, object_id)

    return acts.guard(admin, edit, back_to=acts.page)


def _edit(admin: ReadOnlyAdmin, request: HttpRequest, object_id: str) -> HttpResponse:
    try:
        park = inbox.access_park(request.user, object_id, Act.EDIT)
        if not park.is_standalone:
            raise NotAllowed("This cannot be done with this request. Nothing was changed.")
    except ParkNotFound as error:
        raise Http404 from error
    except NotAllowed as error:
        return acts.refuse(admin, request, error)
    form = PayloadForm(request.POST, payload=park.arguments)
    if form.is_valid():
        try:
            with transaction.atomic(durable=True):
                answer = editing.edit(
                    park.id,
                    form.cleaned_data["payload"],
                    seen=form.cleaned_data["seen"],
                    actor=request.user,
                    channel=acts.CHANNEL,
                )
        except (TooLarge, NotJson) as error:
            form.add_error(None, str(error))
        else:
            if answer.delivered:
                messages.success(request, "Changed. The requester will get this payload.")
            else:
                messages.warning(request, f"Too late: nothing was changed. {answer.error}")
            return HttpResponseRedirect(acts.page(str(park.id)))
    return request_page.render(admin, request, park, payload_form=form, status=400)
