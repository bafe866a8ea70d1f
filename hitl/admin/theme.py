"""What all screens of ours share: read-only admins in whichever theme is installed.

A project that has `unfold` among its apps gets that; any other gets Django's own look. Rows change
through the verbs alone, so there is nothing to add, to change or to delete, one or many.
"""

from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.contrib.admin import ShowFacets
from django.core.paginator import Paginator
from django.db.models import Model
from django.http import HttpRequest, HttpResponse
from django.utils.functional import cached_property

if TYPE_CHECKING or not apps.is_installed("unfold"):
    from django.contrib.admin import ModelAdmin
    from django.contrib.admin.widgets import AdminTextInputWidget as TextInput
    from django.forms import Select

    def table_of(changelist: Any) -> dict[str, Any]:
        """Leave the table to Django's own templates."""
        return {}

else:
    from unfold.admin import ModelAdmin
    from unfold.widgets import UnfoldAdminSelectWidget as Select
    from unfold.widgets import UnfoldAdminTextInputWidget as TextInput

    from hitl.admin.table import table_of

__all__ = ["BoundedPaginator", "ModelAdmin", "ReadOnlyAdmin", "Select", "TextInput"]

COUNTED_MAX = 1000


class BoundedPaginator(Paginator):
    """Counts no further than 1000 rows: nobody turns so many pages, and counting takes time."""

    @cached_property
    def count(self) -> int:
        rows: Any = self.object_list
        # In the order of the list: an index gives that without reading the rest of the table.
        return int(rows.values("pk")[:COUNTED_MAX].count())


class ReadOnlyAdmin(ModelAdmin):
    """Rows to look at. Whoever lacks the view permission is shown nothing."""

    actions = None
    change_list_template = "hitl/list.html"
    paginator = BoundedPaginator
    show_full_result_count = False
    show_facets = (
        ShowFacets.NEVER
    )  # a count for each choice of a filter: as many queries as choices
    list_per_page = 25

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def page_context(self, request: HttpRequest, **more: Any) -> dict[str, Any]:
        """Return what each page of ours gives to its template."""
        return {**self.admin_site.each_context(request), "opts": self.opts, **more}

    def as_list(self, response: HttpResponse) -> HttpResponse:
        """Give a list its rows, and let it say how far it counted: no total, nobody counts that."""
        context = getattr(response, "context_data", {})
        if changelist := context.get("cl"):
            context |= table_of(changelist)
            if changelist.result_count >= COUNTED_MAX:
                changelist.result_count = f"{COUNTED_MAX}+"
            changelist.full_result_count = changelist.result_count
        return response
