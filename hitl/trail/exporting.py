"""The audit trail as text, line by line, for archives and spreadsheets. Only reads.

Pages are read by id, so that an export of any size holds a thousand rows in memory and no cursor on
the server. Payloads are not in the trail; arguments are not exported.
"""

import csv
import io
import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any
from uuid import UUID

from hitl.models import Decision

PAGE = 1000
FORMATS = ("jsonl", "csv")
COLUMNS = (
    "id",
    "request_id",
    "thread_id",
    "topic",
    "verb",
    "actor",
    "system",
    "channel",
    "reason",
    "detail",
    "at",
    "hash",
    "seal",
)
# What a spreadsheet takes for a formula when a cell begins with it.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def lines(
    form: str,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    request_id: UUID | None = None,
) -> Iterator[str]:
    """Yield the trail in the order of its ids, a line per row and no line ends; CSV with a head.

    `since` is inclusive, `until` is not. In CSV a text that a spreadsheet would take for a formula
    begins with an apostrophe.
    """
    assert form in FORMATS, "the caller checks it"
    if form == "csv":
        yield _csv(COLUMNS)
    for row in _rows(since, until, request_id):
        said = _said(row)
        yield json.dumps(said) if form == "jsonl" else _csv(map(_cell, said.values()))


def _rows(
    since: datetime | None, until: datetime | None, request_id: UUID | None
) -> Iterator[Decision]:
    found = Decision.objects.select_related("park").order_by("id")
    if since is not None:
        found = found.filter(at__gte=since)
    if until is not None:
        found = found.filter(at__lt=until)
    if request_id is not None:
        found = found.filter(park=request_id)
    found = found.only(
        *("verb", "actor", "system", "channel", "reason", "detail", "at", "hash", "seal"),
        *("park__scope", "park__topic"),
    )
    after = UUID(int=0)
    while page := list(found.filter(id__gt=after)[:PAGE]):
        yield from page
        after = page[-1].id


def _said(row: Decision) -> dict[str, Any]:
    said = (
        str(row.id),
        str(row.park_id),
        str(row.park.scope),
        row.park.topic,
        row.verb,
        row.actor,
        row.system,
        row.channel,
        row.reason,
        row.detail,
        row.at.isoformat(),
        row.hash,
        row.seal_id,
    )
    return dict(zip(COLUMNS, said, strict=True))


def _cell(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


def _csv(cells: Any) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow(cells)
    return out.getvalue()
