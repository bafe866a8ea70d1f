"""Runs of workflows in the admin: a list, a page with the journal, and start, cancel and retry.

Reads rows; what is done goes through `agents/workflows/verbs.py`, each by POST and with a
permission of its own (U6).
"""

from typing import Any

from django.contrib import admin, messages
from django.db import transaction
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.views.decorators.http import require_http_methods, require_safe

from agents.admin import access
from agents.models import Run, RunKind, TriggerDelivery
from agents.states import FINAL, RunStatus
from agents.workflows import authoring, timeline, verbs
from agents.workflows.authoring import Workflow
from agents.workflows.errors import WorkflowNotFound
from agents.workflows.forms import StartForm
from hitl import display, inbox
from hitl.admin import acts
from hitl.admin.theme import ReadOnlyAdmin
from hitl.forms import ReasonForm
from hitl.inbox import NotAllowed
from hitl.templatetags import sayso

VIEW, START, CANCEL, RETRY = (f"agents.{act}_run" for act in ("view", "start", "cancel", "retry"))
EVENTS_SHOWN_MAX = 20


class WorkflowFilter(admin.SimpleListFilter):
    """Runs of one workflow. Offers those that the code has; the address takes any."""

    title = "workflow"
    parameter_name = "workflow"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        names = {each.name for each in authoring.every()} | {self.value() or ""}
        return [(name, display.visible(name)) for name in sorted(names - {""})]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Run]) -> QuerySet[Run]:
        return queryset.filter(target=self.value()) if self.value() else queryset


