"""How a leased run of a workflow goes on: replay its body, write down what it asks, step by step.

Within a segment the live coroutine goes on; a new segment replays it over the journal. A step that
the body awaits alone runs here, under the run's lease; several at once run apart. When nothing is
left to do the run is let go, by a compare-and-set on the count of completions, so that none which
came meanwhile is missed.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from time import monotonic
from typing import Any

from django.core.exceptions import SynchronousOnlyOperation

from agents import conf, releases, runs, stopping
from agents.lease import Lease, Overtaken, StopLanded
from agents.models import JournalEntry, Run
from agents.outages import insist
from agents.states import EntryState, RunStatus
from agents.workflows import attempts, issuing, journal, rehearsing, steps
from agents.workflows.bodies import body_of, replay, session_of
from agents.workflows.errors import Diverged
from agents.workflows.gates import APPROVAL, HOOK
from agents.workflows.issuing import Asked
from agents.workflows.journal import Entry, Journal
from agents.workflows.replay import Blocked, Delivery, Raised, Session
from agents.workflows.steps import Attempt, Ended
from hitl import audit, clock, faults, parks, values
from hitl.errors import HitlError
from hitl.transactions import unit_of_work

logger = logging.getLogger(__name__)

NO_QUERIES = (
    "The body of a workflow asked the database. It is replayed, so it must not read or write "
    "anything itself; move that into a @step."
)
HOOK_CLOSED = "The workflow takes no more deliveries to this hook."


@dataclass(slots=True)
class Work:
    """One segment's view: the lease, the run's row as taken, its journal and the live body."""

    lease: Lease
    run: Run
    journal: Journal
    session: Session
    seen: int
    began: float = field(default_factory=monotonic)
    released: bool = False


def load(run: Run) -> Work:
    """Read what a segment needs of a run whose lease was just taken; the first finds no journal."""
    held = Journal() if run.lease_token == 1 else journal.load(run.id)
    return Work(
        lease=Lease(run.id, run.lease_token),
        run=run,
        journal=held,
        session=session_of(held),
        seen=run.deliveries,
    )


def go_on(work: Work, should_hand_back: Callable[[Any], bool]) -> None:
    """Go on until the run is released. A stop that lands turns into a cancel."""
    try:
        if work.run.attempts > conf.count("ATTEMPTS_MAX"):
            tries = work.run.attempts - 1
            releases.fail(work, f"Given up after {tries} segments without progress.")
            return
        if work.run.stop_requested:
            releases.cancel(work)
            return
        _go_on(work, should_hand_back)
    except StopLanded:
        work.released = False
        releases.cancel(work)
    finally:
        work.session.close()


def _go_on(work: Work, should_hand_back: Callable[[Any], bool]) -> None:
    body = body_of(work.run)
    if isinstance(body, HitlError):
        releases.fail(work, str(body))
        return
    outcome = replay(work.session, body, work.journal)
    while isinstance(outcome, Blocked):
        came = _write_down(work, outcome.inline)
        if came is None:
            return
        faults.point("segment:boundary")
        if should_hand_back(work):
            releases.release(work, RunStatus.QUEUED)
            return
        outcome = rehearsing.compare(work.run, work.session, work.session.advance(came))
    _tell_of_the_lost(work)
    if isinstance(outcome, Raised):
        releases.fail(work, said(outcome.error))
    else:
        _complete(work, outcome.value)


def _tell_of_the_lost(work: Work) -> None:
    """Log what went wrong in branches that nobody waits for any more: once, at the run's end."""
    for error in work.session.lost:
        kind = type(error).__name__
        logger.warning("run %s: a way that had lost raised %s", work.run.id, kind, exc_info=error)


def said(error: BaseException) -> str:
    """Return what a failed run says of the error that ended it."""
    if isinstance(error, SynchronousOnlyOperation):
        return NO_QUERIES
    if isinstance(error, Diverged):
        return str(error)
    return f"{type(error).__name__}: {error}"


# ── What the body asked for ──────────────────────────────────────────────────────────────────────


def _write_down(work: Work, inline: int | None) -> list[Delivery] | None:
    """Write down what is new and do one thing more: run a step, or let go.

    Returns what is complete since; None once the run is let go.
    """
    asked = issuing.draft(work.run, work.session.new, inline=inline)
    work.session.new = []
    if any(one.needs_word for one in asked):
        # Whether it can be waited for at all is known once it is written.
        return _issue(work, asked)
    step = _own_step(work, asked, inline)
    if step is not None:
        return _run_inline(work, asked, step)
    return _let_go(work, asked)


