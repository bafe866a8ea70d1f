"""The person of the check: reads the demo's output, logs in, opens requests and presses buttons."""

from uuid import UUID

from django.urls import reverse

from examples.support_desk.check.browser import Browser, Page
from examples.support_desk.check.server import Server
from hitl.inbox import PendingInput


class Visitor:
    """Someone at a browser, who knows no more than what the demo printed."""

    def __init__(self, server: Server) -> None:
        self._inbox = server.inbox
        self.browser = Browser(server.url)

    def arrive(self) -> Page:
        """Follow the printed link."""
        return self.browser.get(self._inbox)

    def log_in(self, username: str, password: str) -> Page:
        """Fill in the login form that the link led to, and return the page that comes then."""
        page = self.arrive()
        [label] = [
            label for form in page.forms if "password" in form.fields for label in form.buttons
        ]
        return self.browser.press(page, label, username=username, password=password)

    def is_shown(self, page: Page, request_id: UUID) -> bool:
        """Tell whether this page links to the page of this request."""
        return any(_path(request_id) in link for link in page.links)

    def open(self, request: PendingInput) -> Page:
        """Find a request in the inbox and open its page."""
        assert self.is_shown(self.arrive(), request.request_id), "the inbox leads to the request"
        return self.browser.get(_path(request.request_id))

    def press(self, page: Page, label: str, **filled: str) -> Page:
        return self.browser.press(page, label, **filled)

    def moves_to(self, server: Server) -> None:
        """Go on with another start of the demo; the cookies stay."""
        self._inbox, self.browser.url = server.inbox, server.url


def _path(request_id: UUID) -> str:
    return reverse("admin:hitl_park_change", args=[request_id])