@admin.register(Run)
class RunAdmin(ReadOnlyAdmin):
    """Runs of workflows, newest first."""

    change_list_template = "agents/runs.html"
    list_display = ["what", "state", "key", "begun", "ended"]
    list_display_links = ["what"]
    list_filter = ["status", WorkflowFilter]
    search_fields = ["=idempotency_key", "=correlation_key", "target"]
    search_help_text = "Search by workflow, or by a whole key"
    ordering = ["-id"]
    sortable_by = ["begun"]

    def get_urls(self) -> list[URLPattern]:
        """Return the list, the form to start, the page of a run, cancel and retry; nothing else."""
        wrap = self.admin_site.admin_view
        begin = require_http_methods(["GET", "HEAD", "POST"])(self.start_view)
        name = "<str:object_id>/"
        return [
            path("", wrap(self.changelist_view), name="agents_run_changelist"),
            path(
                "start/",
                transaction.non_atomic_requests(wrap(begin)),
                name="agents_run_start",
            ),
            path(name, wrap(require_safe(self.run_view)), name="agents_run_change"),
            path(f"{name}cancel/", self._act("cancel"), name="agents_run_cancel"),
            path(f"{name}retry/", self._act("retry"), name="agents_run_retry"),
        ]

    def has_view_permission(self, request: HttpRequest, obj: Run | None = None) -> bool:
        return access.may(request.user, VIEW)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Run]:
        return _runs().defer("input", "output", "error")

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        may_start = access.may(request.user, START)
        context = {"title": "Workflow runs", "may_start": may_start, **(extra_context or {})}
        return self.as_list(super().changelist_view(request, context))

    # ── Pages ────────────────────────────────────────────────────────────────────────────────────

    def run_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show what happened in a run; `?before=` a position shows earlier entries."""
        run = _find(request.user, object_id)
        events = TriggerDelivery.objects.filter(run=run).select_related("trigger").defer("body")
        may_see_events = access.may(request.user, "agents.view_triggerdelivery")
        context = self.page_context(
            request,
            title="Workflow run",
            run=run,
            timeline=timeline.read(run, before=access.number(request, "before")),
            is_changed=_is_changed(run),
            events=list(events.order_by("id")[:EVENTS_SHOWN_MAX]) if may_see_events else [],
            may_see_requests=inbox.may(request.user, inbox.Act.VIEW),
            may_cancel=run.status not in FINAL and access.may(request.user, CANCEL),
            may_retry=run.status == RunStatus.FAILED and access.may(request.user, RETRY),
            is_stopping=run.stop_requested and run.status not in FINAL,
            form=ReasonForm(),
        )
        return TemplateResponse(request, "agents/run.html", context)

    def start_view(self, request: HttpRequest) -> HttpResponse:
        """Choose a workflow, or with `?workflow=` fill in its input; a POST starts it."""
        if not access.may(request.user, START):
            return acts.refuse(self, request, NotAllowed())
        name = request.GET.get("workflow", "")
        try:
            workflow = authoring.get(name) if name else None
        except WorkflowNotFound as error:
            raise Http404 from error
        form = None if workflow is None else StartForm(workflow, request.POST or None)
        if form is not None and request.method == "POST" and form.is_valid():
            with transaction.atomic(durable=True):
                run = form.workflow.start(
                    **form.cleaned_data["arguments"],
                    idempotency_key=form.cleaned_data["idempotency_key"] or None,
                )
            self.log_addition(request, run, "Started.")
            return HttpResponseRedirect(_page(str(run.id)))
        context = self.page_context(
            request,
            title="Start a workflow",
            chosen=None if workflow is None else _told(workflow),
            offered=list(map(_told, authoring.every())),
            form=form,
        )
        return TemplateResponse(request, "agents/start.html", context)

    def _act(self, name: str) -> acts.View:
        needs, do = {"cancel": (CANCEL, self._cancel), "retry": (RETRY, self._retry)}[name]

        def act(request: HttpRequest, object_id: str) -> HttpResponse:
            run = _find(request.user, object_id)
            if not access.may(request.user, needs):
                return acts.refuse(self, request, NotAllowed())
            do(request, run)
            return HttpResponseRedirect(_page(str(run.id)))

        return acts.guard(self, act, back_to=_page)

    def _cancel(self, request: HttpRequest, run: Run) -> None:
        form = ReasonForm(request.POST)
        if not form.is_valid():
            messages.error(request, "The reason is too long. Nothing was changed.")
            return
        with transaction.atomic(durable=True):
            done = verbs.cancel(
                run,
                reason=form.cleaned_data["reason"],
                actor=request.user,
                channel=acts.CHANNEL,
            )
        if done:
            messages.success(request, "Cancelled: what was open is withdrawn; a step may end.")
        else:
            messages.warning(request, "Too late: the run was over already. Nothing was changed.")

    def _retry(self, request: HttpRequest, run: Run) -> None:
        with transaction.atomic(durable=True):
            done = verbs.retry(run)
        if done:
            self.log_change(request, run, "Retried.")
            messages.success(request, "The run goes on from its journal.")
        else:
            messages.warning(request, "Too late: the run has not failed. Nothing was changed.")

    # ── Columns ──────────────────────────────────────────────────────────────────────────────────

    @admin.display(description="workflow")
    def what(self, run: Run) -> str:
        return display.visible(run.target)

    @admin.display(description="status")
    def state(self, run: Run) -> SafeString:
        label = '<span class="sayso-label sayso-{}">{}</span>'
        return format_html(label, run.status, sayso.run_status(run.status))

    @admin.display(description="key")
    def key(self, run: Run) -> str:
        return display.visible(run.correlation_key or run.idempotency_key or "–")

    @admin.display(description="begun", ordering="id")
    def begun(self, run: Run) -> str:
        return sayso.ago(run.created_at)

    @admin.display(description="ended")
    def ended(self, run: Run) -> str:
        return "–" if run.finished_at is None else sayso.ago(run.finished_at)


def _runs() -> QuerySet[Run]:
    return Run.objects.filter(kind=RunKind.WORKFLOW)


def _find(user: Any, object_id: str) -> Run:
    return access.find(_runs().select_related("parent"), user, object_id, needs=VIEW)


def _page(object_id: str) -> str:
    return reverse("admin:agents_run_change", args=[object_id])


def _told(workflow: Workflow) -> dict[str, str]:
    """Return what a page says of a workflow, which a template would call."""
    return {"name": workflow.name, "description": workflow.description}


def _is_changed(run: Run) -> bool:
    """Tell whether an open run was begun with other code than the workflow has now."""
    if run.status == RunStatus.COMPLETED:
        return False
    try:
        return bool(authoring.get(run.target).version != run.code_version)
    except WorkflowNotFound:
        return True
