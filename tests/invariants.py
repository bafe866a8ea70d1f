"""What holds of the rows at every moment, in any database. Reads rows, writes none.

`violations` lists what is broken, each with the rows that break it; `check` fails the test over it.
Between two transactions of anybody all of it holds: also right after a crash, before any recovery.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar
from uuid import UUID

from django.db.models import Model

from agents import agent, backlog, frames, history
from agents.history import Turn
from agents.llm.errors import UnpairedCalls
from agents.llm.messages import check_pairs
from agents.models import Event, Frame, Run, Step, Thread, ToolCall
from agents.states import ACTIVE, FINAL, Outcome, Phase, RunStatus
from agents.tree import SavedStep
from hitl import audit
from hitl.callbacks.waiter import KIND as CALLBACK
from hitl.models import CallbackDelivery, Decision, EarlyAnswer, Park, Verb
from hitl.states import CallbackStatus, OnTimeout, ParkStatus, Reason
from tests import journals

DECIDING = {
    Verb.APPROVED: ParkStatus.APPROVED,
    Verb.ANSWERED: ParkStatus.APPROVED,
    Verb.REJECTED: ParkStatus.REJECTED,
    Verb.EXPIRED: ParkStatus.TIMED_OUT,
    Verb.CANCELLED: ParkStatus.CANCELLED,
}
TOLD_BY = {
    ParkStatus.APPROVED: "INPUT_ANSWERED",
    ParkStatus.REJECTED: "INPUT_ANSWERED",
    ParkStatus.TIMED_OUT: "INPUT_EXPIRED",
    ParkStatus.CANCELLED: "INPUT_CANCELLED",
}
TELLING = frozenset(TOLD_BY.values())


M = TypeVar("M", bound=Model)


def _all(model: type[M], order: str) -> list[M]:
    """Return all rows of a table; the statement is plain, since it is asked thousands of times."""
    statement = f"SELECT * FROM {model._meta.db_table} ORDER BY {order}"  # noqa: S608 (ours)
    return list(model._default_manager.raw(statement))


@dataclass
class Rows:
    """All rows of all threads, read once."""

    @cached_property
    def threads(self) -> list[Thread]:
        return _all(Thread, "id")

    @cached_property
    def runs(self) -> dict[UUID, Run]:
        """The runs of agents; those of workflows are in `tests/journals.py`."""
        every = _all(Run, "thread_id, number")
        return {run.id: run for run in every if run.thread_id is not None}

    @cached_property
    def turns(self) -> dict[UUID, list[Run]]:
        found: dict[UUID, list[Run]] = defaultdict(list)
        for run in self.runs.values():
            found[run.thread_id].append(run)
        return found

    @cached_property
    def parks(self) -> list[Park]:
        return _all(Park, "id")

    @cached_property
    def open(self) -> dict[UUID, list[Park]]:
        found: dict[UUID, list[Park]] = defaultdict(list)
        for park in self.parks:
            if park.is_pending:
                found[park.waiter_id].append(park)
        return found

    @cached_property
    def verbs(self) -> dict[UUID, list[Decision]]:
        found: dict[UUID, list[Decision]] = defaultdict(list)
        for row in _all(Decision, "id"):
            found[row.park_id].append(row)
        return found

    @cached_property
    def step(self) -> dict[UUID, Step]:
        return {step.id: step for step in _all(Step, "number")}

    @cached_property
    def steps(self) -> dict[UUID, list[Step]]:
        found: dict[UUID, list[Step]] = defaultdict(list)
        for step in self.step.values():
            found[step.run_id].append(step)
        return found

    @cached_property
    def calls(self) -> dict[UUID, list[ToolCall]]:
        found: dict[UUID, list[ToolCall]] = defaultdict(list)
        for call in _all(ToolCall, '"index"'):
            call.step = self.step[call.step_id]
            found[call.run_id].append(call)
        for calls in found.values():
            calls.sort(key=lambda call: (call.step.number, call.index))
        return found

    @cached_property
    def frames(self) -> dict[UUID, Frame]:
        calls = {call.id: call for calls in self.calls.values() for call in calls}
        found = _all(Frame, "id")
        for frame in found:
            frame.call = calls[frame.call_id]
        return {frame.id: frame for frame in found}

    @cached_property
    def calls_of_step(self) -> dict[UUID, list[ToolCall]]:
        found: dict[UUID, list[ToolCall]] = defaultdict(list)
        for call in (call for calls in self.calls.values() for call in calls):
            found[call.step_id].append(call)
        return found

    @cached_property
    def said(self) -> dict[tuple[UUID, UUID | None], list[Step]]:
        """The steps of each frame of each run, oldest first; the root's frame is None."""
        found: dict[tuple[UUID, UUID | None], list[Step]] = defaultdict(list)
        for step in (step for steps in self.steps.values() for step in steps):
            found[step.run_id, step.frame_id].append(step)
        return found

    @cached_property
    def events(self) -> dict[UUID, list[Event]]:
        found: dict[UUID, list[Event]] = defaultdict(list)
        for event in _all(Event, "seq"):
            found[event.thread_id].append(event)
        return found


