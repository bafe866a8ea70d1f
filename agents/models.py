"""The rows of a conversation, of a workflow's journal, and of triggers and what came to them.

`Run.status` is written by `agents/runs.py` alone, a tool call's phase by `agents/effects.py` and
the verbs that close a run. Nothing calls a full `save()` on these rows.

A run is one turn: its `input` is the user's message, its steps are the model's replies. Events have
gap-free numbers within a thread; the last one given out stands in the current run's `event_seq`, so
whoever holds that row may hand out the next without locking anything more.
"""

from datetime import timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import models
from django.db.models import Q

from agents.guardrails.rows import (  # noqa: F401  (models of this app)
    GuardrailChange,
    GuardrailRule,
    GuardrailStamp,
)
from agents.states import (
    ACTIVE,
    IDLE,
    UNSETTLED,
    DeliveryStatus,
    EntryState,
    Phase,
    RunStatus,
)
from hitl import redaction
from hitl.fields import JSONText
from hitl.ids import new_id


class Thread(models.Model):
    """A conversation with one agent, across runs."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    agent = models.CharField(max_length=100)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    title = models.CharField(max_length=200, blank=True)
    metadata = JSONText(default=dict)
    current_run = models.ForeignKey(
        "Run", null=True, on_delete=models.SET_NULL, related_name="+", db_index=False
    )
    created_at = models.DateTimeField()

    class Meta:
        default_permissions = ("view",)
        permissions = [("stop_thread", "Can stop the runs of threads")]

    def __str__(self) -> str:
        return self.title or str(self.id)

    @property
    def status(self) -> str:
        """The current run's status, or IDLE. Asks the database each time."""
        shown = Thread.objects.filter(id=self.id).values_list("current_run__status", flat=True)
        return shown.first() or IDLE


class RunKind(models.TextChoices):
    """How a run goes on: an agent from saved history, a workflow by replay."""

    AGENT = "agent", "agent"
    WORKFLOW = "workflow", "workflow"


