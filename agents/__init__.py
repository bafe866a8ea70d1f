"""Agents that wait for a person's say-so: `Agent`, `tool` and `requires_confirmation` define them.

Run them with `agents.threads`; test them with `agents.testing`.
"""

from agents.agent import Agent
from agents.context import Approval, ToolContext
from agents.parking import park_for_input
from agents.tools import requires_confirmation, tool

__all__ = ["Agent", "Approval", "ToolContext", "park_for_input", "requires_confirmation", "tool"]
