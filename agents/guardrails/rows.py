"""The rows of the guardrails: rules, the trail of their changes, and a stamp of the newest change.

Written by `agents/guardrails/rulebook.py` alone; models of the app `agents`.
"""

from django.db import models

from agents.guardrails.checks import CHECKS
from agents.guardrails.subjects import Action, Where
from hitl.fields import JSONText
from hitl.ids import new_id


class GuardrailRule(models.Model):
    """A rule that turns are judged by.

    `agents` and `tools` name whom it applies to; empty: all. `version` counts its changes.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    name = models.CharField(max_length=100, unique=True)
    where = models.CharField(max_length=10, choices=[(w, w) for w in Where])
    check_name = models.CharField(max_length=20, choices=[(c, c) for c in CHECKS])
    settings = JSONText(default=dict)
    agents = JSONText(default=list)
    tools = JSONText(default=list)
    action = models.CharField(max_length=20, choices=[(a, a) for a in Action])
    order = models.PositiveIntegerField()
    enabled = models.BooleanField(default=True)
    shadow = models.BooleanField(default=False)
    fail_open = models.BooleanField(default=False)
    version = models.PositiveIntegerField(default=1)
    changed_at = models.DateTimeField()

    class Meta:
        verbose_name = "guardrail"
        ordering = ("order", "id")

    def __str__(self) -> str:
        return self.name


class GuardrailChange(models.Model):
    """One row of the rules' own trail: who changed what, from what to what. Append-only."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    rule_id = models.UUIDField(db_index=True, help_text="The rule, which may be gone.")
    rule_name = models.CharField(max_length=100)
    actor = models.CharField(max_length=200)
    channel = models.CharField(max_length=20)
    before = JSONText(null=True)
    after = JSONText(null=True)
    at = models.DateTimeField()

    class Meta:
        verbose_name = "change of a guardrail"
        verbose_name_plural = "changes of guardrails"
        default_permissions = ("view",)

    def __str__(self) -> str:
        return f"{self.rule_name} by {self.actor}"


class GuardrailStamp(models.Model):
    """One row, whose `value` is another after each change of a rule; none before the first."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    value = models.CharField(max_length=32)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return self.value
