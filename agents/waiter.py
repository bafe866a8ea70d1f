"""How a run waits on parks: the agents' side of `hitl/waiters.py`."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any
from uuid import UUID

from django.urls import NoReverseMatch, reverse

from agents import agent, backlog, closing, conf, events, runs
from agents.events import EventType
from agents.models import Run, RunKind, Thread, ToolCall
from agents.states import FINAL, PARKED, Phase
from agents.triggers import deliveries
from agents.workflows import attempts, children, settling
from hitl import faults, hints
from hitl.models import Park
from hitl.parks import as_uuid
from hitl.states import ParkStatus

SETTLED_EVENTS = {
    ParkStatus.APPROVED: EventType.INPUT_ANSWERED,
    ParkStatus.REJECTED: EventType.INPUT_ANSWERED,
    ParkStatus.TIMED_OUT: EventType.INPUT_EXPIRED,
    ParkStatus.CANCELLED: EventType.INPUT_CANCELLED,
}
SWEEP_HINTS_MAX = 500
NEXT_HINTED = 50
QUEUED_COUNTED_MAX = 10_000


class RunWaiter:
    """Wakes the run when the last of its parks is settled."""

    kind = "run"
    permission = "agents.view_thread"

    def lock(self, waiter_id: UUID) -> Run | None:
        """Lock the run; None when it has ended or is gone, so its parks must not settle it."""
        run = runs.lock(waiter_id)
        return None if run is None or run.status in FINAL else run

    def lock_free(self, waiter_ids: Collection[UUID]) -> dict[UUID, Run]:
        return {run.id: run for run in runs.lock_free(waiter_ids)}

    def settled(self, waiter: Any, parks: Iterable[Park]) -> None:
        """Log each answer, and queue the run if nothing it waits for is open any more.

        A workflow's is a completion in its journal, and each wakes it.
        """
        if waiter.kind == RunKind.WORKFLOW:
            settling.settled(waiter, parks)
            return
        several = list(parks)
        entries = [_event(park) for park in several if not park.is_timer]
        runs.wake(waiter, entries, is_free=not several[-1].others_open)

    def settled_each(self, pairs: Sequence[tuple[Any, Park]]) -> None:
        """Wake the runs of agents together, those of workflows one by one."""
        by_run: dict[UUID, tuple[Run, list[Park]]] = {}
        for run, park in pairs:
            by_run.setdefault(run.id, (run, []))[1].append(park)
        told = []
        for run, parks in by_run.values():
            if run.kind == RunKind.WORKFLOW:
                settling.settled(run, parks)
            else:
                told.append((run, [_event(park) for park in parks if not park.is_timer]))
        runs.wake_each(told)

    def expects(self, waiter: Any, key: str, *, had_gate: bool) -> bool:
        """A call whose tool is running, or has parked itself, may be answered before its park.

        Of a tool that a person has allowed, and that may be answered so a second time, it has to
        be clear that it parks itself.
        """
        call_id = as_uuid(key)
        begun = ToolCall.objects.filter(run_id=waiter.id, phase__in=[Phase.CLAIMED, Phase.ASKED])
        if call_id is None:
            return False
        call = begun.select_related("step__frame").filter(id=call_id).first()
        if call is None or call.phase == Phase.ASKED or not had_gate:
            return call is not None
        try:
            asker = agent.get(call.step.frame.agent if call.step.frame else waiter.target)
        except agent.AgentNotFound:
            return False
        tool = asker.tool(call.tool_name)
        return tool is not None and tool.parks_itself

    def sweep(self) -> dict[str, int]:
        """Hint at queued runs whose message may be lost and at runs whose worker has died."""
        owed = _worth_a_hint()
        for run_id in owed:
            runs.hurry(run_id)
        steps = attempts.owing(owed_for=conf.duration("HINT_GRACE"), limit=SWEEP_HINTS_MAX)
        for entry_id, queue in steps:
            attempts.hurry(entry_id, queue)
        begun = children.owing(limit=SWEEP_HINTS_MAX)
        children.hurry(begun)
        events_owed = deliveries.owing(
            for_at_least=conf.duration("HINT_GRACE"), limit=SWEEP_HINTS_MAX
        )
        for delivery_id in events_owed:
            deliveries.hurry(delivery_id)
        faults.point("sweep:hinted")
        forgotten = deliveries.forget_old()
        return {
            "runs_hinted": len(owed),
            "steps_hinted": len(steps),
            "children_hinted": len(begun),
            "events_hinted": len(events_owed),
            "events_forgotten": forgotten,
        }

    def backlog(self, most: int) -> int:
        """Return how many runs are queued, counted up to `most`."""
        return backlog.queued(most)

    def reclaim(self, waiter_id: UUID) -> bool:
        """Hint again at a run that owes a segment; wake one that waits for nothing."""
        run = runs.lock(waiter_id)
        if run is None or run.status in FINAL:
            return False
        if runs.is_owed(run):
            runs.hurry(run.id)
            return True
        if run.status not in PARKED or Park.objects.pending().filter(waiter_id=run.id).exists():
            return False  # a worker has it, or it waits for something: nothing is written
        if run.kind == RunKind.WORKFLOW and settling.has_open_work(run.id):
            return attempts.hurry_of(run.id)  # it waits for steps, or for runs of its own
        return runs.wake(run, [], is_free=True)

    def resolve(self, scope: UUID) -> UUID | None:
        """Return the current run of a thread, or the run itself."""
        current = Thread.objects.filter(id=scope).values_list("current_run_id", flat=True).first()
        if current is not None:
            return current
        return Run.objects.filter(id=scope).values_list("id", flat=True).first()

    def url(self, park: Park) -> str | None:
        """Return the admin page of the thread, or the workflow's run, that asked."""
        page = "run" if park.scope == park.waiter_id else "thread"
        try:
            return reverse(f"admin:agents_{page}_change", args=[park.scope])
        except NoReverseMatch:  # a project without this admin
            return None


def _worth_a_hint() -> list[UUID]:
    """Return the runs to hint at: whose worker has died, and whose message may be lost.

    Under a backlog the messages of most are where they belong, and each one more would be work for
    workers that are behind already. While the broker has a message for each queued run, only those
    that ought to be next are hinted at: one whose message is lost gets there.
    """
    lapsed = backlog.lapsed(limit=SWEEP_HINTS_MAX)
    late = backlog.queued_for(conf.duration("HINT_GRACE"), limit=SWEEP_HINTS_MAX)
    if len(late) > NEXT_HINTED:
        found = hints.waiting(runs.SEGMENT)
        if found is not None and found >= backlog.queued(QUEUED_COUNTED_MAX):
            late = late[:NEXT_HINTED]
    return lapsed + late


def _event(park: Park) -> events.Entry:
    return SETTLED_EVENTS[ParkStatus(park.status)], closing.describe(park)
