"""How many requests wait for a person, for a sidebar or a landing page. Reads only.

A job that finishes by itself calls for nobody: it is listed in the inbox and not counted here.
"""

from typing import Any

from django.http import HttpRequest
from django.urls import reverse

from hitl import inbox
from hitl.inbox import Act
from hitl.models import Park

COUNTED_MAX = 99
SHOWN_MAX = 5


def badge(request: HttpRequest) -> str:
    """Return how many requests call for a person, "99+" beyond; empty when none, or not allowed."""
    if not inbox.may(request.user, Act.VIEW):
        return ""
    # Ordered as an index is, which keeps the count from reading the table.
    count = Park.objects.pending().for_people().soonest_first()[: COUNTED_MAX + 1].count()
    return f"{COUNTED_MAX}+" if count > COUNTED_MAX else str(count or "")


def landing(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Add the requests whose deadlines come next to the context of the landing page.

    For unfold's `DASHBOARD_CALLBACK`; `hitl/waiting.html` shows them.
    """
    if not inbox.may(request.user, Act.VIEW):
        return context
    rows = Park.objects.pending().for_people().soonest_first()
    return context | {
        "waiting": list(rows.defer("arguments", "description", "answer")[:SHOWN_MAX]),
        "waiting_count": badge(request),
        "inbox_url": reverse("admin:hitl_park_changelist"),
    }