def _issue(work: Work, asked: list[Asked]) -> list[Delivery]:
    """Write these down under the lease and stay; returns what is complete since."""
    with unit_of_work(durable=True):
        run = runs.write(work.lease, [], heed_stop=True)
        over = issuing.store(run_of(work, run), asked)
        if over:
            run = runs.write(work.lease, [], heed_stop=False, add={"deliveries": len(over)})
        _tidy_hooks(work)
        _send(asked)
        faults.point("commands:writing")
    faults.point("commands:written")
    return _taken_in(work, asked, run)


def run_of(work: Work, row: Run) -> Run:
    """Return the run as the segment knows it, with the count of completions that the row holds."""
    work.run.deliveries = row.deliveries
    return work.run


def _let_go(work: Work, asked: list[Asked]) -> list[Delivery] | None:
    """Write these down and let go of the run, unless something came since: then returns that."""
    try:
        with unit_of_work(durable=True):
            runs.write_later(
                work.run,
                work.lease,
                [],
                heed_stop=True,
                status=_status(work, asked),
                expected={"deliveries": work.seen},
            )
            over = issuing.store(work.run, asked)
            assert not over, "nothing here needs word"
            _tidy_hooks(work)
            _send(asked)
            work.released = True
            faults.point("park:saving")
    except Overtaken:
        work.released = False
        return _issue(work, asked) if asked else _caught_up(work)
    faults.point("park:saved")
    return None


def _status(work: Work, asked: list[Asked]) -> RunStatus:
    """WAITING_FOR_INPUT while someone or something outside may answer; else WAITING."""
    open_now = [entry for entry in work.journal.open.values() if not _is_shut(work, entry.position)]
    is_asking = any(
        entry.kind in (APPROVAL, HOOK) or entry.state == EntryState.ASKED for entry in open_now
    ) or any(one.row.kind in (APPROVAL, HOOK) for one in asked)
    return RunStatus.WAITING_FOR_INPUT if is_asking else RunStatus.WAITING


def _is_shut(work: Work, position: int) -> bool:
    return position in work.session.closed


def _send(asked: list[Asked]) -> None:
    """Hint on commit at the steps that run apart."""
    for one in asked:
        if one.row.is_apart:
            attempts.hurry(one.row.id, one.row.queue)


def _tidy_hooks(work: Work) -> None:
    """Let go of the tokens of hooks that take no more, in a transaction that holds the run."""
    journal.take_once(work.run.id, work.session.once)
    shut = [entry.id for entry in work.journal.open.values() if _is_shut(work, entry.position)]
    if shut:
        parks.cancel_all(work.run.id, reason=HOOK_CLOSED, actor=audit.system("run"), id__in=shut)
        journal.close(work.run.id, shut)
        for position in work.session.closed:
            work.journal.open.pop(position, None)


def _taken_in(work: Work, asked: list[Asked], row: Run) -> list[Delivery]:
    """Take what was just written into the journal at hand; returns what is complete since."""
    work.journal.add(_entry(one.row) for one in asked)
    return _caught_up(work) if row.deliveries > work.seen else []


def _caught_up(work: Work) -> list[Delivery]:
    came = journal.catch_up(work.run.id, work.journal)
    work.seen = len(work.journal.completed)
    return came


def _entry(row: JournalEntry) -> Entry:
    return Entry(*(getattr(row, name) for name in journal.COLUMNS))


# ── A step of the segment's own ──────────────────────────────────────────────────────────────────


def _own_step(work: Work, asked: list[Asked], inline: int | None) -> Entry | None:
    """Return the step that the body awaits alone, if it is to run here and now."""
    if inline is None:
        return None
    new = next((_entry(one.row) for one in asked if one.command.position == inline), None)
    entry = new or work.journal.open.get(inline)
    if entry is None or entry.is_apart or entry.state == EntryState.ASKED:
        return None
    return None if entry.due_at is not None and entry.due_at > clock.now() else entry


def _run_inline(work: Work, asked: list[Asked], entry: Entry) -> list[Delivery]:
    """Claim a step with whatever else is new, run it, and keep what it returned at once."""
    own = next((one.row for one in asked if one.row.id == entry.id), None)
    if own is not None:  # new: it is written down as claimed
        own.state, own.claim, own.attempts = EntryState.CLAIMED, work.lease.token, 1
        entry = _entry(own)
    with unit_of_work(durable=True):
        runs.write_later(work.run, work.lease, [], heed_stop=True, is_progress=bool(asked))
        issuing.store(work.run, asked)
        _tidy_hooks(work)
        runs_now = own is not None or _claim(work, entry)
        _send(asked)
        faults.point("step:claiming")
    work.journal.add(_entry(one.row) for one in asked)
    if not runs_now:
        return _caught_up(work)
    faults.point("step:taken")
    ended = steps.run(_attempt(work, asked, entry))
    return insist(lambda: _keep(work, entry, ended))