class Run(models.Model):
    """One piece of work brought to an end: one turn of an agent, or one execution of a workflow.

    A QUEUED run owes a segment. A RUNNING one has a lease: `lease_token` is the fencing token that
    each write of its segment names, `lease_until` when the lease lapses.

    A workflow's run has no thread. `deliveries` counts the completions in its journal. A run with a
    `parent` was begun by that run, which waits for it under `parent_key`, and owes it a report once
    it is over; `reported_at` says that it is made. One run of a workflow at a time is active for a
    `correlation_key`: events with that key are for it.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    kind = models.CharField(max_length=10, choices=RunKind.choices, default=RunKind.AGENT)
    target = models.CharField(max_length=100)
    thread = models.ForeignKey(
        Thread, null=True, on_delete=models.CASCADE, related_name="runs", db_index=False
    )
    number = models.PositiveIntegerField(default=1, help_text="Place in the thread, from 1.")
    code_version = models.CharField(max_length=20, blank=True)
    idempotency_key = models.CharField(max_length=200, null=True)  # noqa: DJ001  (null: none given)
    correlation_key = models.CharField(max_length=200, null=True)  # noqa: DJ001  (null: none given)
    parent = models.ForeignKey(
        "self", null=True, on_delete=models.SET_NULL, related_name="+", db_index=False
    )
    parent_key = models.CharField(max_length=200, blank=True)
    reported_at = models.DateTimeField(null=True)
    status = models.CharField(
        max_length=20, choices=[(s, s) for s in RunStatus], default=RunStatus.QUEUED
    )
    input = JSONText(default=dict)
    output = JSONText(null=True)
    error = models.TextField(blank=True)
    holds = models.PositiveSmallIntegerField(
        default=0, help_text="Replies that a guardrail keeps back and nobody has released."
    )
    lease_token = models.PositiveIntegerField(default=0)
    lease_until = models.DateTimeField(null=True)
    attempts = models.PositiveSmallIntegerField(default=0)
    model_failures = models.PositiveSmallIntegerField(default=0)
    stop_requested = models.BooleanField(default=False)
    stop_asked = JSONText(null=True, help_text="Who asked a worker to stop it, and why.")
    steps = models.PositiveIntegerField(default=0)
    input_tokens = models.PositiveBigIntegerField(default=0)
    output_tokens = models.PositiveBigIntegerField(default=0)
    cost_micros = models.PositiveBigIntegerField(default=0)
    event_seq = models.PositiveIntegerField(default=0)
    deliveries = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField()
    queued_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)
    dropped_at = models.DateTimeField(null=True, help_text="An edit cut this turn away.")

    class Meta:
        default_permissions = ("view",)
        permissions = [
            ("start_run", "Can start workflows"),
            ("cancel_run", "Can cancel runs of workflows"),
            ("retry_run", "Can let failed runs of workflows go on"),
        ]
        indexes = [
            models.Index("queued_at", name="agents_run_queued", condition=Q(status="QUEUED")),
            models.Index("lease_until", name="agents_run_leased", condition=Q(status="RUNNING")),
            models.Index(
                "finished_at",
                name="agents_run_unreported",
                condition=Q(parent__isnull=False, reported_at__isnull=True),
            ),
        ]
        constraints = [
            models.UniqueConstraint("thread", "number", name="agents_run_number"),
            models.UniqueConstraint(
                "target",
                "idempotency_key",
                name="agents_run_idempotency",
                condition=Q(idempotency_key__isnull=False),
            ),
            models.UniqueConstraint(
                "target",
                "correlation_key",
                name="agents_run_one_per_key",
                condition=Q(correlation_key__isnull=False, status__in=sorted(ACTIVE)),
            ),
            models.CheckConstraint(
                name="agents_run_thread_iff_agent",
                condition=Q(kind="agent", thread__isnull=False)
                | Q(kind="workflow", thread__isnull=True),
            ),
            models.UniqueConstraint(
                "thread",
                name="agents_run_one_active",
                condition=Q(status__in=sorted(ACTIVE)),
            ),
            models.CheckConstraint(
                name="agents_run_lease_iff_running",
                condition=Q(status="RUNNING", lease_until__isnull=False)
                | (~Q(status="RUNNING") & Q(lease_until__isnull=True)),
            ),
        ]

    rules_stamp: str | None = None
    """The stamp of the guardrails when the lease was taken; not a column."""

    def __str__(self) -> str:
        return f"{self.target} #{self.number}"

    @property
    def scope(self) -> UUID:
        """The id under which people look for what it asks: its thread's, or a workflow's own."""
        return self.thread_id or self.id


class Frame(models.Model):
    """A subagent's place in a run: the tool call that delegated to it, and how deep it is.

    Frames form a tree; the root of a run has no row. The way to a frame's root is the stack through
    which an answer unwinds.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="frames")
    call = models.OneToOneField("ToolCall", on_delete=models.CASCADE, related_name="child")
    agent = models.CharField(max_length=100)
    depth = models.PositiveSmallIntegerField()
    path = JSONText(default=list)
    message = models.TextField()
    created_at = models.DateTimeField()

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return " → ".join(self.path)


