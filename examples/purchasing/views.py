"""Where the decision about a purchase is POSTed to, signed."""

from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from examples.purchasing import purchases
from hitl import approval
from hitl.errors import HitlError


@csrf_exempt  # the signature is the permission
@require_POST
def decided(request: HttpRequest) -> HttpResponse:
    """Do what was decided. 400 for a call that is not from this project, or too old."""
    try:
        decision = approval.verify(request)
    except HitlError as error:
        return HttpResponse(error.code, status=400, content_type="text/plain")
    if decision.approved:
        purchases.order(decision.payload, approver=decision.approver or "")
    else:
        asked = approval.get(decision.approval_id).payload
        note = decision.reason or decision.status.replace("_", " ")
        purchases.decline(asked["purchase_id"], note=note)
    return HttpResponse("ok", content_type="text/plain")