Check = Callable[[Rows], Iterator[str]]


def events_are_numbered_without_a_gap(rows: Rows) -> Iterator[str]:
    """H5: from 1, and the current run knows the last number given out."""
    for thread in rows.threads:
        numbers = [event.seq for event in rows.events[thread.id]]
        if numbers != list(range(1, len(numbers) + 1)):
            yield f"thread {thread.id}: event numbers {numbers}"
        current = rows.runs[thread.current_run_id] if thread.current_run_id else None
        if current is not None and current.event_seq != len(numbers):
            yield f"run {current.id}: gave out {current.event_seq} numbers of {len(numbers)}"


def a_run_waits_if_and_only_if_a_park_is_open(rows: Rows) -> Iterator[str]:
    """WAITING_FOR_INPUT: someone can answer at least one; WAITING: only timers are open."""
    for run in rows.runs.values():
        is_open = rows.open[run.id]
        for_people = [park for park in is_open if not park.is_timer]
        expected = {
            RunStatus.WAITING_FOR_INPUT: bool(for_people),
            RunStatus.WAITING: bool(is_open) and not for_people,
        }.get(RunStatus(run.status), not is_open)
        if not expected:
            reasons = [park.reason for park in is_open]
            yield f"run {run.id} is {run.status} with open parks {reasons}"


def no_park_outlives_its_run(rows: Rows) -> Iterator[str]:
    """N5: only the current run's are open, and none of one that has ended, is gone or cut away."""
    current = {thread.current_run_id for thread in rows.threads}
    for run_id, is_open in rows.open.items():
        if all(park.waiter_kind == CALLBACK or park.scope == run_id for park in is_open):
            continue  # nobody's, or a workflow's
        run = rows.runs.get(run_id)
        goes_on = run is not None and run.status not in FINAL and run.dropped_at is None
        if is_open and not (goes_on and run_id in current):
            yield f"run {run_id} is over, and open are {[park.id for park in is_open]}"


def a_call_ends_once(rows: Rows) -> Iterator[str]:
    """S5: one result and one event of it per ended call.

    None of an ended run is without one, nor of a step that its agent has gone on from.
    """
    results = Counter(
        event.data["tool_call_id"]
        for events in rows.events.values()
        for event in events
        if event.type == "TOOL_RESULT"
    )
    for run in rows.runs.values():
        for call in rows.calls[run.id]:
            has_result = (bool(call.outcome), call.done_at is not None, results[str(call.id)])
            is_done = call.phase == Phase.DONE
            unseen = call.step.held is not None and has_result == (is_done, is_done, 0)
            if not unseen and has_result != (is_done, is_done, int(is_done)):
                yield f"call {call.id} is {call.phase}: outcome, time and events are {has_result}"
            newest = rows.said[run.id, call.step.frame_id][-1:]
            if not is_done and (run.status in FINAL or call.step_id not in {s.id for s in newest}):
                yield f"call {call.id} of step {call.step.number} is {call.phase}, run {run.status}"


def steps_are_saved_whole(rows: Rows) -> Iterator[str]:
    """P5: the run counts its steps, and each is there with its calls in order."""
    for run in rows.runs.values():
        steps = rows.steps[run.id]
        if [step.number for step in steps] != list(range(1, run.steps + 1)):
            yield f"run {run.id} counts {run.steps} steps: {[step.number for step in steps]}"
        for step in steps:
            indexes = [call.index for call in rows.calls_of_step[step.id]]
            if indexes != list(range(len(indexes))):
                yield f"step {step.id}: calls {indexes}"
            is_last = not indexes and step.frame_id is None and step.held is None
            if is_last and run.status != RunStatus.COMPLETED:
                yield f"step {step.id} has no calls, and its run is {run.status}"


