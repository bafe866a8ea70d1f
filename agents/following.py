"""Keeping something together with what follows at once from it, in one transaction (P1, P2, P5).

What was kept and what it leads to, a park with its requests or the end of the run or of a subagent,
are seen together or not at all, and the lease ends with them.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from agents import frames, releases, runs, tool_calls
from agents.engine import Ending, Finish, Park, Return, next_action
from agents.events import PREVIEW_CHARS_MAX, Entry, EventType
from agents.snapshot import Work
from agents.states import Outcome, Phase, RunStatus
from hitl import faults, openings
from hitl.rows import Group
from hitl.transactions import unit_of_work


def keep(
    work: Work,
    entries: list[Entry],
    *,
    along: Sequence[Group] = (),
    also: Callable[[], object] = lambda: None,
    add: Mapping[str, int] = MappingProxyType({}),
    **changes: Any,
) -> bool:
    """Write the run, these rows, and what follows; True when that released the run.

    The snapshot is as it will be. `add` and `changes` are for the run's row, written first; `along`
    are rows to insert with its events, and `also` writes more.
    """
    status, drafts, has_jobs, last_word = None, [], False, None
    with unit_of_work(durable=True):
        match next_action(work.snapshot):
            case Finish(output):
                status = RunStatus.COMPLETED
                changes["output"] = {"text": output}
                done = (EventType.RUN_COMPLETED, {"output": output[:PREVIEW_CHARS_MAX]})
                entries = [*entries, done]
            case Return(child, said) if child.parent is not None:
                last_word = Ending(child.parent, Outcome.OK, frames.answer(said))
                child.parent.outcome, child.parent.result = Outcome.OK, last_word.result
                entries = [*entries, *frames.finished(child)]
            case Park() as asked:
                status = RunStatus.WAITING_FOR_INPUT
                drafts, has_jobs = releases.draft_parks(work, asked), bool(asked.jobs)
                entries = [*entries, *map(releases.input_required, drafts)]
        rows = [*openings.rows_of(drafts), *along]
        runs.write_later(
            work.run,
            work.lease,
            entries,
            heed_stop=True,
            status=status,
            add=add,
            along=rows,
            **changes,
        )
        if drafts:
            openings.opened(drafts, may_be_answered=has_jobs)
        also()
        if last_word is not None:
            tool_calls.finish(last_word)
        faults.point("reply:saving")
    if last_word is not None:
        last_word.call.phase = Phase.DONE
    return status is not None
