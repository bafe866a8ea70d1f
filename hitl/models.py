"""The rows of a durable question: the park, its votes and audit trail, and the pulse of the sweep.

Statuses are written by `hitl/parks.py` alone, audit rows by `hitl/audit.py` alone. Nothing calls a
full `save()` on a park. What the code promises about a row, a constraint or trigger says again.
"""

from datetime import datetime
from typing import Any, ClassVar

from django.db import models
from django.db.models import F, Q

from hitl.fields import JSONText
from hitl.ids import new_id
from hitl.states import FOR_PEOPLE, TIMERS, CallbackStatus, OnTimeout, ParkStatus, Reason

STANDALONE = "callback"
"""The kind of waiter of a standalone request."""


class ParkQuerySet(models.QuerySet["Park"]):
    """Reads over parks."""

    def pending(self) -> "ParkQuerySet":
        return self.filter(status=ParkStatus.PENDING)

    def cards(self) -> "ParkQuerySet":
        """Only parks that someone can answer; timers are nobody's business."""
        return self.exclude(reason__in=TIMERS)

    def for_people(self) -> "ParkQuerySet":
        """Only parks that call for a person, not those that a job settles by itself (J6)."""
        return self.filter(reason__in=FOR_PEOPLE)

    def due(self, now: datetime) -> "ParkQuerySet":
        """Pending parks whose deadline has passed."""
        return self.pending().filter(expires_at__lte=now)

    def soonest_first(self) -> "ParkQuerySet":
        """Nearest deadline first; those without one last."""
        return self.order_by(F("expires_at").asc(nulls_last=True), "id")


