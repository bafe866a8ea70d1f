"""The inbox: the list of requests, and the addresses of their pages and acts. Reads only."""

from typing import Any

from django.contrib import admin
from django.db.models import F, IntegerField, QuerySet
from django.db.models.functions import Length
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.urls import URLPattern, path
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import smart_split, unescape_string_literal
from django.views.decorators.http import require_safe

from hitl import clock, display, inbox
from hitl.admin import acts, editing, offers, request_page, revising, several
from hitl.admin.filters import AskerFilter, StatusFilter, ToolFilter
from hitl.admin.theme import COUNTED_MAX, ReadOnlyAdmin
from hitl.inbox import Act, NotAllowed, ParkNotFound
from hitl.models import Park
from hitl.states import ParkStatus, Reason
from hitl.templatetags import sayso
from hitl.trail import evidence

# Columns that may be large and that no list shows.
LARGE = ("arguments", "description", "answer", "answer_reason", "metadata")
SEARCHED_MAX = 5_000
NO_PAYLOAD = len("{}")  # an answer without a payload, as it is stored


@admin.register(Park)
class InboxAdmin(ReadOnlyAdmin):
    """What waits for someone, the nearest deadline first; other statuses newest first."""

    change_list_template = "hitl/inbox.html"
    list_display = ["what", "tool", "asked_by", "age", "deadline", "state"]
    list_display_links = ["what"]
    list_filter = [StatusFilter, ToolFilter, AskerFilter]
    search_fields = ["title", "topic", "asker"]
    search_help_text = f"Search the first {SEARCHED_MAX:,} of this list by title, tool or asker"
    sortable_by = ["age", "deadline"]

    def get_urls(self) -> list[URLPattern]:
        """Return the list, the page of a request, and one address per act; nothing else."""
        site = self.admin_site
        return [
            path("", site.admin_view(self.changelist_view), name="hitl_park_changelist"),
            path("several/", several.view(self), name="hitl_park_several"),
            path(
                "<str:object_id>/evidence/",
                site.admin_view(require_safe(self.evidence_view)),
                name="hitl_park_evidence",
            ),
            path(
                "<str:object_id>/",
                site.admin_view(require_safe(self.request_view)),
                name="hitl_park_change",
            ),
            *(
                path(
                    f"<str:object_id>/{name}/",
                    acts.view(self, name),
                    name=f"hitl_park_{name}",
                )
                for name in offers.BY_NAME
            ),
            path("<str:object_id>/edit/", editing.view(self), name="hitl_park_edit"),
            path("<str:object_id>/revise/", revising.view(self), name="hitl_park_revise"),
        ]

    def has_view_permission(self, request: HttpRequest, obj: Park | None = None) -> bool:
        return inbox.may(request.user, Act.VIEW)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Park]:
        length = Length("answer", output_field=IntegerField())
        return Park.objects.cards().defer(*LARGE).annotate(answer_length=length)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Park], search_term: str
    ) -> tuple[QuerySet[Park], bool]:
        """Keep the rows at the top of the list, as it is filtered and ordered, that have each word.

        No index finds a piece of text, so it takes as long as there are rows to look at. They are
        looked at here: within a larger statement PostgreSQL would start from the whole table.
        """
        words = [_unquoted(word) for word in smart_split(search_term.casefold())]
        if not words:
            return queryset, False
        top = queryset.values_list("id", *self.search_fields)[:SEARCHED_MAX]
        found = [
            park_id
            for park_id, *texts in top
            if all(any(word in text.casefold() for text in texts) for word in words)
        ]
        return queryset.filter(id__in=found[:COUNTED_MAX]), False

    def get_ordering(self, request: HttpRequest) -> list[Any]:
        if request.GET.get(StatusFilter.parameter_name, ParkStatus.PENDING) == ParkStatus.PENDING:
            return [F("expires_at").asc(nulls_last=True), "id"]
        return ["-id"]

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """List the requests, with the statuses as tabs."""
        response = super().changelist_view(request, {"title": "Inbox", **(extra_context or {})})
        context = getattr(response, "context_data", {})
        if changelist := context.get("cl"):
            [spec] = [spec for spec in changelist.filter_specs if isinstance(spec, StatusFilter)]
            context["may_pick"] = "pick" in changelist.list_display
            context["status_choices"] = list(spec.choices(changelist))
        return self.as_list(response)

    def request_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show one request, to those who may see requests; to others there is none."""
        try:
            park = inbox.access_park(request.user, object_id, Act.VIEW)
        except ParkNotFound as error:
            raise Http404 from error
        return request_page.render(self, request, park)

    def evidence_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Return the evidence of a request as one JSON document (I12)."""
        try:
            park = inbox.access_park(request.user, object_id, Act.AUDIT)
        except ParkNotFound as error:
            raise Http404 from error
        except NotAllowed as error:
            return acts.refuse(self, request, error)
        response = JsonResponse(evidence.of(park), json_dumps_params={"indent": 2})
        response["Content-Disposition"] = f'inline; filename="evidence-{park.id}.json"'
        return response

    def get_list_display(self, request: HttpRequest) -> list[Any]:
        """Return the columns, with boxes to tick for those who may decide what is pending."""
        is_pending = request.GET.get("status", ParkStatus.PENDING) == ParkStatus.PENDING
        picks = is_pending and inbox.may(request.user, Act.DECIDE)
        return ["pick", *self.list_display] if picks else list(self.list_display)

    # ── Columns ──────────────────────────────────────────────────────────────────────────────────

    @admin.display(description="")
    def pick(self, park: Park) -> str | SafeString:
        if not park.is_pending or not park.is_for_people:
            return ""
        box = '<input type="checkbox" name="request" value="{}" aria-label="Choose: {}">'
        return format_html(box, park.id, self.what(park))

    @admin.display(description="request")
    def what(self, park: Park) -> str:
        return display.visible(str(park))

    @admin.display(description="tool")
    def tool(self, park: Park) -> str:
        return display.visible(park.topic or "–")

    @admin.display(description="asked by")
    def asked_by(self, park: Park) -> str:
        deep = f" (depth {park.asker_depth})" if park.asker_depth else ""
        return display.visible(f"{park.asked_by or '–'}{deep}")

    @admin.display(description="asked", ordering="id")
    def age(self, park: Park) -> str:
        return sayso.ago(park.opened_at)

    @admin.display(description="deadline", ordering="expires_at")
    def deadline(self, park: Park) -> str | SafeString:
        if park.settled_at is not None:
            return f"closed {sayso.ago(park.settled_at)}"
        if park.expires_at is None:
            return "none"
        tone = "sayso-near" if sayso.is_near(park.expires_at) else ""
        return format_html('<span class="{}">{}</span>', tone, sayso.left(park.expires_at))

    @admin.display(description="status")
    def state(self, park: Park) -> SafeString:
        """Return the status as a label; an answer given in the tool's place has one of its own."""
        status, words = str(park.status), sayso.standing(park)
        if park.is_overdue(clock.now()):
            status, words = "overdue", "Overdue"
        elif park.is_pending and park.reason == Reason.IN_DOUBT:
            status, words = "in_doubt", "In doubt"
        elif park.is_pending and park.is_held:
            status, words = "rule", "Held by a guardrail"
        elif park.is_pending and not park.is_for_people:
            status = "line"
        elif _was_answered(park):
            status, words = "answered", "Answered"
        return format_html('<span class="sayso-label sayso-{}">{}</span>', status, words)


def _was_answered(park: Park) -> bool:
    """Tell whether a person gave the tool's result, without reading what may be a large answer."""
    length: int | None = getattr(park, "answer_length", None)
    return (
        park.status == ParkStatus.APPROVED
        and park.takes_payload == "result"
        and (length or 0) > NO_PAYLOAD
    )


def _unquoted(word: str) -> str:
    """Return a word of a search; one in quotes may hold blanks."""
    quoted = word[0] in "\"'" and word[0] == word[-1] and len(word) > 1
    return unescape_string_literal(word) if quoted else word
