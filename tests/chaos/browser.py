"""Somebody at the admin: logs in with the form, sends the request page's forms, reads the page."""

import os
from http.cookiejar import CookieJar
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, Request, build_opener

from django.urls import reverse

from hitl.admin import offers
from hitl.states import SENTENCES, Code
from tests.chaos.people import PASSWORD, USERS

NAME = USERS["browser"]
SECONDS_MAX = 20
SAID = {
    offer.said
    for kind in (
        *(offers.GATE, offers.GATE_FOR_CONTEXT, offers.IN_DOUBT, offers.JOB),
        *(offers.QUESTION_OF_A_TOOL, offers.OF_A_BODY, offers.STEP_IN_DOUBT),
        *(offers.STANDALONE, offers.HELD),
    )
    for offer in kind
}
TOO_LATE = "Too late"
REFUSED = "Nothing was changed."
ONE_OF_SEVERAL = "Counted. Still needed"


class Browser:
    """Keeps cookies, and so its login, as long as it lives."""

    def __init__(self) -> None:
        self._cookies = CookieJar()
        self._opener = build_opener(HTTPCookieProcessor(self._cookies))
        self._root = os.environ["CHAOS_WEB"]
        self._is_read = True

    def act(self, request_id: str, act: str, fields: dict[str, str]) -> tuple[bool | None, str]:
        """Send one form; returns whether the page says that it counted, and a code
        when it did not, or not alone.

        None when the site gave no answer that could be relied on.
        """
        try:
            self._log_in()
            if not self._is_read:  # an answer whose page was lost shows on the next one
                self._visit(reverse("admin:hitl_park_changelist"))
            self._is_read = False
            page = self._visit(reverse(f"admin:hitl_park_{act}", args=[request_id]), fields)
            self._is_read = True
        except HTTPError as error:
            return None, f"status {error.code}"
        except OSError as error:
            return None, type(error).__name__
        if ONE_OF_SEVERAL in page:
            return True, str(Code.COUNTED)
        if any(said in page for said in SAID):
            return True, ""
        if TOO_LATE in page:
            return False, next((code for code, says in SENTENCES.items() if says in page), "")
        if REFUSED in page:
            return False, "refused"
        return None, "the page does not say"

    def _log_in(self) -> None:
        if self._cookie("sessionid"):
            return
        path = reverse("admin:login")
        self._visit(path)
        told = {"username": NAME, "password": PASSWORD, "next": reverse("admin:index")}
        self._visit(path, told)

    def _visit(self, path: str, fields: dict[str, str] | None = None) -> str:
        """Get a page or send a form, follow where it leads, and return the page's text."""
        data = None
        if fields is not None:
            token = {"csrfmiddlewaretoken": self._cookie("csrftoken")}
            data = urlencode(fields | token).encode()
        request = Request(self._root + path, data=data)  # noqa: S310  (an address of our own)
        with self._opener.open(request, timeout=SECONDS_MAX) as response:
            text: str = response.read().decode()
        return text

    def _cookie(self, name: str) -> str:
        return next((cookie.value or "" for cookie in self._cookies if cookie.name == name), "")