def a_park_is_seen_with_its_step(rows: Rows) -> Iterator[str]:
    """P2: what is asked about is saved, a call of the same run or what a guardrail held of it.

    The log told of it once.
    """
    for run in rows.runs.values():
        called = {str(call.id): call for call in rows.calls[run.id]}
        told = Counter(
            (event.type, event.data.get("request_id"))
            for event in rows.events[run.thread_id]
            if event.type == "INPUT_REQUIRED" or event.type in TELLING
        )
        for park in rows.parks:
            if park.waiter_id != run.id or park.is_timer:
                continue
            if park.reason == Reason.GUARDRAIL:
                if park.key not in {str(run.id), *(str(step.id) for step in rows.steps[run.id])}:
                    yield f"park {park.id} asks about {park.key}, which is nothing of its run"
            elif park.subject not in called or called[park.subject].step.number > run.steps:
                yield f"park {park.id} asks about {park.key}, which no step has"
            wanted = {("INPUT_REQUIRED", str(park.id)): 1}
            if not park.is_pending:
                wanted[TOLD_BY[ParkStatus(park.status)], str(park.id)] = 1
            found = {key: count for key, count in told.items() if key[1] == str(park.id)}
            if found != wanted:
                yield f"park {park.id} is {park.status}, and the log tells {found}"


def a_trail_tells_each_ending_once(rows: Rows) -> Iterator[str]:
    """I2, E2, W5: opened once, decided once as the status says; only the system expires.

    It also approves what was to fall open at its deadline, and then nothing else.
    """
    for park in rows.parks:
        trail = rows.verbs[park.id]
        verbs = Counter(row.verb for row in trail)
        ended = [DECIDING[verb] for row in trail if (verb := Verb(row.verb)) in DECIDING]
        expected: list[str] = [] if park.is_pending else [park.status]
        if park.is_timer:
            if trail:
                yield f"timer {park.id} has a trail: {dict(verbs)}"
        elif verbs[Verb.OPENED] != 1 or ended != expected:
            yield f"park {park.id} is {park.status}, and its trail says {dict(verbs)}"
        elif any(
            row.system != (row.verb == Verb.EXPIRED or _fell_open(park))
            for row in trail
            if row.verb in _PERSONAL
        ):
            yield f"park {park.id}: a person and the system are mixed up in {dict(verbs)}"


def _fell_open(park: Park) -> bool:
    if park.on_timeout != OnTimeout.APPROVE or park.settled_at is None or park.expires_at is None:
        return False
    return park.settled_at >= park.expires_at


_PERSONAL = {Verb.APPROVED, Verb.ANSWERED, Verb.REJECTED, Verb.EXPIRED}


def a_callback_is_owed_once_its_request_is_settled(rows: Rows) -> Iterator[str]:
    """C1: it waits while the request is open, and then it is owed, told or not wanted."""
    callbacks = {one.park_id: one for one in CallbackDelivery.objects.order_by("id")}
    for park in rows.parks:
        callback = callbacks.pop(park.id, None)
        if (callback is not None) != (park.waiter_kind == CALLBACK):
            yield f"park {park.id} of a {park.waiter_kind}: its callback is {callback}"
            continue
        if callback is None:
            continue
        if callback.id != park.waiter_id or park.scope != park.id:
            yield f"park {park.id} and callback {callback.id} do not know each other"
        if (callback.status == CallbackStatus.WAITING) != park.is_pending:
            yield f"park {park.id} is {park.status}, its callback {callback.status}"
        if (callback.status == CallbackStatus.NONE) != (not callback.url and not park.is_pending):
            yield f"callback {callback.id} to {callback.url!r} is {callback.status}"
        sent = sum(row.verb == Verb.CALLBACK_SENT for row in rows.verbs[park.id])
        if sent < (callback.status == CallbackStatus.DELIVERED):
            yield f"callback {callback.id} is delivered, and the trail does not say so"
    for callback in callbacks.values():
        yield f"callback {callback.id} has no park"


