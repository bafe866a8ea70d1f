"""The studio: an agent that has pictures drawn elsewhere, and lets another agent write about it.

`render` hands its work to the farm and parks itself; the farm's call to `ctx.resume_url` wakes it.
The mailer's gate surfaces at the studio's thread: who asks is shown as "studio › mailer".
"""

from typing import Any

from django.conf import settings

from agents import Agent, ToolContext, park_for_input, tool
from examples.render_farm import script
from examples.render_farm.client import Client
from examples.support_desk import script as desk_script
from examples.support_desk.agents import lookup_order, send_email


@tool(id="render_farm.render")
def render(ctx: ToolContext, scene: str) -> Any:
    """Have a picture drawn. It takes a while; the result says where the picture is.

    Args:
        scene: What is to be seen.
    """
    if ctx.approval:  # the second call: the farm is done
        return ctx.approval.payload
    if ctx.resumed:  # the second call: the deadline came first
        return "The picture was not finished in time."
    farm = Client(settings.RENDER_FARM_URL)
    # The key stays the same when this call is tried again, so it begins no second job.
    job_id = farm.submit(scene, notify=ctx.resume_url, key=ctx.idempotency_key)
    raise park_for_input(reason="job", payload={"job_id": job_id, "scene": scene}, ttl="10m")


mailer = Agent(
    "mailer",
    model=settings.AGENTS["DEFAULT_MODEL"] or desk_script.MODEL,
    description="Writes an e-mail to a customer. Give it the address and what to say.",
    instructions="You write short, friendly e-mails for a small shop. Send one, then say what was "
    "done, and what was not and why.",
    tools=[send_email],
)
studio = Agent(
    "studio",
    model=settings.AGENTS["DEFAULT_MODEL"] or script.MODEL,
    instructions=(
        "You have pictures of orders drawn for a small shop. Look the order up first. Then have "
        "its item drawn and, if asked to, let the mailer tell the customer, in one step. At the "
        "end tell where the picture is, and what was done and what was not."
    ),
    tools=[lookup_order, render],
    subagents=[mailer],
)
