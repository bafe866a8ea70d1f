"""Writing down what a body has asked for: entries of the journal, and what they wait for as parks.

One transaction under the lease: the run's row first, then the entries, then the parks. A token that
another wait holds makes no park: that entry is complete at once, with the conflict.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import IntegrityError, transaction

from agents.models import JournalEntry, Run
from agents.states import EntryState
from agents.triggers import deliveries
from agents.workflows import children, journal
from agents.workflows.awaiting import AGENT, SLEEP, STEP, VALUES
from agents.workflows.gates import APPROVAL, HOOK
from agents.workflows.replay import Command
from hitl import clock, openings
from hitl.errors import HitlError
from hitl.ids import new_id
from hitl.models import Park
from hitl.openings import Opening
from hitl.rows import new
from hitl.states import OnTimeout, Reason

LEAST = timedelta(milliseconds=1)
TITLE_OF_HOOK = "Waits for {name}"


@dataclass(slots=True)
class Asked:
    """One command with the rows that stand for it. `park` is None for what is no park."""

    command: Command
    row: JournalEntry
    park: Opening | None

    @property
    def needs_word(self) -> bool:
        """Tell whether it may be over as soon as it is written: the token is held, or no agent."""
        return self.token is not None or self.command.kind == AGENT

    @property
    def token(self) -> str | None:
        return self.park.token if self.park is not None else None


def draft(run: Run, commands: Sequence[Command], *, inline: int | None) -> list[Asked]:
    """Return what stands for these commands, not yet stored. `inline` is the segment's own step."""
    now = clock.now()
    return [_draft(run, command, now, is_inline=command.position == inline) for command in commands]


def _draft(run: Run, command: Command, now: datetime, *, is_inline: bool) -> Asked:
    request = command.request
    row = new(
        JournalEntry,
        id=new_id(),
        position=command.position,
        kind=command.kind,
        name=command.name,
        digest=command.digest,
        state=EntryState.OPEN,
        created_at=now,
    )
    opening = None
    if command.kind in VALUES:
        row.state, row.delivered, row.result, row.done_at = EntryState.DONE, 0, command.value, now
    elif command.kind == STEP:
        row.input, row.is_apart, row.queue = request.input, not is_inline, request.step.policy.queue
        row.owed_at = None if is_inline else now
    elif command.kind == SLEEP:
        lasts = request.lasts or max(request.until - now, LEAST)
        opening = Opening(id=row.id, key=_key(command), reason=Reason.SLEEP, ttl=lasts)
    elif command.kind == HOOK:
        row.input, row.repeats = {"token": request.token}, True
        opening = hook_opening(row, request.schema, asker=run.target)
    elif command.kind == APPROVAL:
        row.input = request.input
        opening = _gate(run, row, request)
    else:
        row.input = request.input
    return Asked(command, row, opening)


def _gate(run: Run, row: JournalEntry, request: Any) -> Opening:
    asked = request.asked
    return Opening(
        id=row.id,
        key=request.token or f"{row.name}:{row.position}",
        reason=Reason.APPROVAL,
        ttl=asked.ttl,
        title=asked.title,
        topic=row.name,
        description=asked.description,
        asker=run.target,
        asker_path=(run.target,),
        arguments={} if request.payload is None else request.payload,
        digest=row.digest,
        takes_payload="context",
        on_timeout=OnTimeout(asked.fallback),
        policy=asked.policy,
        metadata=asked.metadata,
        token=request.token,
        schema=request.schema,
    )


def hook_opening(row: JournalEntry, schema: Any, *, asker: str) -> Opening:
    """Return the park of one delivery to a hook; its deadline is the body's business."""
    return Opening(
        id=row.id,
        key=row.input["token"],
        reason=Reason.HOOK,
        ttl=None,
        on_timeout=OnTimeout.IGNORE,
        title=TITLE_OF_HOOK.format(name=row.name),
        topic=row.name,
        asker=asker,
        asker_path=(asker,),
        takes_payload="context",
        token=row.input["token"],
        schema=schema,
    )


def _key(command: Command) -> str:
    return f"{command.name or command.kind}:{command.position}"


def store(run: Run, asked: Sequence[Asked]) -> list[Asked]:
    """Store these in the caller's transaction, which holds the run's row; returns what is over.

    What cannot be waited for, such as a token that is held, is complete under the next numbers; the
    caller counts them up.
    """
    with_token = sorted((one for one in asked if one.token is not None), key=_by_token)
    over = {
        one.row.position: journal.conflict(one.row.kind, one.row.created_at)
        for one in with_token
        if not _open(run, one)
    }
    for one in asked:
        if one.command.kind == AGENT and (error := _begin(run, one)) is not None:
            over[one.row.position] = None, error
    refused = [one for one in asked if one.row.position in over]
    for order, one in enumerate(refused, start=run.deliveries + 1):
        one.row.state, one.row.delivered = EntryState.DONE, order
        one.row.result, one.row.error = over[one.row.position]
        one.row.done_at = one.row.created_at
    plain = [one.park for one in asked if one.park is not None and one.token is None]
    drafts = openings.draft_all("run", run.id, run.id, plain)
    journal.insert(run.id, [one.row for one in asked], openings.rows_of(drafts))
    if drafts:
        openings.opened(drafts)
    # Events may be kept for it, which came before it waited (K4).
    hooks = [one.park for one in with_token if one.park is not None and one not in refused]
    deliveries.hurry_line(run.target, [str(park.token) for park in hooks])
    return refused


def _begin(run: Run, one: Asked) -> dict[str, str] | None:
    """Begin a child run; returns the error when there can be none."""
    try:
        children.start(run, one.row, one.command.request)
    except HitlError as error:
        return {"type": type(error).__name__, "text": str(error)}
    return None


def _by_token(one: Asked) -> str:
    """The order in which tokens are taken, the same for all runs, so that no two wait crosswise."""
    return one.token or ""


def _open(run: Run, one: Asked) -> bool:
    """Open a park that takes a token; False when the token is held."""
    assert one.park is not None, "what has a token is a park"
    if Park.objects.pending().filter(token=one.token).exists():
        return False
    try:
        with transaction.atomic():
            openings.open_all("run", run.id, run.id, [one.park])
    except IntegrityError:  # taken at this very moment
        return False
    return True
