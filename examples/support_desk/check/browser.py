"""A browser without a window: fetches pages, keeps cookies, fills in forms and presses buttons.

It knows HTML, as far as it is needed here, and nothing of the site.
"""

from dataclasses import dataclass, field
from html.parser import HTMLParser
from http.cookiejar import CookieJar
from typing import IO
from urllib import request
from urllib.error import HTTPError
from urllib.parse import urlencode, urljoin

TIMEOUT_SECONDS = 10
INLINE = {"a", "b", "code", "em", "span", "strong"}
CHECKABLE = {"checkbox", "radio"}


class NoSuchForm(LookupError):
    """The page has no form with this button and these fields."""


@dataclass
class Form:
    """A form with what it would send if nobody changed it; `buttons` are labels to name-values."""

    action: str
    fields: dict[str, str] = field(default_factory=dict)
    buttons: dict[str, tuple[str, str]] = field(default_factory=dict)


@dataclass
class Page:
    """One answer of the site, with the words that a person would read."""

    url: str
    status: int
    text: str = ""
    links: list[str] = field(default_factory=list)
    forms: list[Form] = field(default_factory=list)

    def form(self, label: str, *names: str) -> Form:
        """Return the first form with a button of this label and fields of these names."""
        for form in self.forms:
            if label in form.buttons and set(names) <= set(form.fields):
                return form
        found = [(list(form.buttons), list(form.fields)) for form in self.forms]
        raise NoSuchForm(f"{self.url}: no form with a button {label!r} and {names} among {found}")


class Browser:
    """One person's browser."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._opener = request.build_opener(request.HTTPCookieProcessor(CookieJar()))

    def get(self, path: str) -> Page:
        """Fetch a page, redirects followed."""
        return self._fetch(request.Request(urljoin(self.url, path)))  # noqa: S310  (http alone)

    def press(self, page: Page, label: str, **filled: str) -> Page:
        """Fill in these fields of the form with this button, POST it, and return what comes."""
        form = page.form(label, *filled)
        name, value = form.buttons[label]
        sent = form.fields | filled | ({name: value} if name else {})
        posted = request.Request(  # noqa: S310  (http alone)
            urljoin(page.url, form.action), urlencode(sent).encode(), {"Referer": page.url}
        )
        return self._fetch(posted)

    def _fetch(self, asked: request.Request) -> Page:
        try:
            answer = self._opener.open(asked, timeout=TIMEOUT_SECONDS)
        except HTTPError as error:  # an answer like any other
            answer = error
        with answer:
            return _read(answer, answer.geturl(), answer.status)


def _read(body: IO[bytes], url: str, status: int) -> Page:
    reader = _Reader(Page(url, status))
    reader.feed(body.read().decode(errors="replace"))
    reader.page.text = " ".join("".join(reader.words).split())
    return reader.page


class _Reader(HTMLParser):
    """Collects the links, forms and words of one page."""

    def __init__(self, page: Page) -> None:
        super().__init__()
        self.page = page
        self.words: list[str] = []
        self._form = Form("")  # what stands outside of any form goes here and is not kept
        self._inside: list[tuple[str, dict[str, str], int]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag not in INLINE:
            self.words.append(" ")
        match tag:
            case "a":
                self.page.links.append(given.get("href", ""))
            case "form":
                self._form = Form(given.get("action", ""))
                self.page.forms.append(self._form)
            case "input":
                self._read_input(given)
            case "button" | "textarea" | "script" | "style":
                self._inside.append((tag, given, len(self.words)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._form = Form("")
        if not self._inside or self._inside[-1][0] != tag:
            return
        _, given, start = self._inside.pop()
        said = "".join(self.words[start:])
        if tag == "button" and given.get("type", "submit") == "submit":
            self._add_button(" ".join(said.split()), given)
        elif tag == "textarea":
            self._form.fields[given.get("name", "")] = said.removeprefix("\n")
        elif tag in ("script", "style"):
            del self.words[start:]

    def _read_input(self, given: dict[str, str]) -> None:
        kind = given.get("type", "text")
        if kind == "submit":
            self._add_button(given.get("value", ""), given)
        elif "name" in given and (kind not in CHECKABLE or "checked" in given):
            self._form.fields[given["name"]] = given.get("value", "")

    def _add_button(self, label: str, given: dict[str, str]) -> None:
        self._form.buttons[label] = (given.get("name", ""), given.get("value", ""))
