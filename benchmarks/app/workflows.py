"""Scenario P as a workflow: a step, a question, a step with the one effect.

The same as `agents.py` plays as an agent. Whether the effect happened when a worker died in it is
asked, as it is for a tool with effects, and not tried again.
"""

from agents.workflows import request_approval, step, workflow
from benchmarks.app.agents import effect


@step(name="bench.look")
def look(run: str) -> str:
    return f"looked at {run}"


@step(name="bench.act", on_doubt="ask")
def act(run: str, kind: str) -> str:
    effect(run, kind)
    return "done"


@workflow(name="bench.passage")
async def passage(run: str, ttl_s: float) -> str:
    await look(run)
    decision = await request_approval("act", {"run": run}, timeout=ttl_s * 1000)
    return await act(run, "timeout" if decision.timed_out else "yes")
