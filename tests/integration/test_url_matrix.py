"""Every address of ours against who asks and how: who gets in, and that nothing breaks.

The addresses come from the URL map, so one that is new fails here until it has a row.
"""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.http import HttpResponse
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents.testing import call
from hitl.models import Decision, Park
from tests.desk import Desk

OURS = ("hitl_", "agents_", "support_desk_", "render_farm_", "purchasing_")
UNSAFE = ("post", "put", "patch", "delete")
METHODS = ("get", "head", "options", *UNSAFE)
UNKNOWN = "0198a000-0000-7000-8000-000000000000"

PAGE, ACT, FORM, OPEN, HOOK = "page", "act", "form", "open", "hook"
"""A page of the admin, an act of it by POST, a page that takes its own form, an address for
everybody, one for programs that hold a token."""

ROWS: dict[str, tuple[str, str]] = {
    # what it is, and the permission that it takes besides seeing what it is about
    "admin:hitl_park_changelist": (PAGE, "view_park"),
    "admin:hitl_park_change": (PAGE, "view_park"),
    "admin:hitl_park_evidence": (PAGE, "view_decision"),
    "admin:hitl_park_several": (ACT, "decide_park"),
    "admin:hitl_park_approve": (ACT, "decide_park"),
    "admin:hitl_park_deny": (ACT, "decide_park"),
    "admin:hitl_park_answer": (ACT, "answer_park"),
    "admin:hitl_park_cancel": (ACT, "cancel_park"),
    "admin:hitl_park_extend": (ACT, "extend_park"),
    "admin:hitl_park_edit": (ACT, "edit_park"),
    "admin:hitl_park_revise": (ACT, "edit_park"),
    "admin:hitl_callbackdelivery_changelist": (PAGE, "view_callbackdelivery"),
    "admin:hitl_callbackdelivery_resend": (ACT, "resend_callbackdelivery"),
    "admin:agents_thread_changelist": (PAGE, "view_thread"),
    "admin:agents_thread_change": (PAGE, "view_thread"),
    "admin:agents_thread_events": (PAGE, "view_thread"),
    "admin:agents_thread_stop": (ACT, "stop_thread"),
    "admin:agents_run_changelist": (PAGE, "view_run"),
    "admin:agents_run_change": (PAGE, "view_run"),
    "admin:agents_run_start": (FORM, "start_run"),
    "admin:agents_run_cancel": (ACT, "cancel_run"),
    "admin:agents_run_retry": (ACT, "retry_run"),
    "admin:agents_trigger_changelist": (PAGE, "view_trigger"),
    "admin:agents_trigger_page": (PAGE, "view_trigger"),
    "admin:agents_trigger_add": (FORM, "add_trigger"),
    "admin:agents_trigger_change": (FORM, "change_trigger"),
    "admin:agents_trigger_history": (PAGE, "view_trigger"),
    "admin:agents_triggerdelivery_changelist": (PAGE, "view_triggerdelivery"),
    "admin:agents_triggerdelivery_change": (PAGE, "view_triggerdelivery"),
    "admin:agents_triggerdelivery_rerun": (ACT, "rerun_triggerdelivery"),
    "admin:agents_guardrailrule_changelist": (PAGE, "view_guardrailrule"),
    "admin:agents_guardrailrule_page": (FORM, "view_guardrailrule"),
    "admin:agents_guardrailrule_add": (FORM, "add_guardrailrule"),
    "admin:agents_guardrailrule_change": (FORM, "change_guardrailrule"),
    "admin:agents_guardrailrule_delete": (ACT, "delete_guardrailrule"),
    "agents:trigger": (HOOK, ""),
    "hitl:resume": (HOOK, ""),
    "purchasing:decided": (HOOK, ""),
    "alive": (OPEN, ""),
    "ready": (OPEN, ""),
    "view": (OPEN, ""),
}
EXAMPLES = re.compile(r"admin:(support_desk|render_farm|purchasing)_\w+")
"""The admin of the examples: Django's own views of read-only tables."""


def addresses(
    resolver: Any = None, prefix: str = "/", namespace: str = ""
) -> Iterator[tuple[str, str]]:
    """Yield the name of each address of ours, and its path."""
    for pattern in (resolver or get_resolver()).url_patterns:
        path = prefix + str(pattern.pattern).removeprefix("^").removesuffix("$")
        if isinstance(pattern, URLResolver):
            inner = f"{namespace}{pattern.namespace}:" if pattern.namespace else namespace
            yield from addresses(pattern, path, inner)
        elif isinstance(pattern, URLPattern):
            name = f"{namespace}{pattern.name or pattern.callback.__name__}"
            if not name.startswith("admin:") or name.removeprefix("admin:").startswith(OURS):
                yield name, path


FOUND = dict(addresses())
ADMIN = sorted(name for name in FOUND if name.startswith("admin:"))


def path_of(name: str, park: Park | None = None) -> str:
    """Return the path: of a request that is there where one is shown, else of something unknown."""
    found = park.id if park is not None and name.startswith("admin:hitl_park_") else UNKNOWN
    return re.sub(r"<(?:\w+:)?\w+>", str(found), FOUND[name])


def client_of(name: str, **more: Any) -> Client:
    user = User.objects.create_user(name, **more)
    client = Client()
    client.force_login(user)
    return client


def ask(client: Client, method: str, path: str) -> HttpResponse:
    response: HttpResponse = getattr(client, method)(path)
    return response


