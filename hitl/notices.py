"""Telling people something about a request: the port to e-mail and whatever a project adds.

`HITL["NOTIFIERS"]` lists functions by their dotted path. Each is given a Notice, outside of any
transaction, and may raise: the failure is logged, the others are called, and no state rests on it.
A notice carries an address to a page, never one that decides (U7).
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib.auth import get_user_model
from django.core.mail import EmailMessage
from django.db.models import Q
from django.urls import NoReverseMatch, reverse
from django.utils.module_loading import import_string

from hitl import approvers, conf, display, subjects
from hitl.models import Park

logger = logging.getLogger(__name__)

RECIPIENTS_MAX = 50


@dataclass(frozen=True, slots=True)
class Notice:
    """What is to be told, to whom. `kind` is for programs; no argument of the request is in it."""

    kind: str
    park: Park
    recipients: Sequence[Any]
    subject: str
    text: str


Notifier = Callable[[Notice], object]


def send(notice: Notice) -> list[str]:
    """Hand a notice to every notifier; return the names of those that took it."""
    took = []
    for name in conf.notifiers():
        try:
            import_string(name)(notice)
        except Exception:
            logger.exception("request %s: the notifier %s failed", notice.park.id, name)
        else:
            took.append(name)
    return took


def email(notice: Notice) -> None:
    """Send an e-mail through Django to all recipients that have an address."""
    addresses = [user.email for user in notice.recipients if getattr(user, "email", "")]
    if addresses:
        subject = display.visible(notice.subject).replace("\n", " ")
        EmailMessage(subject, notice.text, bcc=addresses).send()


def log(notice: Notice) -> None:
    """Write the notice into the log."""
    logger.info("request %s: %s", notice.park.id, notice.subject)


def owners(park: Park) -> list[Any]:
    """Return whom a request concerns: its named approvers, or else the owner of the work."""
    names = approvers.read(park.policy).names
    if names:
        return _users(names)
    subject = subjects.of(park)
    owner = subject.owner(park) if subject is not None else None
    return [owner] if owner is not None and owner.is_active else []


def address(park: Park) -> str:
    """Return the address of the request's page; empty where the project has no such page."""
    try:
        return conf.base_url() + reverse("admin:hitl_park_change", args=[park.id])
    except NoReverseMatch:
        return ""


def _users(names: Sequence[str]) -> list[Any]:
    model: Any = get_user_model()
    wanted: dict[str, list[str]] = {"user": [], "group": []}
    for name in names:
        kind, _, rest = name.partition(":")
        wanted[kind].append(rest)
    by_name = {f"{model.USERNAME_FIELD}__in": wanted["user"]}
    found = model._default_manager.filter(is_active=True)
    found = found.filter(Q(**by_name) | Q(groups__name__in=wanted["group"]))
    return list(found.distinct().order_by("pk")[:RECIPIENTS_MAX])