def _claim(work: Work, entry: Entry) -> bool:
    """Claim a step for this segment; False when a worker died in it and it does not run again."""
    if entry.state == EntryState.CLAIMED and not attempts.settle_doubt(
        run_of(work, runs.seen(work.run.id)),
        entry.id,
        entry.position,
        entry.name,
        entry.attempts,
        entry.failures,
        entry.claim,
    ):
        return False
    claimed = journal.claim(entry.id, was=entry.claim, token=work.lease.token)
    assert claimed, "the lease makes this segment the only one to claim it"
    entry.claim, entry.attempts = work.lease.token, entry.attempts + 1
    return True


def _attempt(work: Work, asked: list[Asked], entry: Entry) -> Attempt:
    rows = (one.row.input for one in asked if one.row.id == entry.id)
    arguments: Any = next(rows, None)
    if arguments is None:
        arguments = JournalEntry.objects.values_list("input", flat=True).get(id=entry.id)
    return Attempt(
        entry_id=entry.id,
        run_id=work.run.id,
        workflow=work.run.target,
        name=entry.name,
        arguments=arguments,
        attempt=entry.attempts,
        failures=entry.failures,
    )


def _keep(work: Work, entry: Entry, ended: Ended) -> list[Delivery]:
    """Keep what came of a step, in a transaction of its own. A stop does not prevent it."""
    if ended.again_in is not None:
        _keep_failure(work, entry, ended.again_in)
        return _caught_up(work)
    order = work.seen + 1
    while True:
        try:
            _keep_result(work, entry, ended, order)
        except Overtaken:  # something was completed meanwhile, and has this number
            order = runs.seen(work.run.id).deliveries + 1
        else:
            return _come(work, entry, ended, order)


def _keep_failure(work: Work, entry: Entry, again_in: timedelta) -> None:
    with unit_of_work(durable=True):
        runs.write(work.lease, [], heed_stop=False)
        attempts.back_off(
            work.run, entry.id, entry.position, entry.failures + 1, again_in, is_apart=False
        )
        faults.point("step:keeping")
    faults.point("step:kept")


def _keep_result(work: Work, entry: Entry, ended: Ended, order: int) -> None:
    with unit_of_work(durable=True):
        runs.write_later(
            work.run,
            work.lease,
            [],
            heed_stop=False,
            expected={"deliveries": order - 1},
            add={"deliveries": 1},
        )
        journal.complete_later(entry.id, order, result=ended.result, error=ended.error)
        faults.point("step:keeping")
    faults.point("step:kept")


def _come(work: Work, entry: Entry, ended: Ended, order: int) -> list[Delivery]:
    """Return what a step that ended has brought, and whatever came before it."""
    if order > work.seen + 1:
        return _caught_up(work)
    entry.state, entry.delivered = EntryState.DONE, order
    entry.result, entry.error = ended.result, ended.error
    work.seen = order
    return work.journal.complete([entry])


# ── The end ──────────────────────────────────────────────────────────────────────────────────────


def _complete(work: Work, value: Any) -> None:
    """End the run with what its body returned, closing the waits that lost a race (W10)."""
    try:
        output = values.clean(value)
    except HitlError as error:
        releases.fail(work, f"What the body returned cannot be kept: {error}")
        return
    try:
        with unit_of_work(durable=True):
            if work.journal.open:
                _close_losers(work)
            runs.write_later(
                work.run,
                work.lease,
                [],
                heed_stop=True,
                status=RunStatus.COMPLETED,
                expected={} if work.journal.open else {"deliveries": work.seen},
                output=output,
            )
            work.released = True
            faults.point("run:ending")
    except Overtaken:  # a hook that nobody awaits any more has opened its next park
        work.released = False
        _caught_up(work)
        _complete(work, value)
        return
    faults.point("run:ended")


def _close_losers(work: Work) -> None:
    """Close what is open, in the transaction that ends the run, which it locks first."""
    runs.write(work.lease, [], heed_stop=True)
    parks.cancel_all(work.run.id, reason="The workflow has ended.", actor=audit.system("run"))
    if journal.close(work.run.id):
        stopping.hurry_children(work.run.id)
