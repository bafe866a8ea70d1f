"""People at the admin, the addresses they use, and a parser for what they are shown."""

from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

from django.contrib.auth.models import Permission, User
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from hitl.models import Decision, Park

ACTS = ("approve", "deny", "answer", "cancel")
WRITTEN = {"reason": "because", "result": "done by hand", "kind": "text"}


def person(name: str, *permissions: str, **more: Any) -> Client:
    """Return the browser of a member of staff with these permissions, logged in."""
    user = User.objects.create_user(name, **{"is_staff": True} | more)
    codenames = [permission.partition(".")[2] for permission in permissions]
    user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    client = Client()
    client.force_login(user)
    return client


def boss() -> Client:
    return person("boss", is_superuser=True)


def page(park: Park) -> str:
    return reverse("admin:hitl_park_change", args=[park.id])


def address(park: Park, act: str) -> str:
    return reverse(f"admin:hitl_park_{act}", args=[park.id])


def state(park: Park) -> tuple[str, int]:
    """Return what no refused attempt may change: the status, and the number of audit rows."""
    return Park.objects.get(id=park.id).status, Decision.objects.filter(park=park).count()


def said(response: HttpResponse) -> list[tuple[str, str]]:
    """Return the messages that the page shows, with their levels."""
    context = response.context  # type: ignore[attr-defined]
    return [(message.level_tag, message.message) for message in context["messages"]]


class Document(HTMLParser):
    """A page as a browser would build it: its elements, and its text."""

    def __init__(self, response: HttpResponse) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.scripts: list[str] = []
        self._in_script = False
        self.feed(response.content.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag == "script":
            self._in_script = True
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == "script":
            self._in_script = False

    def handle_data(self, data: str) -> None:
        if self._in_script:
            self.scripts[-1] += data
        else:
            self.text += data

    def all(self, tag: str) -> Iterator[dict[str, str | None]]:
        return (attrs for found, attrs in self.elements if found == tag)