def a_thread_has_one_active_run(rows: Rows) -> Iterator[str]:
    """H1: at most one, and it is the current one, which is the newest."""
    for thread in rows.threads:
        turns = rows.turns[thread.id]
        if [run.number for run in turns] != list(range(1, len(turns) + 1)):
            yield f"thread {thread.id}: runs {[run.number for run in turns]}"
        elif turns and thread.current_run_id != turns[-1].id:
            yield f"thread {thread.id}: its current run is not the newest"
        active = [run.number for run in turns if run.status in ACTIVE]
        if active not in ([], [len(turns)]):
            yield f"thread {thread.id}: active runs {active} of {len(turns)}"


def a_lease_is_held_if_and_only_if_running(rows: Rows) -> Iterator[str]:
    """P6: and an ended run says when it ended."""
    for run in rows.runs.values():
        if (run.lease_until is not None) != (run.status == RunStatus.RUNNING):
            yield f"run {run.id} is {run.status}, its lease runs until {run.lease_until}"
        if (run.finished_at is not None) != (run.status in FINAL):
            yield f"run {run.id} is {run.status}, it ended at {run.finished_at}"


def nothing_is_stuck(rows: Rows) -> Iterator[str]:
    """Rule 6: what goes on is owed a segment, held by a worker, or waits for something open."""
    owing = set(backlog.owing(limit=len(rows.runs) + 1))
    for run in rows.runs.values():
        goes_on = (
            run.status in FINAL
            or run.id in owing
            or (run.status == RunStatus.RUNNING and run.lease_until is not None)
            or any(park.expires_at or not park.is_timer for park in rows.open[run.id])
        )
        if not goes_on:
            yield f"run {run.id} is {run.status}, and nothing will ever move it"


def a_frame_stands_where_it_was_opened(rows: Rows) -> Iterator[str]:
    """N1, N2: below the delegation that opened it, one level deeper, at the end of its path."""
    for frame in rows.frames.values():
        above = rows.frames.get(frame.call.step.frame_id) if frame.call.step.frame_id else None
        path = above.path if above is not None else [rows.runs[frame.run_id].target]
        expected = (
            frame.run_id,
            f"{agent.DELEGATION}{frame.agent}",
            len(path),
            [*path, frame.agent],
        )
        if (frame.call.run_id, frame.call.tool_id, frame.depth, frame.path) != expected:
            yield f"frame {frame.id} of {frame.agent} at {frame.path}, depth {frame.depth}"
    opened = {frame.call_id for frame in rows.frames.values()}
    for call in (call for calls in rows.calls.values() for call in calls):
        is_delegation = call.tool_id.startswith(agent.DELEGATION)
        if is_delegation and call.phase != Phase.DONE and call.id not in opened:
            yield f"call {call.id} delegates, and no frame is there"


def a_frame_ends_with_its_call(rows: Rows) -> Iterator[str]:
    """N2, N3: the last word of a subagent is its delegation's result, kept in one commit with it.

    A delegation that ended otherwise says that it failed, and nothing below it goes on.
    """
    for frame in rows.frames.values():
        steps = rows.said[frame.run_id, frame.id]
        last = steps[-1] if steps else None
        calls = rows.calls_of_step[last.id] if last is not None else []
        ended = last is not None and not calls and last.held is None
        last_word = frames.answer(last.text) if last is not None and ended else None
        call = frame.call
        if last_word is not None and (call.phase, call.outcome, call.result) != (
            Phase.DONE,
            Outcome.OK,
            last_word,
        ):
            yield f"frame {frame.id} said {last_word!r}, its call is {call.phase} {call.outcome}"
        if last_word is None and call.outcome == Outcome.OK:
            yield f"frame {frame.id} has not ended, and its call has"
        if call.phase == Phase.DONE and any(below.phase != Phase.DONE for below in calls):
            yield f"frame {frame.id} has ended, and calls of it have not"


