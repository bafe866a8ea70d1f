"""One stretch of a run in one worker: lease, snapshot, decide, effect, until it parks or ends.

A segment may be started late, twice or never: whoever takes the lease runs it, the others return
at once. It holds no transaction while a model or a tool runs. At each boundary it may hand the run
back (a deploy, or a segment that has become long); the next segment goes on from the rows.
"""

import logging
import mmap
from time import monotonic
from typing import Any
from uuid import UUID

from agents import conf, effects, keeper, releases, runs, snapshot, tool_calls
from agents.engine import Action, Cancel, Fail, RunTool, RunTools, next_action
from agents.lease import LeaseLost, StopLanded
from agents.models import Run, RunKind
from agents.outages import AWAY
from agents.snapshot import Work
from agents.states import RunStatus
from agents.workflows import segments as of_workflows
from hitl import faults
from hitl.transactions import unit_of_work

logger = logging.getLogger(__name__)

shutting_down = mmap.mmap(-1, 1)
"""One byte that a worker's parent shares with the children it forks: 1 once it shuts down."""


def announce_shutdown(**_: object) -> None:
    """Tell every segment of this worker to hand back at its next boundary (O4)."""
    shutting_down[0] = 1


def announce_soft_shutdown(*, sender: Any, **_: object) -> None:
    """Make a worker that comes up announce the soft phase of a shutdown when it begins.

    Celery sends `worker_shutting_down` only when that phase is over and the tasks are ended, so a
    run of many steps would use all of it and then be cut off in the middle of one.
    """
    wait = sender.wait_for_soft_shutdown

    def announce_and_wait() -> None:
        announce_shutdown()
        wait()

    sender.wait_for_soft_shutdown = announce_and_wait


def clear_shutdown(**_: object) -> None:
    """Forget an earlier shutdown; for a process that runs workers one after the other."""
    shutting_down[0] = 0


def run_segment(run_id: UUID, *, keep_alive: bool = True) -> bool:
    """Take a run's lease and go on with it as far as it goes; False when it owes no segment.

    `keep_alive` renews the lease from a thread; without it a segment longer than the lease may be
    taken over, which only tests within one transaction want.
    """
    begun = _begin(run_id)
    if begun is None:
        return False
    work, action = begun
    if keep_alive:
        keeper.keep(work.lease)
    try:
        if isinstance(work, of_workflows.Work):
            of_workflows.go_on(work, _should_hand_back)
        else:
            _go_on(work, action)
    except LeaseLost:
        logger.info("run %s: another worker has taken over", run_id)
    finally:
        keeper.release(work.lease)
    return True


def _begin(run_id: UUID) -> tuple[Work, Action] | tuple[of_workflows.Work, None] | None:
    """Take the lease, read the rows, decide and claim, in one transaction.

    What goes wrong here leaves nothing, not even the attempt; it is noted in another transaction.
    """
    faults.point("segment:begin")
    try:
        with unit_of_work(durable=True):
            run = runs.take(run_id)
            if run is None:
                return None
            begun = _read(run)
    except AWAY:  # says nothing about the run
        raise
    except Exception as error:
        logger.exception("run %s: the segment could not begin", run_id)
        releases.postpone(run_id, error)
        return None
    faults.point("segment:taken")
    return begun


def _read(run: Run) -> tuple[Work, Action] | tuple[of_workflows.Work, None]:
    """Read what a run just taken needs to go on; an agent's also decides and claims at once."""
    if run.kind == RunKind.WORKFLOW:
        return of_workflows.load(run), None
    work = snapshot.load(run)
    return work, tool_calls.claim(work, _decide(work), fenced=True)


def _decide(work: Work) -> Action:
    """Return the next action."""
    if work.run.attempts > conf.count("ATTEMPTS_MAX"):
        return Fail(f"Given up after {work.run.attempts - 1} segments without progress.")
    return next_action(work.snapshot)


def _go_on(work: Work, action: Action | None) -> None:
    """Perform actions until the run is released. A stop that lands turns into a cancel."""
    assert action is not None, "an agent's run begins with an action"
    while True:
        try:
            effects.perform(work, action)
            if work.released:
                return
            faults.point("segment:boundary")
            if _should_hand_back(work):
                releases.release(work, RunStatus.QUEUED)
                return
            action = _next(work)
        except StopLanded:
            work.released = False
            action = Cancel()


def _next(work: Work) -> Action:
    """Decide on the next action; the claim of a tool is a transaction of its own."""
    action = _decide(work)
    if not isinstance(action, RunTool | RunTools):
        return action
    with unit_of_work(durable=True):
        return tool_calls.claim(work, action, fenced=False)


def _should_hand_back(work: Any) -> bool:
    too_long = monotonic() - work.began > conf.duration("SEGMENT_MAX").total_seconds()
    return too_long or bool(shutting_down[0])
