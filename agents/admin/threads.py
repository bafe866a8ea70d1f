"""The threads in the Django admin: a list, a read-only page with the timeline, and "stop".

Reads rows; stopping goes through `agents/threads.py`.
"""

from typing import Any

from django.contrib import admin, messages
from django.db import transaction
from django.db.models import QuerySet, Sum
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.views.decorators.http import require_safe

from agents import events, threads, timeline
from agents.admin import access
from agents.models import Run, Thread
from agents.states import FINAL, IDLE
from agents.waiter import RunWaiter
from hitl import display, inbox
from hitl.admin import acts
from hitl.admin.theme import ReadOnlyAdmin
from hitl.forms import ReasonForm
from hitl.inbox import NotAllowed
from hitl.templatetags import sayso

VIEW = RunWaiter.permission
STOP = "agents.stop_thread"
EVENTS_SHOWN_MAX = 200


@admin.register(Thread)
class ThreadAdmin(ReadOnlyAdmin):
    """Conversations, newest first."""

    list_display = ["what", "agent", "owner", "state", "changed", "begun"]
    list_display_links = ["what"]
    list_filter = ["current_run__status"]
    list_select_related = ["current_run", "owner"]
    search_fields = ["title", "agent", "owner__username"]
    search_help_text = "Search by title, agent or owner"
    ordering = ["-id"]
    sortable_by = ["begun"]

    def get_urls(self) -> list[URLPattern]:
        """Return the list, the page of a thread, its events and "stop"; nothing else."""
        site = self.admin_site
        page, log = require_safe(self.thread_view), require_safe(self.events_view)
        name = "<str:object_id>/"
        return [
            path("", site.admin_view(self.changelist_view), name="agents_thread_changelist"),
            path(name, site.admin_view(page), name="agents_thread_change"),
            path(f"{name}events/", site.admin_view(log), name="agents_thread_events"),
            path(f"{name}stop/", self._stop(), name="agents_thread_stop"),
        ]

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        context = {"title": "Threads", **(extra_context or {})}
        return self.as_list(super().changelist_view(request, context))

    def has_view_permission(self, request: HttpRequest, obj: Thread | None = None) -> bool:
        return access.may(request.user, VIEW)

    # ── Pages ────────────────────────────────────────────────────────────────────────────────────

    def thread_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show what happened in a thread, the newest turns; `?before=` a number shows earlier."""
        thread = _find(request.user, object_id)
        run = thread.current_run
        context = self.page_context(
            request,
            title="Thread",
            thread=thread,
            state=run.status if run is not None else IDLE,
            usage=_usage(thread),
            timeline=timeline.read(thread, before=access.number(request, "before")),
            may_stop=run is not None and run.status not in FINAL and access.may(request.user, STOP),
            may_see_requests=inbox.may(request.user, inbox.Act.VIEW),
            is_stopping=run is not None and run.stop_requested and run.status not in FINAL,
            form=ReasonForm(),
        )
        return TemplateResponse(request, "agents/thread.html", context)

    def events_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show the thread's log from the number `?after=` on."""
        thread = _find(request.user, object_id)
        after = access.number(request, "after") or 0
        found = events.after(thread.id, after, limit=EVENTS_SHOWN_MAX)
        context = self.page_context(
            request,
            title="Events",
            thread=thread,
            events=found,
            following=found[-1]["seq"] if len(found) == EVENTS_SHOWN_MAX else None,
        )
        return TemplateResponse(request, "agents/events.html", context)

    def _stop(self) -> acts.View:
        def stop(request: HttpRequest, object_id: str) -> HttpResponse:
            thread = _find(request.user, object_id)
            if not access.may(request.user, STOP):
                return acts.refuse(self, request, NotAllowed())
            form = ReasonForm(request.POST)
            if form.is_valid():
                with transaction.atomic(durable=True):
                    stopped = threads.stop(
                        thread,
                        reason=form.cleaned_data["reason"],
                        actor=request.user,
                        channel=acts.CHANNEL,
                    )
                _report(request, stopped=stopped)
            else:
                messages.error(request, "The reason is too long. Nothing was changed.")
            return HttpResponseRedirect(_page(str(thread.id)))

        return acts.guard(self, stop, back_to=_page)

    # ── Columns ──────────────────────────────────────────────────────────────────────────────────

    @admin.display(description="thread")
    def what(self, thread: Thread) -> str:
        return display.visible(str(thread))

    @admin.display(description="status")
    def state(self, thread: Thread) -> SafeString:
        status = thread.current_run.status if thread.current_run is not None else IDLE
        label = '<span class="sayso-label sayso-{}">{}</span>'
        return format_html(label, status, sayso.status(status))

    @admin.display(description="begun", ordering="id")
    def begun(self, thread: Thread) -> str:
        return sayso.ago(thread.created_at)

    @admin.display(description="changed")
    def changed(self, thread: Thread) -> str:
        run = thread.current_run
        return sayso.ago(run.finished_at or run.queued_at) if run is not None else "–"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Thread]:
        large = ("metadata", "current_run__input", "current_run__output", "current_run__error")
        return Thread.objects.defer(*large)


def _find(user: Any, object_id: str) -> Thread:
    rows = Thread.objects.select_related("current_run", "owner")
    return access.find(rows, user, object_id, needs=VIEW)


def _page(object_id: str) -> str:
    return reverse("admin:agents_thread_change", args=[object_id])


def _usage(thread: Thread) -> dict[str, int]:
    """Sum up what the runs of a thread have used."""
    names = ("input_tokens", "output_tokens", "cost_micros")
    totals = Run.objects.filter(thread=thread).aggregate(**{n: Sum(n, default=0) for n in names})
    return dict(totals)


def _report(request: HttpRequest, *, stopped: bool) -> None:
    if stopped:
        messages.success(request, "Stopped: what was open is withdrawn; a call that runs may end.")
    else:
        messages.warning(request, "Too late: the run was over already. Nothing was changed.")