class Step(models.Model):
    """One saved model reply. `raw` is the model library's own form of it, replayed to providers.

    `verdict` names the guardrail that the reply broke. While that keeps it back, `held` has the
    text and `raw` of it, and the columns of these names are empty: nothing shows it by mistake.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="replies", db_index=False)
    number = models.PositiveIntegerField(help_text="Place in the run, from 1.")
    frame = models.ForeignKey(
        Frame, null=True, on_delete=models.CASCADE, related_name="replies", db_index=False
    )
    text = models.TextField(blank=True)
    raw = JSONText(null=True)
    verdict = JSONText(null=True)
    held = JSONText(null=True)
    input_tokens = models.PositiveIntegerField(default=0)
    output_tokens = models.PositiveIntegerField(default=0)
    cost_micros = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField()

    class Meta:
        default_permissions = ()
        constraints = [models.UniqueConstraint("run", "number", name="agents_step_number")]

    def __str__(self) -> str:
        return f"step {self.number}"


class ToolCall(models.Model):
    """A request by the model to use a tool. Its identity is ours; the provider's id is a column.

    `arguments` are the effective ones: validated, with defaults; `proposed` is null unless a person
    changed them, and then what they were. `arguments_text` is what the model wrote. Once `phase` is
    done, `result` is the one result that the model is given.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="calls")
    step = models.ForeignKey(Step, on_delete=models.CASCADE, related_name="calls", db_index=False)
    index = models.PositiveSmallIntegerField(help_text="Place in the step, from 0.")
    provider_id = models.CharField(max_length=200, blank=True)
    tool_name = models.CharField(max_length=100)
    tool_id = models.CharField(max_length=200, blank=True)
    arguments_text = models.TextField(blank=True)
    arguments = JSONText(default=dict)
    proposed = JSONText(null=True)
    redacted = JSONText(default=list)
    digest = models.CharField(max_length=80, blank=True)
    gated = models.BooleanField(default=False)
    verdict = JSONText(null=True)
    on_doubt = models.CharField(max_length=10, blank=True)
    phase = models.CharField(max_length=10, choices=[(p, p) for p in Phase], default=Phase.OPEN)
    claimed_by = models.PositiveIntegerField(default=0)
    asked = JSONText(null=True)
    outcome = models.CharField(max_length=10, blank=True)
    result = JSONText(null=True)
    done_at = models.DateTimeField(null=True)

    class Meta:
        default_permissions = ()
        constraints = [models.UniqueConstraint("step", "index", name="agents_call_index")]

    def __str__(self) -> str:
        return self.tool_name

    @property
    def shown_arguments(self) -> dict[str, Any]:
        """The arguments with masks for those that few may see (O6)."""
        shown: dict[str, Any] = redaction.mask(self.arguments, self.redacted)
        return shown


class JournalEntry(models.Model):
    """One command of a workflow's body, and its completion: the row that replay goes by.

    `position` is the order in which the body asked, from 0; `delivered` the order in which the
    completions came, from 1 (0: known when it was asked for; null: still open). A hook has a row
    per delivery, told apart by `number`; `repeats` says that the next one follows at once. A step
    that `is_apart` is a task of its own. `owed_at` is from when on an entry owes something that a
    worker other than the segment's is to do: a step to begin, or to be taken over from a dead
    worker.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="journal", db_index=False)
    position = models.PositiveIntegerField()
    number = models.PositiveIntegerField(default=0)
    kind = models.CharField(max_length=20)
    name = models.CharField(max_length=200, blank=True)
    digest = models.CharField(max_length=80, blank=True)
    input = JSONText(null=True)
    state = models.CharField(max_length=10, choices=[(s, s) for s in EntryState])
    delivered = models.PositiveIntegerField(null=True)
    result = JSONText(null=True)
    error = JSONText(null=True)
    repeats = models.BooleanField(default=False)
    claim = models.PositiveIntegerField(default=0)
    attempts = models.PositiveIntegerField(default=0)
    failures = models.PositiveIntegerField(default=0)
    queue = models.CharField(max_length=100, blank=True)
    is_apart = models.BooleanField(default=False)
    due_at = models.DateTimeField(null=True)
    owed_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField()
    done_at = models.DateTimeField(null=True)

    class Meta:
        default_permissions = ()
        verbose_name_plural = "journal entries"
        indexes = [
            models.Index("owed_at", name="agents_entry_owed", condition=Q(owed_at__isnull=False)),
        ]
        constraints = [
            models.UniqueConstraint("run", "position", "number", name="agents_entry_position"),
            models.UniqueConstraint(
                "run", "delivered", name="agents_entry_delivered", condition=Q(delivered__gt=0)
            ),
            models.CheckConstraint(
                name="agents_entry_done_iff_delivered",
                condition=Q(state=EntryState.DONE, delivered__isnull=False)
                | (~Q(state=EntryState.DONE) & Q(delivered__isnull=True)),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.position} {self.kind} {self.name}".strip()


class Event(models.Model):
    """One row of a thread's log; `seq` starts at 1 and has no gaps."""

    id = models.BigAutoField(primary_key=True)
    thread = models.ForeignKey(Thread, on_delete=models.CASCADE, related_name="log", db_index=False)
    seq = models.PositiveIntegerField()
    type = models.CharField(max_length=40)
    data = JSONText(default=dict)
    at = models.DateTimeField()

    class Meta:
        default_permissions = ()
        ordering = ["seq"]
        constraints = [models.UniqueConstraint("thread", "seq", name="agents_event_seq")]

    def __str__(self) -> str:
        return f"{self.seq} {self.type}"


