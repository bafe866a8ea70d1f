"""Guardrails in the admin: the list in the order in which they judge, a page to try one, a form.

Rows are written through `agents/guardrails/rulebook.py` alone, with the name of whoever is logged
in; trying a rule, on a sample or over what was recorded, changes nothing.
"""

from typing import Any

from django.contrib import admin, messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.views.decorators.http import require_http_methods

from agents.admin import access
from agents.guardrails import describing, rulebook, trying
from agents.guardrails.checks import CHECKS
from agents.guardrails.forms import RuleForm, SampleForm
from agents.guardrails.rows import GuardrailChange, GuardrailRule
from agents.guardrails.rulebook import RuleChanged, RuleNotFound
from agents.guardrails.subjects import BadRule
from agents.guardrails.trying import BadSample
from hitl import display
from hitl.admin import acts
from hitl.admin.theme import ReadOnlyAdmin
from hitl.errors import BadJson
from hitl.inbox import NotAllowed
from hitl.templatetags import sayso

VIEW, ADD, CHANGE, DELETE = (
    f"agents.{verb}_guardrailrule" for verb in ("view", "add", "change", "delete")
)
SEE_TRAIL = "agents.view_guardrailchange"
TRAIL_SHOWN_MAX = 50


@admin.register(GuardrailRule)
class GuardrailAdmin(ReadOnlyAdmin):
    """What is judged here, and by which rules."""

    list_display = ["what", "order", "looks_at", "how", "follows", "state", "changed"]
    list_display_links = None
    list_filter = ["where", "enabled"]
    search_fields = ["name"]
    sortable_by = ["order", "what"]

    def get_urls(self) -> list[URLPattern]:
        """Return the list, the forms to add and to change, the page, and "delete"."""
        wrap, name = self.admin_site.admin_view, "<str:object_id>/"
        both = require_http_methods(["GET", "HEAD", "POST"])
        return [
            path("", wrap(self.changelist_view), name="agents_guardrailrule_changelist"),
            path("add/", wrap(both(self.create_view)), name="agents_guardrailrule_add"),
            path(f"{name}change/", wrap(both(self.edit_view)), name="agents_guardrailrule_change"),
            path(f"{name}delete/", self._delete(), name="agents_guardrailrule_delete"),
            path(name, wrap(both(self.rule_view)), name="agents_guardrailrule_page"),
        ]

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return access.may(request.user, VIEW)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return access.may(request.user, ADD)

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        context = {"title": "Guardrails", **(extra_context or {})}
        return self.as_list(super().changelist_view(request, context))

    # ── Pages ────────────────────────────────────────────────────────────────────────────────────

    def rule_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show a rule and its trail; a POST tries it on a sample or over what was recorded."""
        row = access.find(GuardrailRule.objects.all(), request.user, object_id, needs=VIEW)
        rule, tried, recorded = rulebook.as_rule(row), None, None
        form = SampleForm(request.POST if "sample" in request.POST else None)
        if form.is_valid():
            try:
                tried = trying.on_sample(rule, form.cleaned_data["sample"])
            except (BadSample, BadJson) as error:
                form.add_error("sample", str(error))
        elif request.method == "POST" and "recorded" in request.POST:
            recorded = trying.on_recorded(rule)
        may_see_trail = access.may(request.user, SEE_TRAIL)
        context = self.page_context(
            request,
            title="Guardrail",
            rule=row,
            check=CHECKS[row.check_name],
            state=describing.state(row),
            lines=describing.lines(row),
            sentence=describing.sentence(row),
            problem=rulebook.problem(row),
            form=form,
            tried=tried,
            recorded=recorded,
            trail=describing.trail(_trail(row)) if may_see_trail else None,
            may_change=access.may(request.user, CHANGE),
            may_delete=access.may(request.user, DELETE),
            may_see_threads=access.may(request.user, "agents.view_thread"),
        )
        return TemplateResponse(request, "agents/guardrail.html", context)

    def create_view(self, request: HttpRequest) -> HttpResponse:
        """Choose a check, then fill in the rule."""
        if not access.may(request.user, ADD):
            return acts.refuse(self, request, NotAllowed())
        name = request.GET.get("check", "")
        if name not in CHECKS:
            context = self.page_context(request, title="New guardrail", checks=CHECKS.items())
            return TemplateResponse(request, "agents/guardrail_checks.html", context)
        form = RuleForm(name, request.POST or None)
        if form.is_valid():
            try:
                rule = rulebook.create(
                    **_as_given(form.rule), actor=request.user, channel=acts.CHANNEL
                )
            except BadRule as error:
                form.refuse(error)
            else:
                return self._saved(request, rule, "Created. It counts from the next turn on.")
        return self._form(request, form, None)

    def edit_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Change a rule; its check stays."""
        row = access.find(GuardrailRule.objects.all(), request.user, object_id, needs=VIEW)
        if not access.may(request.user, CHANGE):
            return acts.refuse(self, request, NotAllowed())
        form = RuleForm(row.check_name, request.POST or None, rule=row)
        if form.is_valid():
            given = form.rule
            if given["order"] is None:
                given["order"] = row.order
            try:
                rule = rulebook.change(
                    row.id,
                    version=form.cleaned_data["version"],
                    actor=request.user,
                    channel=acts.CHANNEL,
                    **given,
                )
            except (BadRule, RuleChanged) as error:
                form.refuse(error)
            else:
                return self._saved(request, rule, "Saved. It counts from the next turn on.")
        return self._form(request, form, row)

    def _delete(self) -> acts.View:
        def delete(request: HttpRequest, object_id: str) -> HttpResponse:
            if not access.may(request.user, VIEW):
                raise Http404
            if not access.may(request.user, DELETE):
                return acts.refuse(self, request, NotAllowed())
            try:
                rulebook.delete(object_id, actor=request.user, channel=acts.CHANNEL)
            except RuleNotFound:
                messages.warning(request, "It was deleted already. Nothing was changed.")
            else:
                messages.success(request, "Deleted. What it holds keeps waiting for a person.")
            return HttpResponseRedirect(reverse("admin:agents_guardrailrule_changelist"))

        return acts.guard(self, delete, back_to=_page)

    def _form(self, request: HttpRequest, form: RuleForm, rule: GuardrailRule | None) -> Any:
        context = self.page_context(
            request,
            title="Guardrail" if rule is not None else "New guardrail",
            form=form,
            rule=rule,
            check=form.check,
        )
        status = 400 if form.is_bound else 200
        return TemplateResponse(request, "agents/guardrail_form.html", context, status=status)

    def _saved(self, request: HttpRequest, rule: GuardrailRule, says: str) -> HttpResponse:
        messages.success(request, says)
        return HttpResponseRedirect(_page(str(rule.id)))

    # ── Columns ──────────────────────────────────────────────────────────────────────────────────

    @admin.display(description="rule", ordering="name")
    def what(self, rule: GuardrailRule) -> SafeString:
        name = display.visible(rule.name)
        return format_html('<a href="{}">{}</a>', _page(str(rule.id)), name)

    @admin.display(description="looks at")
    def looks_at(self, rule: GuardrailRule) -> str:
        return describing.WHERE[rule.where]

    @admin.display(description="check")
    def how(self, rule: GuardrailRule) -> str:
        return CHECKS[rule.check_name].label

    @admin.display(description="what follows")
    def follows(self, rule: GuardrailRule) -> str:
        return describing.ACTION[rule.action]

    @admin.display(description="status")
    def state(self, rule: GuardrailRule) -> SafeString:
        name, words = describing.state(rule)
        return format_html('<span class="sayso-label sayso-{}">{}</span>', name, words)

    @admin.display(description="changed")
    def changed(self, rule: GuardrailRule) -> str:
        return sayso.ago(rule.changed_at)


def _page(object_id: str) -> str:
    return reverse("admin:agents_guardrailrule_page", args=[object_id])


def _as_given(rule: dict[str, Any]) -> dict[str, Any]:
    """Return checked fields as `rulebook.create` takes them."""
    return {"check" if name == "check_name" else name: value for name, value in rule.items()}


def _trail(rule: GuardrailRule) -> list[GuardrailChange]:
    return list(GuardrailChange.objects.filter(rule_id=rule.id).order_by("-id")[:TRAIL_SHOWN_MAX])
