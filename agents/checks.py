"""System checks of the `AGENTS` settings and of the agents: what is wrong shows before a deploy."""

from typing import Any

from django.core.checks import CheckMessage, register
from django.core.checks import Warning as Advice

from agents import agent, conf
from hitl.checks import check_dictionary


@register("agents")
def check_settings(**_: Any) -> list[CheckMessage]:
    """Refuse unknown keys, unreadable durations and bounds that are not positive whole numbers."""
    return check_dictionary("AGENTS", conf.DEFAULTS, conf.DURATIONS)


@register("agents")
def check_subagents(**_: Any) -> list[CheckMessage]:
    """Warn of agents that delegate to one that no installed app defines."""
    return [
        Advice(
            f"The agent {name!r} delegates to {below!r}, which nobody defines.",
            hint="Correct the name, or define the agent in the agents.py of an installed app.",
            id="agents.W001",
        )
        for name, below in agent.missing()
    ]
