"""The table of a list in unfold's look, its rows put together at once. Reads only.

Unfold's own tag works out the heads of all columns, the address, and two dozen classes anew for
each cell: two fifths of the time that the inbox took. Here that is done once for each column.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from django.contrib.admin.templatetags.admin_urls import add_preserved_filters
from django.contrib.admin.utils import lookup_field
from django.db import models
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from unfold.templatetags.unfold_list import LINK_CLASSES, ROW_CLASSES, result_headers
from unfold.utils import display_for_field, display_for_value

SHORT = (models.DateField, models.TimeField, models.ForeignKey)
BOXES = "Select record"
LINK = '<a href="{}{}{}" class="' + " ".join(LINK_CLASSES) + '">{}</a>'


def table_of(changelist: Any) -> dict[str, Any]:
    """Return what `hitl/list.html` shows of a list: heads and rows; nothing for a small window."""
    if changelist.is_popup or not changelist.result_list:
        return {}
    heads = list(result_headers(changelist))
    return {
        "result_headers": heads,
        "num_sorted_fields": sum(bool(head["sortable"] and head["sorted"]) for head in heads),
        "rows": list(_rows(changelist, heads)),
    }


def _rows(changelist: Any, heads: Iterable[dict[str, Any]]) -> Iterator[SafeString]:
    names, links = changelist.list_display, changelist.list_display_links or ()
    # The column that links to the page of a row is its head; one without words is that of boxes.
    tags = ["th" if name in links else "td" for name in names]
    begins = [
        format_html(
            '<{} class="field-{} {}" data-label="{}">',
            tag,
            name,
            _classes(changelist, name),
            head["text"] or BOXES,
        )
        for tag, name, head in zip(tags, names, heads, strict=True)
    ]
    ends = [format_html("</{}>", tag) for tag in tags]
    before, after = _address(changelist) if links else ("", "")
    for row in changelist.result_list:
        cells = [_cell(changelist.model_admin, name, row) for name in names]
        for place, name in enumerate(names):
            if name in links:
                cells[place] = format_html(LINK, before, row.pk, after, cells[place])
        yield format_html_join("\n", "{}{}{}", zip(begins, cells, ends, strict=True))


def _classes(changelist: Any, name: str) -> str:
    fields = {field.name: field for field in changelist.opts.fields}
    is_short = isinstance(fields.get(name), SHORT)
    return " ".join([*ROW_CLASSES, "nowrap"] if is_short else ROW_CLASSES)


def _cell(model_admin: Any, name: str, row: models.Model) -> Any:
    empty = model_admin.get_empty_value_display()
    column, _, value = lookup_field(name, row, model_admin)
    if column is None:
        return display_for_value(value, empty)
    if column.is_relation:
        related = getattr(row, name)
        return empty if related is None else related
    return display_for_field(value, column, empty)


def _address(changelist: Any) -> tuple[str, str]:
    """Return what stands before and after the id in the address of a row's page."""
    first = changelist.result_list[0]
    context = {"preserved_filters": changelist.preserved_filters, "opts": changelist.opts}
    address = add_preserved_filters(context, changelist.url_for_result(first))
    before, _, after = str(address).partition(str(first.pk))
    return before, after