def what_is_held_is_shown_nowhere(rows: Rows) -> Iterator[str]:
    """G3: beside its card; none of its calls has begun, and one person's yes at most lets it go."""
    asked = {(park.waiter_id, park.key): park for park in rows.parks}
    told = {
        (thread_id, event.data["step"])
        for thread_id, events in rows.events.items()
        for event in events
        if event.type == "TEXT"
    }
    for run in rows.runs.values():
        held = [step for step in rows.steps[run.id] if step.held is not None]
        is_alone = len(rows.turns[run.thread_id]) == 1  # a step's number is its place in its run
        if len(held) > run.holds:
            yield f"run {run.id} counts {run.holds} of {len(held)} replies that are held"
        for step in held:
            park = asked.get((run.id, str(step.id)))
            calls = rows.calls_of_step[step.id]
            if park is None or step.text or step.raw is not None:
                yield f"step {step.id} is held, and nobody is asked about it or its text is there"
            elif park.status == ParkStatus.APPROVED and run.status == RunStatus.COMPLETED:
                yield f"step {step.id} was approved, and it is held"
            if any(call.claimed_by for call in calls):
                yield f"step {step.id} is held, and a call of it has begun"
            if is_alone and (run.thread_id, step.number) in told:
                yield f"step {step.id} is held, and the log has told of it"


def an_early_answer_is_gone_once_its_park_is_there(rows: Rows) -> Iterator[str]:
    """J3: it is kept until the call has parked itself, and then it has settled that park."""
    jobs = {(park.waiter_id, park.key) for park in rows.parks if park.is_job}
    for early in _all(EarlyAnswer, "id"):
        if (early.waiter_id, early.key) in jobs:
            yield f"an answer to call {early.key} is kept beside its park"


def a_row_of_the_trail_is_as_it_was_written(rows: Rows) -> Iterator[str]:
    """I12: each fits its own hash, sealed or not."""
    for trail in rows.verbs.values():
        for row in trail:
            if audit.fingerprint(row) != row.hash:
                yield f"audit row {row.id} of request {row.park_id} says something else now"


def an_edited_call_runs_as_it_was_approved(rows: Rows) -> Iterator[str]:
    """A9, M4: what a reviewer changed is what the call holds, under the digest of its request."""
    calls = {str(call.id): call for calls in rows.calls.values() for call in calls}
    for park in rows.parks:
        call = calls.get(park.key)
        if call is None or park.is_standalone or park.is_job:
            continue
        edited = park.proposed is not None
        if edited and (call.shown_arguments, call.digest) != (park.arguments, park.digest):
            yield f"request {park.id} was edited, and call {call.id} holds something else"
        if edited and park.status != ParkStatus.APPROVED:
            yield f"request {park.id} was edited and is {park.status}"


def the_history_pairs_every_call(rows: Rows) -> Iterator[str]:
    """H2: whatever a provider would be sent next, for any frame, it finds one result per call."""
    for thread in rows.threads:
        turns = history.turns_before(thread.id, len(rows.turns[thread.id]) + 1)
        try:
            check_pairs(history.messages(turns))
        except UnpairedCalls as error:
            yield f"thread {thread.id}: {error}"
    for frame in rows.frames.values():
        said = [
            SavedStep(step.text, step.raw, list(map(history.as_state, rows.calls_of_step[step.id])))
            for step in rows.said[frame.run_id, frame.id]
        ]
        try:
            check_pairs(history.messages([Turn(frame.message, said)]))
        except UnpairedCalls as error:
            yield f"frame {frame.id}: {error}"


CHECKS: tuple[Check, ...] = (
    events_are_numbered_without_a_gap,
    a_run_waits_if_and_only_if_a_park_is_open,
    no_park_outlives_its_run,
    a_call_ends_once,
    steps_are_saved_whole,
    a_park_is_seen_with_its_step,
    a_trail_tells_each_ending_once,
    a_callback_is_owed_once_its_request_is_settled,
    a_thread_has_one_active_run,
    a_lease_is_held_if_and_only_if_running,
    nothing_is_stuck,
    a_frame_stands_where_it_was_opened,
    a_frame_ends_with_its_call,
    what_is_held_is_shown_nowhere,
    an_early_answer_is_gone_once_its_park_is_there,
    a_row_of_the_trail_is_as_it_was_written,
    an_edited_call_runs_as_it_was_approved,
    the_history_pairs_every_call,
)


def violations() -> list[str]:
    """Return one sentence per broken invariant, over all rows of this database."""
    rows = Rows()
    found = [f"{check.__name__}: {found}" for check in CHECKS for found in check(rows)]
    return found + journals.violations()


def check(when: str = "") -> None:
    """Fail when the rows break an invariant; `when` says at which moment."""
    broken = violations()
    assert not broken, "\n  ".join([f"Broken {when}:", *broken])
