"""The sidebar of the admin: only what its reader may see. Reads rows."""

from typing import Any

from django.http import HttpRequest
from django.templatetags.static import static
from django.urls import NoReverseMatch, reverse

from hitl.admin import waiting

Item = dict[str, Any]

# Title, icon, the view's name, and who may see it.
LINKS: dict[str, list[tuple[str, str, str, str]]] = {
    "Work": [
        ("Inbox", "inbox", "hitl_park", "hitl.view_park"),
        (
            "Callbacks",
            "outgoing_mail",
            "hitl_callbackdelivery",
            "hitl.view_callbackdelivery",
        ),
        ("Threads", "forum", "agents_thread", "agents.view_thread"),
        ("Workflow runs", "account_tree", "agents_run", "agents.view_run"),
    ],
    "Rules": [
        ("Guardrails", "shield", "agents_guardrailrule", "agents.view_guardrailrule"),
    ],
    "Outside": [
        ("Triggers", "bolt", "agents_trigger", "agents.view_trigger"),
        ("What came", "move_to_inbox", "agents_triggerdelivery", "agents.view_triggerdelivery"),
    ],
    "The shop": [
        ("Orders", "shopping_bag", "support_desk_order", "support_desk.view_order"),
        ("Refunds", "payments", "support_desk_refund", "support_desk.view_refund"),
        ("Purchases", "shopping_cart", "purchasing_purchase", "purchasing.view_purchase"),
        ("Outbox", "mail", "support_desk_mail", "support_desk.view_mail"),
    ],
    "Settings": [
        ("Users", "person", "auth_user", "auth.view_user"),
        ("Groups", "group", "auth_group", "auth.view_group"),
        (
            "Periodic tasks",
            "schedule",
            "django_celery_beat_periodictask",
            "django_celery_beat.view_periodictask",
        ),
    ],
}


def sidebar(request: HttpRequest) -> list[Item]:
    """Return the groups of links for unfold's sidebar; the inbox carries the number that waits."""
    groups: list[Item] = []
    for title, links in LINKS.items():
        items = [
            item
            for name, icon, view, permission in links
            if request.user.has_perm(permission)
            and (item := _item(request, name, icon=icon, view=view)) is not None
        ]
        if items:
            groups.append({"title": title, "separator": bool(groups), "items": items})
    return groups


def favicon(request: HttpRequest) -> str:
    """Return the address of the small picture in a browser's tab."""
    return static("hitl/favicon.svg")


def _item(request: HttpRequest, title: str, *, icon: str, view: str) -> Item | None:
    try:
        link = reverse(f"admin:{view}_changelist")
    except NoReverseMatch:  # an app that is not installed
        return None
    item: Item = {"title": title, "icon": icon, "link": link}
    if view == "hitl_park" and (badge := waiting.badge(request)):
        item |= {"badge": badge, "badge_variant": "warning"}
    return item
