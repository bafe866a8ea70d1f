"""Where events arrive: checked, written as one row and answered at once. A task does the rest."""

import hashlib

from django.db import transaction
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from agents import conf
from agents.models import Trigger
from agents.triggers import deliveries, mapping, verification
from agents.triggers.verification import Incoming
from hitl import bodies, clock
from hitl.errors import BadJson, HitlError, TooLarge

GROWTH_MAX = 3  # times that a body may take more room in ASCII than in UTF-8


@csrf_exempt  # the signature is the permission; there is no session to ride on
@require_POST
@transaction.non_atomic_requests
def receive(request: HttpRequest, slug: str) -> HttpResponse:
    """Take an event as JSON: 202 with the id of its delivery, once that is committed.

    200 `{"duplicate": true}` for a delivery id that came before; 404 for an unknown trigger or one
    that is not enabled, 413 for a body that is too large, 401 for a bad signature or secret, 400
    for a body that is no JSON.
    """
    trigger = Trigger.objects.filter(slug=slug, enabled=True).first()
    if trigger is None:
        return _error(404, "not_found", "There is no such trigger.")
    most = conf.count("TRIGGER_BYTES_MAX")
    try:
        body = bodies.read(request, size_max=most)
    except TooLarge as error:
        return _refused(trigger, 413, error.code, str(error))
    if why := _distrust(trigger, request, body):
        return _refused(trigger, 401, "not_verified", why)
    try:
        event = bodies.parse(body, size_max=most * GROWTH_MAX)
    except (BadJson, TooLarge) as error:
        return _refused(trigger, 400, error.code, str(error))
    fault, delivery_id = "", None
    try:
        delivery_id = mapping.delivery_id(trigger, event, request.headers)
    except HitlError as error:  # kept and shown: it is the trigger that is to be mended
        fault = str(error)
    delivery, is_new = deliveries.receive(
        trigger,
        delivery_id=delivery_id,
        digest="sha256:" + hashlib.sha256(body).hexdigest(),
        body=event,
        error=fault,
    )
    answer = {"delivery": str(delivery.id), "duplicate": not is_new}
    return JsonResponse(answer, status=202 if is_new else 200)


def _distrust(trigger: Trigger, request: HttpRequest, body: bytes) -> str | None:
    return verification.fault(
        Incoming(request.headers, body, clock.now()),
        scheme=trigger.verification,
        secrets=conf.trigger_secrets(trigger.secret),
        header=trigger.header,
    )


def _refused(trigger: Trigger, status: int, code: str, why: str) -> HttpResponse:
    deliveries.refused(trigger, why)
    # Whoever is not trusted is not told what would have been right.
    return _error(status, code, "The request is not verified." if status == 401 else why)


def _error(status: int, code: str, sentence: str) -> HttpResponse:
    return JsonResponse({"code": code, "error": sentence}, status=status)
