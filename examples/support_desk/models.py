"""What the shop knows and what its desk brought about: orders, refunds, mails.

Rows are written by `orders.py` alone. A refund and a mail carry the key of the tool call that made
them, unique in the database, so that no call pays or writes twice.
"""

from django.db import models


class Order(models.Model):
    """Something a customer paid for. Its `id` is the order number that customers quote."""

    class Status(models.TextChoices):
        """Where an order stands."""

        PAID = "paid", "paid"
        SHIPPED = "shipped", "shipped"
        CANCELLED = "cancelled", "cancelled"

    id = models.PositiveIntegerField("number", primary_key=True)
    customer = models.CharField(max_length=100)
    email = models.EmailField("e-mail")
    item = models.CharField(max_length=100)
    total = models.DecimalField("paid, in €", max_digits=8, decimal_places=2)
    status = models.CharField(max_length=10, choices=Status.choices, default=Status.PAID)

    class Meta:
        default_permissions = ("view",)
        ordering = ["id"]

    def __str__(self) -> str:
        return f"order {self.id}"


class Refund(models.Model):
    """Money paid back on an order."""

    order = models.ForeignKey(Order, on_delete=models.PROTECT, related_name="refunds")
    amount = models.DecimalField("amount, in €", max_digits=8, decimal_places=2)
    key = models.CharField(max_length=100, unique=True, editable=False)
    paid_at = models.DateTimeField()

    class Meta:
        default_permissions = ("view",)
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.amount} € on {self.order}"


class Mail(models.Model):
    """An e-mail in the outbox. The example sends none: this row is the effect."""

    to = models.EmailField()
    subject = models.CharField(max_length=200)
    body = models.TextField()
    key = models.CharField(max_length=100, unique=True, editable=False)
    sent_at = models.DateTimeField()

    class Meta:
        default_permissions = ("view",)
        ordering = ["-id"]

    def __str__(self) -> str:
        return self.subject
