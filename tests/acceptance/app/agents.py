"""Agents whose tools write their effects to a file outside the database, one JSON line each.

`EFFECTS_FILE` names the file. A tool that holds waits, in its worker, for the file that `release`
touches, so that a test decides how long it runs.
"""

import json
import os
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.conf import settings

from agents import Agent, ToolContext, park_for_input, requires_confirmation, tool
from agents.llm.errors import ModelUnavailable
from agents.testing import call
from examples.render_farm.client import Client
from tests.acceptance.app.scripts import by_step

HOLD_SECONDS_MAX = 40


def note(effect: str, reference: str) -> None:
    """Append one effect; a line is written in one piece, whichever process writes."""
    # The tests start each worker in a session of its own.
    entry = {"effect": effect, "reference": reference, "session": os.getsid(0)}
    line = json.dumps(entry) + "\n"
    handle = os.open(os.environ["EFFECTS_FILE"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(handle, line.encode())
    finally:
        os.close(handle)


def effects(reference: str) -> list[str]:
    """Return what was noted of this reference so far."""
    lines = Path(os.environ["EFFECTS_FILE"]).read_text().splitlines()
    found = [json.loads(line) for line in lines]
    return [line["effect"] for line in found if line["reference"] == reference]


def release_of(reference: str) -> Path:
    """Return the file whose existence lets the tools of this reference go on."""
    return Path(os.environ["EFFECTS_FILE"]).with_name(f"release-{reference}")


def wait_for_release(reference: str) -> None:
    give_up_at = time.monotonic() + HOLD_SECONDS_MAX
    while not release_of(reference).exists():
        if time.monotonic() > give_up_at:
            raise TimeoutError(f"nobody released {reference}")
        time.sleep(0.02)


@tool
def look(reference: str) -> str:
    """Look something up."""
    note("look", reference)
    return "seen"


@tool
def hold(reference: str) -> str:
    """Begin, wait until the test lets go, and end."""
    note("hold begins", reference)
    wait_for_release(reference)
    note("hold ends", reference)
    return "held"


@tool
def crash(reference: str) -> str:
    """Take the worker's process down."""
    note("crash", reference)
    os._exit(1)


@requires_confirmation
@tool
def pay(ctx: ToolContext, reference: str) -> str:
    """Pay; cannot be undone."""
    note("pay", reference)
    return f"paid, allowed by {ctx.approval.actor if ctx.approval else 'nobody'}"


@requires_confirmation
@tool
def pay_slowly(reference: str) -> str:
    """Pay at a bank that takes its time; cannot be undone."""
    note("pay begins", reference)
    wait_for_release(reference)
    note("pay ends", reference)
    return "paid"


def painter(name: str, *, ttl: str, holds: bool = False) -> Agent:
    """Define an agent that has something drawn by the render farm.

    With `holds` its tool stays inside the first call, after the job has begun, until the test lets
    go: what the farm reports meanwhile comes before the park.
    """

    @tool(id=f"draw.{name}")
    def draw(ctx: ToolContext, reference: str) -> Any:
        """Have something drawn."""
        if ctx.approval:
            note("drawn", reference)
            return ctx.approval.payload
        if ctx.resumed:
            note("not in time", reference)
            return "no picture in time"
        farm = Client(settings.RENDER_FARM_URL)
        job_id = farm.submit(reference, notify=ctx.resume_url, key=ctx.idempotency_key)
        note(f"job {job_id}", reference)
        if holds:
            wait_for_release(reference)
        raise park_for_input(reason="job", payload={"job_id": job_id}, ttl=ttl)

    return Agent(name, model=by_step(calls("draw"), "Finished."), tools=[draw])


def delegates(name: str) -> Any:
    """Return a turn that hands the reference on to this agent, and pays for it."""
    return lambda reference: [
        call(f"delegate_to_{name}", instructions=reference),
        call("pay", reference=reference),
    ]


def once_turned_away(reference: str) -> str:
    """Answer the first request of a run as a provider with too much to do would."""
    note("ask", reference)
    if effects(reference) == ["ask"]:
        raise ModelUnavailable("429: too many requests", retry_after=timedelta(seconds=2))
    return "Here I am."


def calls(name: str) -> Any:
    """Return a turn that calls this tool with the reference that the user wrote."""
    return lambda reference: [call(name, reference=reference)]


Agent("payer", model=by_step(calls("pay"), "Finished."), tools=[pay], ttl="10m")
Agent("hasty", model=by_step(calls("pay"), "Finished."), tools=[pay], ttl="2s")
Agent("patient", model=by_step(calls("pay"), "Finished."), tools=[pay], ttl="7d")
Agent("soon", model=by_step(calls("pay"), "Finished."), tools=[pay], ttl="34s")
Agent("slow-payer", model=by_step(calls("pay_slowly"), "Finished."), tools=[pay_slowly], ttl="10m")
Agent("holder", model=by_step(calls("hold"), "Finished."), tools=[hold])
Agent(
    "walker",
    model=by_step(calls("hold"), calls("look"), calls("look"), "Finished."),
    tools=[hold, look],
)
Agent(
    "gallery",
    model=by_step(delegates("painter"), "Finished."),
    tools=[pay],
    subagents=[painter("painter", ttl="10m")],
    ttl="10m",
)
painter("slow-painter", ttl="10m", holds=True)
painter("hasty-painter", ttl="1s")
Agent("turned-away", model=by_step(once_turned_away))
Agent("poison", model=by_step(calls("crash"), "Finished."), tools=[crash])
