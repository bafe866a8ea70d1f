"""What the office wants to buy. Written by `purchases.py` alone."""

from django.db import models


class Purchase(models.Model):
    """One wish, and what came of it."""

    class Status(models.TextChoices):
        """Where a wish stands."""

        ASKED = "asked", "asked for"
        ORDERED = "ordered", "ordered"
        DECLINED = "declined", "declined"

    item = models.CharField(max_length=100)
    amount = models.DecimalField("amount, in €", max_digits=8, decimal_places=2)
    wanted_by = models.CharField(max_length=100)
    status = models.CharField(max_length=10, choices=Status.choices, default=Status.ASKED)
    note = models.CharField(max_length=200, blank=True)

    class Meta:
        default_permissions = ("view",)
        ordering = ["-id"]

    def __str__(self) -> str:
        return self.item
