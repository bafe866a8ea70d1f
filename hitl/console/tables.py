"""Requests, trails and findings as a person reads them, made to be pleasant at 80 columns.

The only module that imports rich, and imported only when something is to be read. Every value that
came from a model, a tool or a person is made visible before it is shown: no control character, no
change of direction, no made-up line of ours gets through (U5).
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from rich.table import Table
from rich.text import Text

from hitl import clock, display, moments
from hitl.console.decisions import Plan
from hitl.console.screen import line
from hitl.doctor import Finding, Status
from hitl.models import Decision, Park, Verb
from hitl.pages import Page
from hitl.states import ParkStatus
from hitl.trail import evidence

TITLE_CHARS_MAX = 64
STYLES = {
    Status.OK: "green",
    Status.WARN: "yellow",
    Status.FAIL: "bold red",
    Status.SKIP: "dim",
}
PAYLOADS = {
    "result": "becomes the result in place of running it",
    "context": "is given to it as context; it runs",
    "job": "is what it waited for; it goes on",
    "payload": "is what whoever asked gets, in place of this one",
}


def listing(page: Page, *, none: str) -> Iterable[Any]:
    """Yield one page of `list`: a line or three per request, its id always whole."""
    if not page.parks:
        yield none
        return
    now = clock.now()
    table = _table()
    table.add_column("REQUEST", no_wrap=True)
    table.add_column("STATE", no_wrap=True)
    table.add_column("WHAT", ratio=1)
    for park in page.parks:
        what = Text(_cut(line(str(park))))
        what.append("\n" + line(_asked(park, now)), style="dim")
        table.add_row(str(park.id), _state(park, now), what)
    yield table
    if page.next_cursor:
        yield f"\nMore: add --cursor {page.next_cursor}"


def detail(park: Park, trail: Iterable[Decision], url: str | None) -> Iterable[Any]:
    """Yield all there is to know about one request."""
    yield from card(park, url)
    yield ""
    yield Text("Trail", style="bold")
    table = _table()
    for heading in ("WHEN", "WHO", "BY"):
        table.add_column(heading, overflow="fold")
    table.add_column("WHAT", ratio=1, overflow="fold")
    for row in trail:
        who = Text(line(row.actor), style="dim" if row.system else "")
        table.add_row(moments.stamp(row.at), who, line(row.channel), _deed(row))
    yield table


def card(park: Park, url: str | None = None) -> Iterable[Any]:
    """Yield what someone who decides needs to see, the arguments in full and never wrapped."""
    now = clock.now()
    yield Text.assemble((line(str(park)), "bold"), "\n", _state(park, now, long=True))
    if park.description:
        yield "\n" + _indented(park.description)
    yield ""
    facts = Table.grid(padding=(0, 2), expand=True)
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column(ratio=1, overflow="fold")
    for name, value in _facts(park, url, now):
        facts.add_row(name, line(value))
    yield facts
    if park.arguments or not park.is_job:
        yield ""
        heading = "Payload" if park.is_standalone else "Arguments"
        yield Text("Waits for" if park.is_job else heading, style="bold")
        yield display.pretty(park.arguments)
    if park.proposed is not None:
        yield ""
        yield Text("Proposed, before a person changed them", style="bold")
        yield display.pretty(park.proposed)
    if park.answer and "payload" in park.answer:
        yield ""
        yield Text("Answered with", style="bold")
        yield display.pretty(park.answer["payload"])
    if park.metadata:
        yield ""
        yield Text("Metadata", style="bold")
        yield display.pretty(park.metadata)


def plan(asked: Plan) -> Iterable[Any]:
    """Yield what would be decided: the card, and the payload and reason that would go with it."""
    yield from card(asked.park)
    if asked.has_payload:
        yield ""
        yield Text("Payload", style="bold")
        yield display.pretty(asked.payload)
    if asked.reason:
        yield ""
        yield Text("Reason", style="bold")
        yield line(asked.reason)
    yield ""


def done(decided: Plan, sentence: str) -> Iterable[Any]:
    """Yield what was decided."""
    yield Text(line(str(decided.park)), style="bold")
    yield Text(line(sentence))


def counts(named: Mapping[str, int]) -> Iterable[Any]:
    """Yield the counts of a sweep."""
    table = Table.grid(padding=(0, 2))
    table.add_column(justify="right")
    table.add_column()
    for name, count in named.items():
        table.add_row(str(count), line(name.replace("_", " ")))
    yield table


def findings(found: Iterable[Finding]) -> Iterable[Any]:
    """Yield the report of the doctor."""
    table = Table.grid(padding=(0, 2), expand=True)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(ratio=1, overflow="fold")
    for one in found:
        table.add_row(
            Text(one.status, style=STYLES[one.status]), line(one.name), line(one.sentence)
        )
    yield table


def _table() -> Table:
    return Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", expand=True)


def _cut(text: str) -> str:
    return text if len(text) <= TITLE_CHARS_MAX else text[: TITLE_CHARS_MAX - 1] + "…"


def _asked(park: Park, now: datetime) -> str:
    what = park.topic or park.reason
    if park.topic and not park.is_for_people:
        what += f" ({park.reason})"
    by = f" by {park.asked_by}" if park.asker else ""
    return f"{what}{by}, {moments.short(now - park.opened_at)} ago"


def _state(park: Park, now: datetime, *, long: bool = False) -> Text:
    """Return when it closes, or how it ended."""
    if not park.is_pending:
        style = "green" if park.status == ParkStatus.APPROVED else "red"
        shown = park.status.replace("_", " ")
        if park.was_answered_with_result:
            shown = "answered with a result" if long else "answered"
        return Text(shown, style=style)
    if park.expires_at is None:
        return Text("pending, without a deadline" if long else "no deadline", style="yellow")
    if park.is_overdue(now):
        late = moments.span(now - park.expires_at)
        return Text(f"too late, its deadline was {late} ago" if long else "too late", style="red")
    left = park.expires_at - now
    shown = f"pending, closes in {moments.span(left)}" if long else f"{moments.short(left)} left"
    return Text(shown, style="yellow")


def _facts(park: Park, url: str | None, now: datetime) -> Iterable[tuple[str, str]]:
    yield "Request", str(park.id)
    if not park.is_standalone:
        yield "Thread", str(park.scope)
        yield "Call", park.key
    if park.topic:
        yield "Topic", park.topic
    if park.asker:
        deep = f" (depth {park.asker_depth})" if park.asker_depth else ""
        yield "Asked by", f"{park.asked_by}{deep}"
    yield "Reason", park.reason
    yield "Opened", f"{moments.stamp(park.opened_at)}, {moments.span(now - park.opened_at)} ago"
    if park.expires_at is not None:
        yield "Closes" if park.is_pending else "Deadline", moments.stamp(park.expires_at)
    yield "On timeout", park.on_timeout
    if whom := evidence.standing(park):
        yield "Takes", ", ".join(whom)
    if park.redacted:
        yield "Redacted", ", ".join(park.redacted)
    takes = "job" if park.is_job else park.takes_payload
    yield "A payload", PAYLOADS.get(takes, takes)
    if park.settled_at is not None:
        yield "Settled", f"{moments.stamp(park.settled_at)} by {park.settled_by} ({park.channel})"
    if park.answer_reason:
        yield "Because", park.answer_reason
    if park.digest:
        yield "Digest", park.digest
    if url:
        yield "Page", url


def _deed(row: Decision) -> str:
    """Return what an audit row records, with the reason when one was given."""
    deed = row.get_verb_display()
    if row.verb == Verb.REFUSED:
        deed += f": tried {row.detail.get('tried')}, {row.detail.get('code')}"
    return line(f"{deed}; {row.reason}" if row.reason else deed)


def _indented(text: str) -> str:
    return "\n".join(f"  {one}".rstrip() for one in display.visible(text).split("\n"))