def rows() -> tuple[Any, ...]:
    """Return what no refused request may change."""
    parks = list(Park.objects.order_by("id").values("id", "status", "expires_at", "digest"))
    return parks, Decision.objects.exclude(verb="refused").count()


@pytest.fixture
def park(desk: Desk) -> Park:
    desk.open([call("send", to="ana")], "Done.", tools=desk.tools(editable=True))
    [opened] = desk.parks()
    return opened


@pytest.mark.promise("U6")
def test_every_address_of_ours_has_a_row() -> None:
    assert sorted(name for name in FOUND if name not in ROWS and not EXAMPLES.match(name)) == []
    assert sorted(set(ROWS) - set(FOUND)) == []


@pytest.mark.promise("U6")
@pytest.mark.parametrize("name", ADMIN)
def test_nobody_gets_in_without_being_of_the_staff(park: Park, name: str) -> None:
    before, path = rows(), path_of(name, park)
    for client in (Client(), client_of("customer")):
        for method in METHODS:
            response = ask(client, method, path)
            if response.status_code == 302:
                assert response["Location"].startswith("/admin/login/"), method
            else:
                assert response.status_code == 405, method
    assert rows() == before


@pytest.mark.promise("U6")
@pytest.mark.parametrize("name", ADMIN)
def test_staff_without_the_permission_see_and_do_nothing(park: Park, name: str) -> None:
    before, path = rows(), path_of(name, park)
    client = client_of("staff", is_staff=True)
    for method in METHODS:
        # A page of Django's that is not there leads back to the start, which is no way in.
        response = ask(client, method, path)
        lost = response.status_code == 302 and response["Location"] == "/admin/"
        assert response.status_code in (403, 404, 405) or lost, (method, response.status_code)
    assert rows() == before


@pytest.mark.promise("U6")
@pytest.mark.parametrize("name", sorted(name for name in ROWS if "hitl_park" in name))
def test_each_address_of_a_request_takes_its_own_permission(park: Park, name: str) -> None:
    kind, permission = ROWS[name]
    before, path = rows(), path_of(name, park)
    every = ["decide", "answer", "cancel", "extend", "edit", "reveal"]
    others = {f"{word}_park" for word in every} | {"view_decision"}
    users = {"holder": {"view_park", permission}, "other": {"view_park", *others} - {permission}}
    if name.endswith("revise"):
        users["holder"].add("decide_park")
    if permission == "view_park":
        users["other"].discard("view_park")
    method = "get" if kind == PAGE else "post"
    for who in ("other", "holder"):
        client = client_of(who, is_staff=True)
        codenames = Permission.objects.filter(codename__in=users[who])
        User.objects.get(username=who).user_permissions.set(codenames)
        response = ask(client, method, path)
        refused = 404 if permission == "view_park" else 403
        if name.endswith("changelist"):
            refused = 403
        if who == "other":
            assert response.status_code == refused
            assert rows() == before
        elif name.endswith("edit"):  # a payload belongs to standalone requests
            assert response.status_code == 403
        else:
            assert response.status_code in (200, 302, 400)


@pytest.mark.promise("U6", "U7")
@pytest.mark.parametrize("name", sorted(FOUND))
def test_safe_methods_change_nothing_and_acts_take_post_alone(park: Park, name: str) -> None:
    before, path = rows(), path_of(name, park)
    client = client_of("boss", is_staff=True, is_superuser=True)
    kind = ROWS.get(name, (PAGE, ""))[0]
    for method in METHODS:
        if method == "post":
            continue
        response = ask(client, method, path)
        assert response.status_code < 500, method
        if kind in (ACT, HOOK):
            assert response.status_code in (404, 405), method
        elif method == "get":
            assert response.status_code in (200, 302, 403, 404, 503)
    assert rows() == before


WORDS = st.text(max_size=30) | st.sampled_from(
    ["approve", "deny", "yes", "{}", "[", "\0", "1h", "json", "text", "\ud83d", "9" * 400, UNKNOWN]
)
FIELDS = st.sampled_from(
    [
        *("reason", "result", "kind", "seen", "by", "payload", "decision", "request", "confirmed"),
        *("value-0", "value-1", "name", "slug", "workflow", "input", "_save", "action"),
    ]
)
KINDS = ("application/json", "application/x-www-form-urlencoded", "multipart/form-data", "")
BODIES = st.dictionaries(FIELDS, WORDS | st.lists(WORDS, max_size=3), max_size=6)


@pytest.mark.promise("U6", "H4")
@pytest.mark.parametrize("name", sorted(name for name in FOUND if not EXAMPLES.match(name)))
@settings(
    max_examples=6,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(body=BODIES, raw=st.binary(max_size=60), kind=st.sampled_from(KINDS), known=st.booleans())
def test_no_body_is_a_500(
    park: Park, name: str, body: dict[str, Any], raw: bytes, kind: str, known: bool
) -> None:
    user, _ = User.objects.get_or_create(username="boss", is_staff=True, is_superuser=True)
    client = Client()
    client.force_login(user)
    sent = {
        key: [_sendable(one) for one in value] if isinstance(value, list) else _sendable(value)
        for key, value in body.items()
    }
    path = path_of(name, park if known else None)
    assert client.post(path, sent).status_code < 500
    assert client.post(path, raw, content_type=kind).status_code < 500


def _sendable(text: str) -> str:
    """Return what a client can put on the wire; a lone surrogate it cannot."""
    return text.encode("utf-8", "replace").decode()
