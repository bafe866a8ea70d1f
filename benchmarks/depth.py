"""What an answer costs that unwinds through 0, 1, 3 and 5 levels of subagents.

    DATABASE_URL=postgres://… python -m benchmarks.depth --rounds 30

A gate waits at the bottom of a chain of agents. It is answered, and one segment in this process goes
on from there: the tool runs, each level asks its model once more, and the root ends. Rounds take the
depths in turn, so that a drift of the machine meets all alike. Models answer at once and no broker
is in between: what is measured is the database and our own code.
"""

import argparse
import os
import statistics
import sys
from collections import defaultdict
from time import perf_counter, process_time
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import track

from benchmarks import results

DEPTHS = (0, 1, 3, 5)


class Cost(NamedTuple):
    """Of one round: statements, milliseconds by the clock, and CPU milliseconds of this process."""

    answer_statements: int
    resume_statements: int
    answer_ms: float
    resume_ms: float
    cpu_ms: float


def main() -> int:
    options = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    options.add_argument("--rounds", type=int, default=30)
    chosen = options.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchmarks.settings")
    os.environ.setdefault("LOG_LEVEL", "ERROR")
    import django

    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    for depth in DEPTHS:
        define(depth)
    found: dict[int, list[Cost]] = defaultdict(list)
    for number in track(range(chosen.rounds + 1), "depth", console=Console(stderr=True)):
        for depth in DEPTHS:
            cost = unwind(depth)
            if number:  # the first round warms up
                found[depth].append(cost)
    medians = {
        depth: Cost(*map(statistics.median, zip(*found[depth], strict=True))) for depth in DEPTHS
    }
    told = {"machine": results.machine(server()), "rounds": chosen.rounds}
    told["medians"] = {depth: cost._asdict() for depth, cost in medians.items()}
    results.write("depth", told, table(medians, chosen.rounds))
    return 0


def define(depth: int) -> None:
    """Define a chain of agents; the lowest has the gated tool."""
    from agents import Agent, requires_confirmation, tool
    from agents.llm.messages import Request
    from agents.testing import ScriptedModel, call

    @requires_confirmation
    @tool
    def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    def reply(request: Request) -> Any:
        if len(request.messages) > 1:
            return "Done."
        level = int(request.agent.rpartition("-")[2])
        if level == depth:
            return [call("pay", amount=1)]
        return [call(f"delegate_to_chain{depth}-{level + 1}", instructions="Go on")]

    model = ScriptedModel(reply)
    for level in range(depth, -1, -1):
        below = [f"chain{depth}-{level + 1}"] if level < depth else []
        Agent(f"chain{depth}-{level}", model=model, tools=[pay], subagents=below)


def unwind(depth: int) -> Cost:
    """Answer a gate at this depth and go on to the end."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    import hitl
    from agents import segments, threads
    from agents.models import Run

    for counts in (True, False):
        thread = threads.start(f"chain{depth}-0", "Go")
        assert thread.current_run_id is not None
        segments.run_segment(thread.current_run_id)
        [request] = hitl.pending(thread)
        if counts:
            with CaptureQueriesContext(connection) as answering:
                hitl.decide(request.request_id, True)
            with CaptureQueriesContext(connection) as resuming:
                segments.run_segment(thread.current_run_id)
            continue
        began, cpu = perf_counter(), process_time()
        hitl.decide(request.request_id, True)
        answered = perf_counter()
        segments.run_segment(thread.current_run_id)
        ended = perf_counter()
        cpu = process_time() - cpu
    assert Run.objects.get(id=thread.current_run_id).status == "COMPLETED"
    return Cost(
        statements(answering),
        statements(resuming),
        (answered - began) * 1000,
        (ended - answered) * 1000,
        cpu * 1000,
    )


def statements(seen: Any) -> int:
    """Count what asks or changes rows; the bounds of transactions aside."""
    bounds = ("BEGIN", "COMMIT", "SAVEPOINT", "RELEASE")
    return sum(not query["sql"].startswith(bounds) for query in seen.captured_queries)


def server() -> str:
    """Return what the database says that it is."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT version()")
        return str(cursor.fetchone()[0])


def table(medians: dict[int, Cost], rounds: int) -> str:
    """Return the medians as a Markdown table, with ratios to depth 0."""
    head = ["depth", "statements: answer", "statements: resume", "answer ms", "resume ms", "CPU ms"]
    base = medians[0].resume_ms
    rows = [
        [
            depth,
            f"{cost.answer_statements:g}",
            f"{cost.resume_statements:g}",
            f"{cost.answer_ms:.1f}",
            f"{cost.resume_ms:.1f} ({cost.resume_ms / base:.1f}×)",
            f"{cost.cpu_ms:.1f}",
        ]
        for depth, cost in medians.items()
    ]
    return f"Medians of {rounds} interleaved rounds.\n\n{results.table(head, rows)}"


if __name__ == "__main__":
    sys.exit(main())
