"""The settings and addresses of a project that has Django's own admin, without a theme.

Run as a script, it walks through the screens there: a theme is chosen when the apps are loaded, so
this needs a process of its own.
"""

import os

from tests.settings import *  # noqa: F403
from tests.settings import INSTALLED_APPS as THEMED_APPS

INSTALLED_APPS = [app for app in THEMED_APPS if app != "unfold" and not app.startswith("examples.")]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
ROOT_URLCONF = "tests.integration.plain_urls"
CALLBACKS = "/admin/hitl/callbackdelivery/?status=all"


def walk() -> None:
    """Open each page, approve a request, and see the thread finish."""
    import django

    django.setup()
    from django.core.management import call_command
    from django.test.utils import setup_test_environment

    setup_test_environment()
    call_command("migrate", verbosity=0)
    from agents.testing import call, run_worker
    from tests.desk import Desk
    from tests.integration.admin_site import address, boss, page, said

    desk, client = Desk(), boss()
    desk.open([call("send", to="ana")], "Done.")
    [park] = desk.parks()
    thread = f"/admin/agents/thread/{desk.thread.id}/"
    for url in ("/admin/", "/admin/hitl/park/", page(park), thread, f"{thread}events/"):
        response = client.get(url)
        assert response.status_code == 200, url
        assert b"unfold" not in response.content, url
    from hitl import approval

    entry = approval.request(topic="refund", payload={"amount": 249.0}, on_decide="/decide/")
    standalone = f"/admin/hitl/park/{entry.approval_id}/"
    for url, shown in ((standalone, b"Change the payload"), (CALLBACKS, b"/decide/")):
        response = client.get(url)
        assert response.status_code == 200, url
        assert shown in response.content, url
    approval.cancel(entry.approval_id)
    assert b"Run send?" in client.get("/admin/hitl/park/").content
    answered = client.post(address(park, "approve"), follow=True)
    assert [level for level, _ in said(answered)] == ["success"]
    run_worker()
    assert desk.effects == ["send ana 1"]
    assert b"Done." in client.get(thread).content
    from agents.guardrails import rulebook

    bad = {"words": ["bad"]}
    made = rulebook.create(
        name="No bad words", where="input", check="words", settings=bad, action="block"
    )
    rules = "/admin/agents/guardrailrule/"
    for url in ("", "add/", "add/?check=personal_data", f"{made.id}/", f"{made.id}/change/"):
        response = client.get(rules + url)
        assert response.status_code == 200, url
        assert b"unfold" not in response.content, url


if __name__ == "__main__":
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.integration.plain_admin"
    walk()
