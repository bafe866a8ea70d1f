"""HTTP for programs: the webhook that resumes a parked call. One verb per view, durable."""

import logging

from django.db import transaction
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from hitl import answers, bodies, conf, parks, resuming
from hitl.audit import Actor
from hitl.errors import BadJson, HitlError, NotJson, TooLarge

logger = logging.getLogger(__name__)

CHANNEL = "webhook"
ACTOR = "resume address"


@csrf_exempt  # the token in the address is the permission; there is no session to ride on
@require_POST
@transaction.non_atomic_requests
def resume(request: HttpRequest, token: str) -> HttpResponse:
    """Take a JSON body as the result of the one call that this address is for (J2).

    200 `{"delivered": true}`; 409 with code and sentence when it came too late; 400 for a body that
    is no JSON, 404 for a token that is forged or too old, 413 for a body that is too large.
    """
    meant = resuming.read(token)
    if meant is None:
        return _error(404, "not_found", "This address is not valid, or no longer.")
    try:
        most = conf.payload_bytes_max()
        payload = bodies.parse(bodies.read(request, size_max=most), size_max=most)
    except TooLarge as error:
        return _refused(413, error)
    except (BadJson, NotJson) as error:
        return _refused(400, error)
    kind, waiter_id, key = meant
    with transaction.atomic(durable=True):
        given = answers.read(True, Actor(ACTOR, CHANNEL), payload=payload)
        answer = parks.resume(kind, waiter_id, key, given)
    if answer.delivered:
        return JsonResponse({"delivered": True})
    return _error(409, str(answer.code), str(answer.error))


def _refused(status: int, error: HitlError) -> JsonResponse:
    return _error(status, error.code, str(error))


def _error(status: int, code: str, sentence: str) -> JsonResponse:
    return JsonResponse({"delivered": False, "code": code, "error": sentence}, status=status)