class Park(models.Model):
    """A durable wait for one answer: an approval, a job elsewhere, or only a deadline.

    `waiter_kind`/`waiter_id` name what goes on once it is settled. `scope` is the id under which
    people look for it (a thread, or the run itself) and `key` what is asked about inside it (a tool
    call). `answer` is null until someone answered; then `{"payload": …}` when a payload came with
    it, so that an empty payload is not the same as none. One pending park at a time holds a
    `token`; `schema` is the JSON schema that the payload of a yes must fit.

    `arguments` are the effective ones; `proposed` is null until somebody edited them, and then what
    had been asked first. The values named in `redacted` are masks in either. `policy` says who may
    approve, as it was when the park opened (`hitl/approvers.py`).
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    waiter_kind = models.CharField(max_length=20)
    waiter_id = models.UUIDField()
    scope = models.UUIDField()
    key = models.CharField(max_length=200)
    reason = models.CharField(max_length=40)
    topic = models.CharField(max_length=100, blank=True)
    title = models.CharField(max_length=200, blank=True)
    description = models.TextField(blank=True)
    asker = models.CharField(max_length=100, blank=True)
    asker_depth = models.PositiveSmallIntegerField(default=0)
    asker_path = JSONText(default=list)
    arguments = JSONText(default=dict)
    proposed = JSONText(null=True)
    redacted = JSONText(default=list)
    digest = models.CharField(max_length=80, blank=True)
    editable = models.BooleanField(default=False)
    policy = JSONText(default=dict)
    takes_payload = models.CharField(max_length=10, default="result")
    status = models.CharField(
        max_length=10, choices=[(s, s) for s in ParkStatus], default=ParkStatus.PENDING
    )
    on_timeout = models.CharField(
        max_length=10, choices=[(s, s) for s in OnTimeout], default=OnTimeout.REJECT
    )
    opened_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True)
    warn_at = models.DateTimeField(null=True)
    settled_at = models.DateTimeField(null=True)
    settled_by = models.CharField(max_length=200, blank=True)
    channel = models.CharField(max_length=20, blank=True)
    answer_reason = models.TextField(blank=True)
    answer = JSONText(null=True)
    metadata = JSONText(default=dict)
    blanked_at = models.DateTimeField(null=True)
    token = models.CharField(max_length=200, null=True)  # noqa: DJ001  (null: none was chosen)
    schema = JSONText(null=True)

    objects = ParkQuerySet.as_manager()

    class Meta:
        verbose_name = "request"
        permissions = [
            ("decide_park", "Can approve and deny requests"),
            ("answer_park", "Can answer requests with a result"),
            ("cancel_park", "Can cancel requests"),
            ("edit_park", "Can change what requests ask for"),
            ("extend_park", "Can extend the deadlines of requests"),
            ("reveal_park", "Can see redacted values of requests"),
        ]
        default_permissions = ("view",)
        indexes = [
            models.Index(
                "expires_at", "id", name="hitl_park_due", condition=Q(status=ParkStatus.PENDING)
            ),
            models.Index(
                "warn_at",
                "id",
                name="hitl_park_warn",
                condition=Q(status=ParkStatus.PENDING, warn_at__isnull=False),
            ),
            models.Index("scope", "key", name="hitl_park_scope"),
            models.Index("waiter_id", name="hitl_park_waiter"),
            # Lists of settled requests, newest first. An index for each status, since of one over
            # (status, id) PostgreSQL believes that it jumps about in the table, and reads past all
            # that is pending instead. Then of a tool or asker that is rare.
            *(
                models.Index("id", name=f"hitl_park_{status}", condition=Q(status=status))
                for status in ParkStatus
                if status != ParkStatus.PENDING
            ),
            models.Index("topic", "id", name="hitl_park_topic"),
            models.Index("asker", "id", name="hitl_park_asker"),
            models.Index("token", name="hitl_park_token", condition=Q(token__isnull=False)),
            models.Index(
                "status", "id", name="hitl_park_standalone", condition=Q(waiter_kind=STANDALONE)
            ),
        ]
        constraints = [
            models.UniqueConstraint(
                "waiter_id",
                "key",
                name="hitl_park_one_open_per_key",
                condition=Q(status=ParkStatus.PENDING),
            ),
            models.UniqueConstraint(
                "token",
                name="hitl_park_one_holder_per_token",
                condition=Q(status=ParkStatus.PENDING, token__isnull=False),
            ),
            models.CheckConstraint(
                name="hitl_park_settled_has_time",
                condition=Q(status=ParkStatus.PENDING, settled_at__isnull=True)
                | (~Q(status=ParkStatus.PENDING) & Q(settled_at__isnull=False)),
            ),
            models.CheckConstraint(
                name="hitl_park_deadline_or_ignore",
                condition=Q(expires_at__isnull=False) | Q(on_timeout=OnTimeout.IGNORE),
            ),
        ]

    def __str__(self) -> str:
        return self.title or f"{self.reason} {self.key}"

    OTHERS_OPEN: ClassVar[dict[str, str]] = {
        "others_open": "SELECT EXISTS (SELECT 1 FROM hitl_park AS other WHERE"
        " other.waiter_id = hitl_park.waiter_id AND other.status = 'pending'"
        " AND other.id <> hitl_park.id)"
    }
    others_open = False
    """Whether its waiter has others open: known of a park that was settled just now."""

    @property
    def is_pending(self) -> bool:
        return self.status == ParkStatus.PENDING

    @property
    def subject(self) -> str:
        """What is asked about: the key, without the number of a question that may come again."""
        return self.key.partition(".")[0]

    @property
    def is_job(self) -> bool:
        """Tell whether the work that waits asked for this wait itself, after it had begun."""
        return bool(self.metadata.get("job"))

    @property
    def is_standalone(self) -> bool:
        """Tell whether any code asked for it through `hitl.approval`, and is told by a callback."""
        return self.waiter_kind == STANDALONE

    @property
    def is_own_scope(self) -> bool:
        """Tell whether the work that waits is looked for under its own id: a workflow's run."""
        return self.scope == self.waiter_id and not self.is_standalone

    @property
    def asked_by(self) -> str:
        """Who asks: the agents from the top down to the one that made the call (N1)."""
        return " › ".join(map(str, self.asker_path)) or self.asker

    @property
    def is_for_people(self) -> bool:
        """Tell whether it calls for a person: a card, where the rest has a status line (J6)."""
        return self.reason in FOR_PEOPLE

    @property
    def guardrail(self) -> dict[str, Any]:
        """The rule that asks for a person, with the kinds of its findings; empty without one."""
        named: dict[str, Any] = self.metadata.get("guardrail", {})
        return named

    @property
    def is_held(self) -> bool:
        """Tell whether a guardrail holds a message or a reply back, rather than a call (G3)."""
        return self.reason == Reason.GUARDRAIL

    @property
    def is_timer(self) -> bool:
        return self.reason in TIMERS

    def is_overdue(self, now: datetime) -> bool:
        """Tell whether the deadline has passed while nobody has acted on it yet."""
        return self.is_pending and self.expires_at is not None and self.expires_at <= now

    @property
    def was_answered_with_result(self) -> bool:
        """Tell whether a person supplied the result, so that the tool did not run (A8)."""
        return (
            self.status == ParkStatus.APPROVED
            and self.takes_payload == "result"
            and self.answer is not None
            and "payload" in self.answer
        )


