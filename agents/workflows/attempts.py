"""Steps in their rows: claimed before they run, kept the moment they return, tried again later.

A step runs in the run's own segment, under its lease, or apart, as a task with a claim of its own.
Either way the claim is what tells after a crash that it may have run, and `on_doubt` what then
happens. Waiting for the next try is a park with only a deadline, which holds no worker.
"""

import logging
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import Q

from agents import conf, keeper, runs
from agents.models import JournalEntry, Run
from agents.outages import insist
from agents.states import FINAL, EntryState, OnDoubt
from agents.workflows import authoring, journal, steps
from agents.workflows.steps import Attempt, Ended
from hitl import clock, faults, hints, openings
from hitl import conf as hitl_conf
from hitl.openings import Opening
from hitl.states import Reason

logger = logging.getLogger(__name__)

STEP = "agents.step"
DOUBT_TITLE = "Did this happen? {step}"
DOUBT_DESCRIPTION = (
    "A worker died while this step was running, so nobody knows whether it happened. "
    "Answer with a result if it did; approve to run it again; deny to give it up."
)
UNKNOWN = "A worker died while the step ran; whether it happened is not known."


def perform(entry_id: UUID, *, keep_alive: bool = True) -> bool:
    """Claim, run and keep a step that runs apart; False when it is not owed, or others have it."""
    with transaction.atomic(durable=True):
        row = _owed(entry_id)
        claimed = row is not None and _claim(row)
    if row is None or not claimed:
        return row is not None and row.state != EntryState.OPEN
    faults.point("step:taken")
    claim = journal.Claim(row.id, row.claim)
    if keep_alive:
        keeper.keep(claim, journal.renew)
    try:
        ended = steps.run(attempt_of(row, row.run))
        insist(lambda: _keep(row, ended))
    finally:
        keeper.release(claim)
    return True


def _owed(entry_id: UUID) -> JournalEntry | None:
    """Return a step that is owed now."""
    owed = JournalEntry.objects.filter(id=entry_id, owed_at__lte=clock.now(), is_apart=True)
    row = owed.select_related("run").first()
    return None if row is None or row.run.status in FINAL else row


def _claim(row: JournalEntry) -> bool:
    """Claim a step that is owed, in the caller's transaction; False when it is not to run now."""
    if row.state == EntryState.CLAIMED and not _settle_doubt(row):
        return False
    token, lapses = row.claim + 1, clock.now() + conf.duration("LEASE")
    if not journal.claim(row.id, was=row.claim, token=token, owed_at=lapses):
        return False
    row.claim, row.attempts = token, row.attempts + 1
    faults.point("step:claiming")
    return True


def _settle_doubt(row: JournalEntry) -> bool:
    """Decide what becomes of a step whose worker died in it; True when it is run again."""
    run = runs.lock(row.run_id)
    fresh = JournalEntry.objects.filter(id=row.id, claim=row.claim, state=EntryState.CLAIMED)
    if run is None or run.status in FINAL or not fresh.exists():
        return False
    return settle_doubt(run, row.id, row.position, row.name, row.attempts, row.failures, row.claim)


def settle_doubt(
    run: Run, entry_id: UUID, position: int, name: str, attempts: int, failures: int, claim: int
) -> bool:
    """Decide on a step in doubt, with the run's row held: again (True), a question, or its end."""
    step = authoring.get_step(name)
    policy = step.policy.on_doubt if step is not None else OnDoubt.FAIL
    gives_up = attempts - failures > conf.count("ATTEMPTS_MAX")
    if policy == OnDoubt.RETRY and not gives_up:
        return True
    if policy == OnDoubt.ASK:
        journal.put_back(entry_id, state=EntryState.ASKED, owed_at=None)
        openings.open_all("run", run.id, run.id, [_doubt(run, entry_id, position, name, claim)])
        runs.deliver(run, 0)  # what it waits for has changed, and its status says what that is
        faults.point("doubt:asking")
        return False
    error = {"type": "InDoubt", "text": UNKNOWN}
    if journal.complete(entry_id, run.deliveries + 1, error=error):
        runs.deliver(run, 1)
    return False


def _doubt(run: Run, entry_id: UUID, position: int, name: str, claim: int) -> Opening:
    short = name.rpartition(".")[2]
    return Opening(
        key=f"{short}:{position}.{claim}",
        reason=Reason.IN_DOUBT,
        ttl=hitl_conf.approval_ttl(),
        title=DOUBT_TITLE.format(step=short),
        description=DOUBT_DESCRIPTION,
        topic=short,
        asker=run.target,
        asker_path=(run.target,),
        metadata={"entry": str(entry_id)},
    )


def attempt_of(row: JournalEntry, run: Run) -> Attempt:
    """Return what a claimed row says of the attempt that it stands for."""
    return Attempt(
        entry_id=row.id,
        run_id=run.id,
        workflow=run.target,
        name=row.name,
        arguments=row.input,
        attempt=row.attempts,
        failures=row.failures,
    )


def _keep(row: JournalEntry, ended: Ended) -> None:
    """Keep what came of a step that ran apart; nothing, when it was taken over or closed."""
    with transaction.atomic(durable=True):
        run = runs.lock(row.run_id)
        mine = JournalEntry.objects.filter(id=row.id, claim=row.claim, state=EntryState.CLAIMED)
        if run is None or run.status in FINAL or not mine.exists():
            logger.info("run %s: step %s came back and was not awaited", row.run_id, row.name)
            return
        if ended.again_in is not None:
            back_off(run, row.id, row.position, row.failures + 1, ended.again_in, is_apart=True)
        elif journal.complete(row.id, run.deliveries + 1, result=ended.result, error=ended.error):
            runs.deliver(run, 1)
        faults.point("step:keeping")
    faults.point("step:kept")


def back_off(
    run: Run, entry_id: UUID, position: int, failures: int, delay: timedelta, *, is_apart: bool
) -> datetime:
    """Put a step back until it is tried again, with the run's row held; returns when that is."""
    due_at = clock.now() + delay
    journal.put_back(
        entry_id,
        state=EntryState.OPEN,
        failures=failures,
        due_at=due_at,
        owed_at=due_at if is_apart else None,
    )
    opening = Opening(
        key=f"retry:{position}:{failures}",
        reason=Reason.RETRY,
        ttl=delay,
        metadata={"entry": str(entry_id)},
    )
    openings.open_all("run", run.id, run.id, [opening])
    faults.point("step:put_back")
    return due_at


def hurry(entry_id: UUID, queue: str = "") -> None:
    """Hint on commit that this entry owes something."""
    hints.send(STEP, str(entry_id), queue=queue or None)


def hurry_of(run_id: UUID) -> bool:
    """Hint at the steps that one run owes; False when it owes none."""
    owed = JournalEntry.objects.filter(run_id=run_id, owed_at__lte=clock.now())
    found = list(owed.values_list("id", "queue"))
    for entry_id, queue in found:
        hurry(entry_id, queue)
    return bool(found)


def owing(*, owed_for: timedelta = timedelta(), limit: int = 500) -> list[tuple[UUID, str]]:
    """Return entries that owe something, with their queues: longest first, over one index.

    Those are steps whose worker fell silent, and what has been owed for this long or longer.
    """
    now = clock.now()
    lapsed = Q(state=EntryState.CLAIMED, owed_at__lte=now)
    owed = JournalEntry.objects.filter(Q(owed_at__lte=now - owed_for) | lapsed)
    return list(owed.order_by("owed_at").values_list("id", "queue")[:limit])