class Verification(models.TextChoices):
    """How a trigger tells that an event is from whom it should be."""

    STANDARD = "standard", "Standard Webhooks signature"
    SHA256 = "sha256", "HMAC-SHA256 of the body (as GitHub's: sha256=…)"
    SECRET = "secret", "Shared secret in a header"


class Trigger(models.Model):
    """What makes a run of a workflow out of an outside event, or gives the event to a waiting one.

    The four expressions are JMESPath over the event's JSON. `secret` is the name of a secret in
    `AGENTS["TRIGGER_SECRETS"]`, never the secret. A refused request leaves no row but these counts.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    slug = models.SlugField(max_length=80, unique=True)
    workflow = models.CharField(max_length=100)
    enabled = models.BooleanField(default=False)
    correlation_key = models.CharField(max_length=1000, blank=True)
    input = models.TextField(max_length=4000, blank=True)
    payload = models.TextField(max_length=4000, blank=True)
    delivery_id = models.CharField(max_length=1000, blank=True)
    delivery_header = models.CharField(max_length=100, blank=True)
    starts_runs = models.BooleanField(default=True)
    buffer_window = models.DurationField(default=timedelta(minutes=5))
    verification = models.CharField(
        max_length=10, choices=Verification.choices, default=Verification.STANDARD
    )
    secret = models.CharField(max_length=100)
    header = models.CharField(max_length=100, blank=True)
    refused_count = models.PositiveIntegerField(default=0)
    refused_at = models.DateTimeField(null=True, editable=False)
    refused_why = models.CharField(max_length=200, blank=True)
    created_at = models.DateTimeField()

    class Meta:
        default_permissions = ("view", "add", "change")

    def __str__(self) -> str:
        return self.slug


class TriggerDelivery(models.Model):
    """One event that came to a trigger, and what became of it.

    Its status is written by `agents/triggers/deliveries.py` alone. `digest` is over the body as it
    came, byte for byte. `owed_at` is from when on somebody is to look at it (again), `keep_until`
    the end of the window for which a buffered one is kept.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    trigger = models.ForeignKey(
        Trigger, on_delete=models.PROTECT, related_name="deliveries", db_index=False
    )
    delivery_id = models.CharField(max_length=200)
    digest = models.CharField(max_length=80)
    body = JSONText(null=True)
    status = models.CharField(
        max_length=10,
        choices=[(s, s) for s in DeliveryStatus],
        default=DeliveryStatus.RECEIVED,
    )
    key = models.CharField(max_length=200, blank=True)
    run = models.ForeignKey(Run, null=True, on_delete=models.SET_NULL, related_name="+")
    error = models.TextField(blank=True)
    attempts = models.PositiveSmallIntegerField(default=0)
    received_at = models.DateTimeField()
    owed_at = models.DateTimeField(null=True)
    keep_until = models.DateTimeField(null=True)
    settled_at = models.DateTimeField(null=True)

    class Meta:
        verbose_name = "outside event"
        default_permissions = ("view",)
        permissions = [("rerun_triggerdelivery", "Can have events of triggers handled again")]
        indexes = [
            models.Index(
                "owed_at", name="agents_delivery_owed", condition=Q(owed_at__isnull=False)
            ),
            models.Index("key", "id", name="agents_delivery_kept", condition=Q(status="buffered")),
            models.Index(
                "settled_at", name="agents_delivery_old", condition=Q(settled_at__isnull=False)
            ),
        ]
        constraints = [
            models.UniqueConstraint("trigger", "delivery_id", name="agents_delivery_once"),
            models.CheckConstraint(
                name="agents_delivery_owed_iff_unsettled",
                condition=Q(
                    status__in=sorted(UNSETTLED), owed_at__isnull=False, settled_at__isnull=True
                )
                | (
                    ~Q(status__in=sorted(UNSETTLED))
                    & Q(owed_at__isnull=True, settled_at__isnull=False)
                ),
            ),
        ]

    def __str__(self) -> str:
        return self.delivery_id
