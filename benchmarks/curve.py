"""What the next step of a long thread costs: the curve over 1, 10, 100 and 1,000 saved steps.

    DATABASE_URL=postgres://… python -m benchmarks.curve

Each saved step is a reply with one call of a free tool, inserted beforehand; they lie in one run, or
in earlier turns of ten. One fresh segment then takes the run, goes one step further and ends. Beside
its CPU time stands the floor: the least that sending the provider its messages takes in Python, by
one query for what they are made of, parsed, built and checked. What is above it is ours, and is to
stay as it is however long the thread. `--profile` tells where the time of the longest goes instead.
"""

import argparse
import cProfile
import io
import json
import os
import pstats
import statistics
import sys
from collections.abc import Callable
from time import process_time
from typing import Any
from uuid import UUID

from rich.console import Console
from rich.progress import track

from benchmarks import results
from benchmarks.depth import server, statements

STEPS = (1, 10, 100, 1_000)
TURN = 10
HEAD = ["saved steps", "statements", "CPU ms of a fresh segment", "of it the floor", "the rest"]
TEXT = "The order was looked up, and everything that was found is in the result. " * 3
Lay = Callable[[Any, int], UUID]


def main() -> int:
    options = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--profile", action="store_true")
    chosen = options.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchmarks.settings")
    os.environ.setdefault("LOG_LEVEL", "ERROR")
    import django

    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    agent = define()
    if chosen.profile:
        for lay in (in_one_run, in_turns):
            sys.stdout.write(f"{lay.__name__}\n{profile(agent, lay)}\n")
        return 0
    cases = [(lay, steps) for lay in (in_one_run, in_turns) for steps in STEPS]
    rows = [
        row(agent, lay, steps, chosen.rounds)
        for lay, steps in track(cases, "curve", console=Console(stderr=True))
    ]
    told = {"machine": results.machine(server()), "rounds": chosen.rounds}
    told["medians"] = [dict(zip(HEAD, each, strict=True)) for each in rows]
    page = f"Medians of {chosen.rounds} rounds.\n\n{results.table(HEAD, rows)}"
    results.write("curve", told, page)
    return 0


def row(agent: Any, lay: Lay, steps: int, rounds: int) -> list[Any]:
    """Return one line of the table, the medians of so many rounds."""
    found = [measure(agent, lay, steps) for _ in range(rounds)]
    counted, total, floor = map(statistics.median, zip(*found, strict=True))
    name = f"{steps:,} {lay.__name__.replace('_', ' ')}"
    return [name, f"{counted:g}", f"{total:.1f}", f"{floor:.1f}", f"{total - floor:.1f}"]


# ── The thread ───────────────────────────────────────────────────────────────────────────────────


def define() -> Any:
    """Define the agent: its model makes one call more after what is saved, and then ends."""
    from agents import Agent, tool
    from agents.llm.messages import AssistantMessage, Request, UserMessage
    from agents.testing import ScriptedModel, call

    @tool(id="curve.look_up")
    def look_up(order: str, depth: int = 1) -> dict[str, Any]:
        """Look an order up."""
        return {"order": order, "found": TEXT}

    def reply(request: Request) -> Any:
        said = [m for m in request.messages if isinstance(m, UserMessage | AssistantMessage)]
        newest = max(n for n, m in enumerate(said) if isinstance(m, UserMessage))
        text = said[newest].text
        left = int(text.split()[1]) - (len(said) - 1 - newest)
        return [call("look_up", order="o1")] if left > 0 else "Done."

    return Agent("curve", model=ScriptedModel(reply), tools=[look_up], max_steps=10_000)


def in_one_run(agent: Any, steps: int) -> UUID:
    """Return a run that goes on after so many saved steps."""
    from agents import threads

    thread = threads.start(agent, f"do {steps + 1} steps")
    assert thread.current_run_id is not None
    save_steps(agent, thread.current_run_id, steps)
    return thread.current_run_id


