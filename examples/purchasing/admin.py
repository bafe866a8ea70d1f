"""The office's wishes in the admin, to look at."""

from django.contrib import admin

from examples.purchasing.models import Purchase
from examples.support_desk.admin import ReadOnly


@admin.register(Purchase)
class PurchaseAdmin(ReadOnly):
    """Wishes, newest first."""

    list_display = ["item", "amount", "wanted_by", "status", "note"]
    list_filter = ["status"]
