"""The filters of the inbox. Reads only.

What they offer is taken from a bounded number of rows, so that a list costs the same however long
it has become; the address takes any value.
"""

from collections.abc import Iterator
from typing import Any

from django.contrib.admin import SimpleListFilter
from django.contrib.admin.options import IncorrectLookupParameters
from django.db.models import QuerySet
from django.http import HttpRequest

from hitl import display, values
from hitl.models import Park
from hitl.pages import ALL, STATUSES
from hitl.states import ParkStatus
from hitl.templatetags import sayso

READ_MAX = 1000


class StatusFilter(SimpleListFilter):
    """Pending requests unless asked otherwise."""

    title = "status"
    parameter_name = "status"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(status, sayso.status(status)) for status in STATUSES]

    def value(self) -> str:
        return super().value() or ParkStatus.PENDING

    def choices(self, changelist: Any) -> Iterator[Any]:
        """Offer each status; there is no further "all" that would mean the default."""
        for status, words in self.lookup_choices:
            yield {
                "selected": self.value() == status,
                "query_string": changelist.get_query_string({self.parameter_name: status}),
                "display": words,
            }

    def queryset(self, request: HttpRequest, queryset: QuerySet[Park]) -> QuerySet[Park]:
        if self.value() not in STATUSES:
            raise IncorrectLookupParameters
        return queryset if self.value() == ALL else queryset.filter(status=self.value())


class _ColumnFilter(SimpleListFilter):
    """Requests with one value of a column."""

    column: str

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        found = _top(request)[self.column] | {self.value()}
        return [(value, display.visible(value)) for value in sorted(filter(None, found))]

    def has_output(self) -> bool:
        return len(self.lookup_choices) > 0

    def queryset(self, request: HttpRequest, queryset: QuerySet[Park]) -> QuerySet[Park]:
        # As it is stored: a NUL in an address is no more than a value that nobody has.
        value = values.clean_text(self.value() or "")
        return queryset.filter(**{self.column: value}) if value else queryset


def _top(request: HttpRequest) -> dict[str, set[str]]:
    """Return what the columns hold at the top of the list that is looked at; read once a page."""
    kept: dict[str, dict[str, set[str]]] = request.__dict__
    if "hitl_top" not in kept:
        rows = Park.objects.cards()
        if request.GET.get(StatusFilter.parameter_name, ParkStatus.PENDING) == ParkStatus.PENDING:
            rows = rows.pending().soonest_first()
        else:
            rows = rows.order_by("-id")
        both = set(rows.values_list(ToolFilter.column, AskerFilter.column)[:READ_MAX])
        kept["hitl_top"] = {
            ToolFilter.column: {tool for tool, _ in both},
            AskerFilter.column: {asker for _, asker in both},
        }
    return kept["hitl_top"]


class ToolFilter(_ColumnFilter):
    """Requests about one tool."""

    title = "tool"
    parameter_name = "tool"
    column = "topic"


class AskerFilter(_ColumnFilter):
    """Requests of one agent."""

    title = "asker"
    parameter_name = "asker"
    column = "asker"
