"""Triggers in the admin: a list, a page with dry run and log, and a form. A new one is disabled.

Rows are written by the form alone; what is refused at the address is counted elsewhere, so a change
saves no more than what was changed. Django's own history keeps who changed what.
"""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import NoReverseMatch, URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.views.decorators.http import require_http_methods

from agents import conf
from agents.admin import access
from agents.admin.trigger_form import EventForm, TriggerForm
from agents.models import Trigger, TriggerDelivery
from agents.triggers import preview
from agents.triggers.verification import DEFAULT_HEADERS
from hitl import clock, display
from hitl import conf as hitl_conf
from hitl.admin.theme import ModelAdmin
from hitl.templatetags import sayso

VIEW = "agents.view_trigger"
LOG_SHOWN_MAX = 20
SECTIONS = (
    (None, {"fields": ("slug", "workflow", "enabled")}),
    ("Who may send", {"fields": ("verification", "secret", "header")}),
    (
        "What an event says",
        {"fields": ("delivery_id", "delivery_header", "correlation_key", "input", "payload")},
    ),
    ("Which run it is for", {"fields": ("starts_runs", "buffer_window")}),
)


@admin.register(Trigger)
class TriggerAdmin(ModelAdmin):
    """What outside events do here."""

    form = TriggerForm
    change_list_template = "hitl/list.html"
    list_display = ["what", "workflow", "state", "last", "refused"]
    list_display_links = None
    list_filter = ["enabled"]
    search_fields = ["slug", "workflow"]
    ordering = ["slug"]
    actions = None
    list_per_page = 50

    def get_urls(self) -> list[URLPattern]:
        """Return the list, the form to add and to change, the history, and the page."""
        wrap, name = self.admin_site.admin_view, "<str:object_id>/"
        page = require_http_methods(["GET", "HEAD", "POST"])(self.trigger_view)
        return [
            path("", wrap(self.changelist_view), name="agents_trigger_changelist"),
            path("add/", wrap(self.add_view), name="agents_trigger_add"),
            path(f"{name}change/", wrap(self.change_view), name="agents_trigger_change"),
            path(f"{name}history/", wrap(self.history_view), name="agents_trigger_history"),
            path(name, wrap(page), name="agents_trigger_page"),
        ]

    def get_fieldsets(self, request: HttpRequest, obj: Trigger | None = None) -> Any:
        if obj is not None:
            return SECTIONS
        return ((None, {"fields": ("slug", "workflow")}), *SECTIONS[1:])

    def formfield_for_dbfield(self, db_field: Any, request: HttpRequest, **options: Any) -> Any:
        field = super().formfield_for_dbfield(db_field, request, **options)
        if db_field.name in ("input", "payload") and field is not None:
            field.widget.attrs["rows"] = 3
        return field

    def has_delete_permission(self, request: HttpRequest, obj: Trigger | None = None) -> bool:
        return False  # disable it: its log stays

    def save_model(self, request: HttpRequest, obj: Trigger, form: Any, change: bool) -> None:
        """Insert a new trigger, disabled; of a known one save what was changed and nothing else."""
        if change:
            obj.save(update_fields=[name for name in form.changed_data if name in form.fields])
            return
        obj.enabled, obj.created_at = False, clock.now()
        obj.save(force_insert=True)

    def response_add(
        self, request: HttpRequest, obj: Trigger, post_url_continue: str | None = None
    ) -> HttpResponse:
        self.message_user(request, "Created, disabled. Try an event, then enable it.")
        return HttpResponseRedirect(_page(obj))

    def response_change(self, request: HttpRequest, obj: Trigger) -> HttpResponse:
        self.message_user(request, "Saved. It counts for what comes from now on.")
        return HttpResponseRedirect(_page(obj))

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        return super().changelist_view(request, {"title": "Triggers", **(extra_context or {})})

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        one_button = {"show_save_and_continue": False, "show_save_and_add_another": False}
        context = {**one_button, **(extra_context or {})}
        return super().changeform_view(request, object_id, form_url, context)

    def trigger_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show a trigger and what came lately; a POST tries an event and changes nothing."""
        trigger = access.find(Trigger.objects.all(), request.user, object_id, needs=VIEW)
        form = EventForm(request.POST or None)
        tried = preview.of(trigger, form.cleaned_data["event"]) if form.is_valid() else None
        log = TriggerDelivery.objects.filter(trigger=trigger).defer("body").select_related("run")
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": "Trigger",
            "trigger": trigger,
            "address": _address(trigger),
            "header": trigger.header or DEFAULT_HEADERS.get(trigger.verification),
            "has_secret": bool(conf.trigger_secrets(trigger.secret)),
            "form": form,
            "tried": tried,
            "log": log.order_by("-id")[:LOG_SHOWN_MAX],
            "may_change": self.has_change_permission(request),
            "may_see_log": access.may(request.user, "agents.view_triggerdelivery"),
            "may_see_runs": access.may(request.user, "agents.view_run"),
        }
        return TemplateResponse(request, "agents/trigger.html", context)

    # ── Columns ──────────────────────────────────────────────────────────────────────────────────

    @admin.display(description="trigger", ordering="slug")
    def what(self, trigger: Trigger) -> SafeString:
        return format_html('<a href="{}">{}</a>', _page(trigger), display.visible(trigger.slug))

    @admin.display(description="status", ordering="enabled")
    def state(self, trigger: Trigger) -> SafeString:
        status = "enabled" if trigger.enabled else "disabled"
        label = '<span class="sayso-label sayso-{}">{}</span>'
        return format_html(label, status, sayso.status(status))

    @admin.display(description="last event")
    def last(self, trigger: Trigger) -> str:
        newest = TriggerDelivery.objects.filter(trigger=trigger).order_by("-id")
        at = newest.values_list("received_at", flat=True).first()
        return "–" if at is None else sayso.ago(at)

    @admin.display(description="refused")
    def refused(self, trigger: Trigger) -> str:
        if trigger.refused_at is None:
            return "–"
        return f"{trigger.refused_count}, last {sayso.ago(trigger.refused_at)}"


def _page(trigger: Trigger) -> str:
    return reverse("admin:agents_trigger_page", args=[trigger.pk])


def _address(trigger: Trigger) -> str:
    """Return where events are to be sent; "" where the project has not included `agents.urls`."""
    try:
        where = reverse("agents:trigger", args=[trigger.slug])
    except NoReverseMatch:
        return ""
    return hitl_conf.base_url() + where