class CallbackDelivery(models.Model):
    """Who waits for a standalone request, and how it is told: the waiter of the kind `callback`.

    One row per request, made with it. `url` is where the decision is POSTed, as the requester wrote
    it; blank when nobody is to be called. `fingerprint` is the digest of what was asked, by which a
    repeated `idempotency_key` is recognised. Statuses are written by
    `hitl/callbacks/deliveries.py` alone.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    park = models.OneToOneField(Park, on_delete=models.PROTECT, related_name="callback")
    url = models.CharField(max_length=2000, blank=True)
    idempotency_key = models.CharField(max_length=200, null=True, unique=True)  # noqa: DJ001
    fingerprint = models.CharField(max_length=80)
    status = models.CharField(
        max_length=10,
        choices=[(s, s) for s in CallbackStatus],
        default=CallbackStatus.WAITING,
    )
    attempts = models.PositiveSmallIntegerField(default=0)
    next_attempt_at = models.DateTimeField(null=True)
    lease_token = models.UUIDField(null=True)
    lease_until = models.DateTimeField(null=True)
    last_error = models.CharField(max_length=500, blank=True)
    delivered_at = models.DateTimeField(null=True)

    class Meta:
        verbose_name = "callback"
        verbose_name_plural = "callbacks"
        default_permissions = ("view",)
        permissions = [("resend_callbackdelivery", "Can send callbacks again")]
        indexes = [
            models.Index(
                "next_attempt_at",
                "id",
                name="hitl_callback_owed",
                condition=Q(status=CallbackStatus.OWED),
            ),
            models.Index("id", name="hitl_callback_dead", condition=Q(status=CallbackStatus.DEAD)),
        ]
        constraints = [
            models.CheckConstraint(
                name="hitl_callback_owed_has_time",
                condition=Q(status=CallbackStatus.OWED, next_attempt_at__isnull=False)
                | (~Q(status=CallbackStatus.OWED) & Q(next_attempt_at__isnull=True)),
            ),
            models.CheckConstraint(
                name="hitl_callback_lease_is_whole",
                condition=Q(lease_token__isnull=True, lease_until__isnull=True)
                | Q(
                    lease_token__isnull=False,
                    lease_until__isnull=False,
                    status=CallbackStatus.OWED,
                ),
            ),
        ]

    def __str__(self) -> str:
        return self.url or "nobody"


class EarlyAnswer(models.Model):
    """An answer that came before its park was committed (J3): kept, and applied when it opens."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    waiter_kind = models.CharField(max_length=20)
    waiter_id = models.UUIDField()
    key = models.CharField(max_length=200)
    status = models.CharField(max_length=10, choices=[(s, s) for s in ParkStatus])
    reason = models.TextField(blank=True)
    answer = JSONText(default=dict)
    actor = models.CharField(max_length=200)
    channel = models.CharField(max_length=20)
    at = models.DateTimeField()

    class Meta:
        default_permissions = ()
        constraints = [
            models.UniqueConstraint("waiter_id", "key", name="hitl_early_answer_first_wins")
        ]

    def __str__(self) -> str:
        return self.key


