"""Plays the world outside: posts to the shop's triggers what a mail server would.

A real request to a real address, with the secret that only the two of them know.
"""

import json
import urllib.error
import urllib.request
import uuid
from typing import Any

from django.conf import settings
from django.urls import reverse

SECONDS_MAX = 5
HEADER = "X-Webhook-Secret"


def reply(mail_id: int, text: str) -> int:
    """Answer a mail as its receiver; returns the HTTP status, 202 when the event was taken."""
    return post("mails", {"id": str(uuid.uuid4()), "mail_thread": f"mail-{mail_id}", "text": text})


def post(
    slug: str, event: dict[str, Any], *, secret: str | None = None, site: str | None = None
) -> int:
    """Post an event to a trigger and return the HTTP status.

    `site` is the address of the site, this one by default.
    """
    key = settings.AGENTS["TRIGGER_SECRETS"]["demo"] if secret is None else secret
    request = urllib.request.Request(  # noqa: S310  (an address of this site)
        (site or settings.HITL["BASE_URL"]) + reverse("agents:trigger", args=[slug]),
        data=json.dumps(event).encode(),
        headers={"Content-Type": "application/json", HEADER: key},
    )
    try:
        with urllib.request.urlopen(request, timeout=SECONDS_MAX) as response:  # noqa: S310
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code
