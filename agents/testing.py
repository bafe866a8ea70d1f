"""What a project uses to test its own agents, without a network or a broker.

`ScriptedModel` answers from a script, `call` writes a tool call of one of its turns, and
`run_worker` does the work of a worker and of the sweep in this process.
"""

from agents import backlog, segments
from agents.llm.scripted import ScriptedModel, call
from agents.triggers import deliveries, handling
from agents.workflows import attempts, children, rehearsing
from hitl import sweeping, warning
from hitl.testing import deliver_callbacks

__all__ = ["ScriptedModel", "call", "run_worker"]

ROUNDS_MAX = 10_000
WARNINGS_MAX = 1000


def run_worker(*, always_replay: bool = True) -> int:
    """Do all that is owed now: what is due, callbacks, runs, workflows' steps, warnings, events.

    Callbacks are delivered as `hitl.testing.deliver_callbacks` says. Returns how many segments ran.
    What waits for a person or for a later time keeps waiting; move the clock with the `clock`
    fixture to make it due. With `always_replay` the body of a workflow is replayed after each step,
    and a run whose replay goes another way fails and says so. Raises RuntimeError when the work
    never ends.
    """
    with rehearsing.on(always_replay):
        return _work()


def _work() -> int:
    segments_run = 0
    for _ in range(ROUNDS_MAX):
        sweeping.settle_due()
        for park_id in warning.owed(WARNINGS_MAX):
            warning.warn(park_id)
        before, delivered = segments_run, deliver_callbacks()
        for run_id in backlog.owing():
            segments_run += segments.run_segment(run_id, keep_alive=False)
        if not _do_apart() and not delivered and segments_run == before:
            return segments_run
    raise RuntimeError(f"There was still work after {ROUNDS_MAX} rounds.")


def _do_apart() -> bool:
    """Run the steps that are tasks of their own, make reports between runs, handle events."""
    did = [attempts.perform(entry_id, keep_alive=False) for entry_id, _ in attempts.owing()]
    did += [children.attend(run_id) for run_id in children.owing()]
    did += [handling.handle(delivery_id) for delivery_id in deliveries.owing()]
    return any(did)
