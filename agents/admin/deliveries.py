"""The log of what came to triggers: a list, a page for each event, and "handle again".

Reads rows; `agents/triggers/deliveries.py` writes them.
"""

from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.views.decorators.http import require_safe

from agents.admin import access
from agents.models import TriggerDelivery
from agents.states import REPEATABLE
from agents.triggers import deliveries
from hitl import display
from hitl.admin import acts
from hitl.admin.theme import ReadOnlyAdmin
from hitl.inbox import NotAllowed
from hitl.templatetags import sayso

VIEW = "agents.view_triggerdelivery"
RERUN = "agents.rerun_triggerdelivery"


@admin.register(TriggerDelivery)
class DeliveryAdmin(ReadOnlyAdmin):
    """Outside events, newest first."""

    list_display = ["what", "trigger_name", "key_shown", "came", "state"]
    list_display_links = ["what"]
    list_filter = ["status", "trigger"]
    list_select_related = ["trigger"]
    search_fields = ["delivery_id", "key"]
    search_help_text = "Search by delivery id or key"
    ordering = ["-id"]
    sortable_by = []

    def get_urls(self) -> list[URLPattern]:
        """Return the list, the page of an event and "handle again"; nothing else."""
        wrap, page = self.admin_site.admin_view, require_safe(self.delivery_view)
        name = "<str:object_id>/"
        return [
            path("", wrap(self.changelist_view), name="agents_triggerdelivery_changelist"),
            path(name, wrap(page), name="agents_triggerdelivery_change"),
            path(f"{name}rerun/", self._rerun(), name="agents_triggerdelivery_rerun"),
        ]

    def has_view_permission(self, request: HttpRequest, obj: TriggerDelivery | None = None) -> bool:
        return access.may(request.user, VIEW)

    def get_queryset(self, request: HttpRequest) -> QuerySet[TriggerDelivery]:
        return TriggerDelivery.objects.defer("body", "error")

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        context = {"title": "What came", **(extra_context or {})}
        return self.as_list(super().changelist_view(request, context))

    def delivery_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show one event: what it said, and what became of it."""
        delivery = _find(request.user, object_id)
        may_rerun = delivery.status in REPEATABLE and access.may(request.user, RERUN)
        context = self.page_context(
            request,
            title="Outside event",
            delivery=delivery,
            may_rerun=may_rerun,
            may_see_runs=access.may(request.user, "agents.view_run"),
            may_see_trigger=access.may(request.user, "agents.view_trigger"),
        )
        return TemplateResponse(request, "agents/delivery.html", context)

    def _rerun(self) -> acts.View:
        def rerun(request: HttpRequest, object_id: str) -> HttpResponse:
            delivery = _find(request.user, object_id)
            if not access.may(request.user, RERUN):
                return acts.refuse(self, request, NotAllowed())
            if deliveries.rerun(delivery.id):
                self.log_change(request, delivery, "Handled again.")
                messages.success(request, "It is being handled again.")
            else:
                messages.warning(request, "Too late: it is settled, or under way already.")
            return HttpResponseRedirect(_page(str(delivery.id)))

        return acts.guard(self, rerun, back_to=_page)

    # ── Columns ──────────────────────────────────────────────────────────────────────────────────

    @admin.display(description="event")
    def what(self, delivery: TriggerDelivery) -> str:
        return display.visible(delivery.delivery_id)

    @admin.display(description="trigger")
    def trigger_name(self, delivery: TriggerDelivery) -> str:
        return display.visible(delivery.trigger.slug)

    @admin.display(description="key")
    def key_shown(self, delivery: TriggerDelivery) -> str:
        return display.visible(delivery.key or "–")

    @admin.display(description="came")
    def came(self, delivery: TriggerDelivery) -> str:
        return sayso.ago(delivery.received_at)

    @admin.display(description="status")
    def state(self, delivery: TriggerDelivery) -> SafeString:
        label = '<span class="sayso-label sayso-{}">{}</span>'
        return format_html(label, delivery.status, sayso.status(delivery.status))


def _find(user: Any, object_id: str) -> TriggerDelivery:
    rows = TriggerDelivery.objects.select_related("trigger", "run")
    return access.find(rows, user, object_id, needs=VIEW)


def _page(object_id: str) -> str:
    return reverse("admin:agents_triggerdelivery_change", args=[object_id])
