"""The list of callbacks, those that were given up first, and sending one again."""

from collections.abc import Iterator
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin import SimpleListFilter
from django.contrib.admin.options import IncorrectLookupParameters
from django.db import transaction
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from hitl import display, inbox, parks
from hitl.admin import acts
from hitl.admin.theme import ReadOnlyAdmin
from hitl.callbacks import addresses, deliveries
from hitl.inbox import Act, NotAllowed
from hitl.models import CallbackDelivery
from hitl.pages import ALL
from hitl.states import CallbackStatus
from hitl.templatetags import sayso

STATUSES = (
    CallbackStatus.DEAD,
    CallbackStatus.OWED,
    CallbackStatus.DELIVERED,
    CallbackStatus.WAITING,
    CallbackStatus.NONE,
)


class CallbackStatusFilter(SimpleListFilter):
    """Callbacks that were given up, unless asked otherwise."""

    title = "status"
    parameter_name = "status"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [*((str(one), sayso.callback(one)) for one in STATUSES), (ALL, "All")]

    def value(self) -> str:
        return super().value() or CallbackStatus.DEAD

    def choices(self, changelist: Any) -> Iterator[Any]:
        for status, words in self.lookup_choices:
            yield {
                "selected": self.value() == status,
                "query_string": changelist.get_query_string({self.parameter_name: status}),
                "display": words,
            }

    def queryset(
        self, request: HttpRequest, queryset: QuerySet[CallbackDelivery]
    ) -> QuerySet[CallbackDelivery]:
        if self.value() not in (*STATUSES, ALL):
            raise IncorrectLookupParameters
        return queryset if self.value() == ALL else queryset.filter(status=self.value())


@admin.register(CallbackDelivery)
class CallbackAdmin(ReadOnlyAdmin):
    """Who was told what was decided, and who was not."""

    change_list_template = "hitl/callbacks.html"
    list_display = ["what", "to", "state", "tried", "next_try", "error"]
    list_display_links = None
    list_filter = [CallbackStatusFilter]
    list_select_related = ["park"]
    ordering = ["-id"]
    sortable_by = ()

    def get_urls(self) -> list[URLPattern]:
        """Return the list, and one address to send a callback again; nothing else."""
        return [
            path(
                "",
                self.admin_site.admin_view(self.changelist_view),
                name="hitl_callbackdelivery_changelist",
            ),
            path(
                "<str:object_id>/resend/",
                acts.guard(self, self.resend, back_to=lambda _: _list()),
                name="hitl_callbackdelivery_resend",
            ),
        ]

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return inbox.may(request.user, Act.VIEW) and inbox.may(request.user, Act.VIEW_CALLBACK)

    def get_queryset(self, request: HttpRequest) -> QuerySet[CallbackDelivery]:
        large = ("arguments", "description", "answer", "answer_reason", "metadata")
        return CallbackDelivery.objects.select_related("park").defer(
            *(f"park__{name}" for name in large)
        )

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """List the callbacks, with the statuses as tabs."""
        response = super().changelist_view(request, {"title": "Callbacks", **(extra_context or {})})
        context = getattr(response, "context_data", {})
        if changelist := context.get("cl"):
            context["status_choices"] = list(changelist.filter_specs[0].choices(changelist))
        return self.as_list(response)

    def resend(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Send one callback again; back to its request."""
        callback_id = parks.as_uuid(object_id)
        if callback_id is None or not inbox.may(request.user, Act.VIEW):
            raise Http404
        callback = CallbackDelivery.objects.filter(id=callback_id).first()
        if callback is None:
            raise Http404
        if not inbox.may(request.user, Act.RESEND):
            return acts.refuse(self, request, NotAllowed())
        with transaction.atomic(durable=True):
            ordered = deliveries.resend(callback.id, actor=request.user, channel=acts.CHANNEL)
        if ordered:
            messages.success(request, "The callback is sent again.")
        else:
            messages.warning(request, "Nothing to send: it is being sent, or nothing is decided.")
        return HttpResponseRedirect(acts.page(str(callback.park_id)))

    # ── Columns ──────────────────────────────────────────────────────────────────────────────────

    @admin.display(description="request")
    def what(self, callback: CallbackDelivery) -> SafeString:
        return format_html(
            '<a class="sayso-link" href="{}">{}</a>',
            acts.page(str(callback.park_id)),
            display.visible(str(callback.park)),
        )

    @admin.display(description="to")
    def to(self, callback: CallbackDelivery) -> str:
        return display.visible(addresses.shown(callback.url)) or "–"

    @admin.display(description="status")
    def state(self, callback: CallbackDelivery) -> SafeString:
        return format_html(
            '<span class="sayso-label sayso-callback-{}">{}</span>',
            callback.status,
            sayso.callback(callback.status),
        )

    @admin.display(description="tried")
    def tried(self, callback: CallbackDelivery) -> str:
        many = "" if callback.attempts == 1 else "s"
        return f"{callback.attempts} time{many}" if callback.attempts else "–"

    @admin.display(description="next")
    def next_try(self, callback: CallbackDelivery) -> str:
        at = callback.next_attempt_at
        return "–" if at is None else sayso.due(at)

    @admin.display(description="last error")
    def error(self, callback: CallbackDelivery) -> str:
        return display.visible(callback.last_error) or "–"


def _list() -> str:
    return reverse("admin:hitl_callbackdelivery_changelist")