def in_turns(agent: Any, steps: int) -> UUID:
    """Return a run that begins after so many saved steps in earlier turns."""
    from agents import threads
    from agents.models import Run

    thread = threads.start(agent, "do 0 steps")
    for first in range(0, steps, TURN):
        run_id = Run.objects.filter(thread=thread).latest("number").id
        save_steps(agent, run_id, min(TURN, steps - first))
        over = {"status": "COMPLETED", "finished_at": thread.created_at}
        Run.objects.filter(id=run_id).update(**over)
        run = threads.send(thread, "do 1 steps")
    return run.id


def save_steps(agent: Any, run_id: UUID, count: int) -> None:
    """Insert steps as a run has them that was about to ask its model once more."""
    from agents.models import Run, Step, ToolCall
    from hitl import clock, values

    arguments = {"order": "o1", "depth": 1}
    text = values.dumps(arguments)
    digest = agent.tool("look_up").digest(arguments)
    now = clock.now()
    raw = {"kind": "response", "parts": [{"part_kind": "text", "content": TEXT}], "model": "m"}
    first = Run.objects.get(id=run_id).steps
    steps = Step.objects.bulk_create(
        Step(run_id=run_id, number=first + n + 1, text=TEXT, raw=raw, created_at=now)
        for n in range(count)
    )
    ToolCall.objects.bulk_create(
        ToolCall(
            run_id=run_id,
            step=step,
            index=0,
            tool_name="look_up",
            tool_id="curve.look_up",
            arguments_text=text,
            arguments=arguments,
            digest=digest,
            on_doubt="retry",
            phase="done",
            outcome="ok",
            result={"order": "o1", "found": TEXT},
            done_at=now,
        )
        for step in steps
    )
    Run.objects.filter(id=run_id).update(steps=first + count)


# ── Measuring ────────────────────────────────────────────────────────────────────────────────────


def measure(agent: Any, lay: Lay, steps: int) -> tuple[int, float, float]:
    """Return the statements and the CPU milliseconds of a fresh segment, and the floor's."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    from agents import segments
    from agents.models import Run

    run_id = lay(agent, steps)
    thread = Run.objects.get(id=run_id).thread
    floor = timed(lambda: send_by_hand(thread.id))
    total = timed(lambda: segments.run_segment(run_id, keep_alive=False))
    assert Run.objects.get(id=run_id).status == "COMPLETED"
    thread.delete()
    run_id = lay(agent, steps)
    with CaptureQueriesContext(connection) as seen:
        segments.run_segment(run_id, keep_alive=False)
    Run.objects.get(id=run_id).thread.delete()
    return statements(seen), total, floor


def timed(act: Callable[[], object]) -> float:
    before = process_time()
    act()
    return (process_time() - before) * 1000


SENT = """
SELECT step.text, step.raw, made.id, made.tool_name, made.arguments_text, made.result, made.outcome
FROM agents_step AS step JOIN agents_toolcall AS made ON made.step_id = step.id
JOIN agents_run AS run ON run.id = step.run_id
WHERE run.thread_id = %s ORDER BY run.number, step.number
"""


def send_by_hand(thread_id: UUID) -> None:
    """Make the messages of two requests, as a segment of two replies has to, and nothing more."""
    from django.db import connection

    from agents.llm import messages as m

    sent: list[m.Message] = [m.UserMessage("Go on")]
    with connection.cursor() as cursor:
        cursor.execute(SENT, [thread_id if connection.vendor == "postgresql" else thread_id.hex])
        for text, raw, call_id, name, arguments, result, outcome in cursor.fetchall():
            called = str(call_id)
            sent += [
                m.AssistantMessage(text, (m.Call(called, name, arguments),), json.loads(raw)),
                m.ToolResults((m.ToolResult(called, name, json.loads(result), outcome),)),
            ]
    for _ in range(2):
        m.check_pairs(tuple(sent))


def profile(agent: Any, lay: Lay) -> str:
    """Return where the time of a fresh segment after the most steps goes."""
    from agents import segments
    from agents.models import Run

    run_id, profiler, told = lay(agent, STEPS[-1]), cProfile.Profile(), io.StringIO()
    profiler.runcall(segments.run_segment, run_id, keep_alive=False)
    Run.objects.get(id=run_id).thread.delete()
    pstats.Stats(profiler, stream=told).sort_stats("cumtime").print_stats(35)
    return told.getvalue()


if __name__ == "__main__":
    sys.exit(main())
