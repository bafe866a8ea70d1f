"""A page in headless Chromium. `CHROMIUM` names another binary than Debian's."""

import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Page

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or "/usr/bin/chromium"
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SIZES = {"desktop": {"width": 1280, "height": 900}, "phone": {"width": 390, "height": 844}}


@pytest.fixture(params=sorted(SIZES))
def page(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> "Iterator[Page]":
    """A new browser's page, once as wide as a desktop and once as a phone.

    Fails the test for anything that the page complains about: an error in a script, a file that is
    missing, a policy that was violated.
    """
    from playwright.sync_api import sync_playwright

    # The driver keeps an event loop in this thread, in which Django refuses to use the database.
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
    complaints: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        page = browser.new_page(viewport=SIZES[request.param])
        page.set_default_timeout(15_000)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "console",
            lambda message: complaints.append(message.text) if message.type == "error" else None,
        )
        yield page
        browser.close()
    assert complaints == []