class Verb(models.TextChoices):
    """What an audit row records."""

    OPENED = "opened", "opened"
    APPROVED = "approved", "approved"
    REJECTED = "rejected", "denied"
    ANSWERED = "answered", "answered with a result"
    EXPIRED = "expired", "expired"
    CANCELLED = "cancelled", "cancelled"
    REFUSED = "refused", "attempt refused"
    EDITED = "edited", "edited"
    VOTED = "voted", "voted"
    EXTENDED = "extended", "extended"
    WARNED = "warned", "warned of its deadline"
    BLANKED = "blanked", "payload blanked"
    CALLBACK_SENT = "callback_sent", "callback delivered"
    CALLBACK_FAILED = "callback_failed", "callback failed"
    CALLBACK_RESENT = "callback_resent", "callback ordered again"


class Seal(models.Model):
    """One link of the chain over the audit trail: the rows sealed with it, and the link before.

    Append-only. `hash` covers the number, the time, the hash of the seal before and the hashes of
    its rows in the order of their ids, so a changed, missing, added or reordered row shows.
    """

    number = models.PositiveBigIntegerField(primary_key=True)
    row_count = models.PositiveIntegerField()
    previous = models.CharField(max_length=80, blank=True)
    hash = models.CharField(max_length=80)
    at = models.DateTimeField()

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"seal {self.number}"


class Decision(models.Model):
    """One row of the audit trail: who did what to a park, through which channel, when and why.

    Append-only: the database refuses UPDATE and DELETE, but for giving a row its seal, once.
    `system` is true for the platform's own acts, such as an expiry, which are never recorded as a
    person's (E2). `hash` covers all that the row says.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    park = models.ForeignKey(Park, on_delete=models.PROTECT, related_name="decisions")
    verb = models.CharField(max_length=20, choices=Verb.choices)
    actor = models.CharField(max_length=200)
    system = models.BooleanField(default=False)
    channel = models.CharField(max_length=20)
    reason = models.TextField(blank=True)
    detail = JSONText(default=dict)
    at = models.DateTimeField()
    hash = models.CharField(max_length=80)
    seal = models.ForeignKey(
        Seal, null=True, on_delete=models.PROTECT, related_name="rows", db_index=False
    )

    class Meta:
        verbose_name = "audit row"
        default_permissions = ("view",)
        indexes = [
            models.Index("id", name="hitl_decision_loose", condition=Q(seal__isnull=True)),
            models.Index(
                "seal", "id", name="hitl_decision_sealed", condition=Q(seal__isnull=False)
            ),
        ]

    def __str__(self) -> str:
        return f"{self.verb} by {self.actor}"


class Vote(models.Model):
    """What one person said to a park that needs several; a later word of theirs replaces it.

    `voter` is the user's key, `counts_for` the places in the park's policy that the vote may fill,
    `digest` what the park asked for when it was given: a vote for something else does not count.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    park = models.ForeignKey(Park, on_delete=models.CASCADE, related_name="votes", db_index=False)
    voter = models.CharField(max_length=64)
    name = models.CharField(max_length=200)
    approved = models.BooleanField()
    counts_for = JSONText(default=list)
    digest = models.CharField(max_length=80, blank=True)
    at = models.DateTimeField()

    class Meta:
        default_permissions = ()
        constraints = [models.UniqueConstraint("park", "voter", name="hitl_vote_once")]

    def __str__(self) -> str:
        return self.name


class Pulse(models.Model):
    """When a recurring part of the platform last did its work, for health checks."""

    name = models.CharField(max_length=40, primary_key=True)
    at = models.DateTimeField()
    detail = JSONText(default=dict)

    class Meta:
        default_permissions = ("view",)

    def __str__(self) -> str:
        return self.name
