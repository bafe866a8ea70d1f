"""The shop's rows in the admin, to look at: they change through the desk alone."""

from http import HTTPStatus
from typing import Any

from django.conf import settings
from django.contrib import admin, messages
from django.db.models import Model
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.html import format_html
from unfold.admin import ModelAdmin

from examples.support_desk import customer
from examples.support_desk.models import Mail, Order, Refund
from hitl.models import Park


class ReadOnly(ModelAdmin):
    """A page that shows rows and changes none."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


@admin.register(Order)
class OrderAdmin(ReadOnly):
    """Orders, the newest number last."""

    list_display = ["id", "customer", "item", "total", "refunded", "status"]
    list_filter = ["status"]
    search_fields = ["customer", "item"]

    @admin.display(description="refunded, in €")
    def refunded(self, order: Order) -> Any:
        return sum(refund.amount for refund in order.refunds.all()) or "—"

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).prefetch_related("refunds")


@admin.register(Refund)
class RefundAdmin(ReadOnly):
    """Refunds, newest first."""

    list_display = ["order", "amount", "paid_at"]
    list_select_related = ["order"]


@admin.register(Mail)
class MailAdmin(ReadOnly):
    """The outbox, newest first. In the demo, a mail whose answer is awaited can be answered."""

    list_display = ["subject", "to", "sent_at", "answer"]
    search_fields = ["to", "subject"]

    def get_urls(self) -> list[Any]:
        answer = self.admin_site.admin_view(self.answer_view)
        return [
            path("<str:object_id>/answer/", answer, name="support_desk_mail_answer"),
            *super().get_urls(),
        ]

    def answer_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Answer a mail as its receiver would: the event goes to the trigger of the mail server."""
        if not settings.DEMO or not request.user.is_superuser:
            raise Http404
        mail = get_object_or_404(Mail, id=object_id if object_id.isdecimal() else 0)
        if request.method == "POST":
            status = customer.reply(mail.id, request.POST.get("text", ""))
            taken = status == HTTPStatus.ACCEPTED
            said = "The mail has come in." if taken else f"The trigger answered with {status}."
            self.message_user(request, said, messages.SUCCESS if taken else messages.ERROR)
            return HttpResponseRedirect(reverse("admin:support_desk_mail_changelist"))
        context = {**self.admin_site.each_context(request), "opts": self.opts, "mail": mail}
        return TemplateResponse(request, "support_desk/answer.html", context)

    @admin.display(description="")
    def answer(self, mail: Mail) -> Any:
        waits = Park.objects.pending().filter(token=f"mail-{mail.id}").exists()
        if not (settings.DEMO and waits):
            return ""
        address = reverse("admin:support_desk_mail_answer", args=[mail.id])
        return format_html('<a class="sayso-link" href="{}">Answer as {}</a>', address, mail.to)
