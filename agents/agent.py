"""Agents: what a project defines in `agents.py`, and the register that finds them by name.

An agent is found again after any restart by its name alone, so names are unique in the project.
Touches the register of this process and nothing else.
"""

import re
from collections.abc import Iterable
from datetime import timedelta
from importlib import import_module
from typing import TYPE_CHECKING

from django.apps import apps
from django.utils.module_loading import module_has_submodule

from agents.tools import Offering, Tool
from hitl import approvers, display, durations
from hitl.errors import HitlError

if TYPE_CHECKING:
    from agents.llm.models import Model

# A subagent is offered as the tool `delegate_to_<name>`, and providers take 64 characters.
NAME = re.compile(r"[a-zA-Z0-9_-]{1,52}")
DELEGATION = "delegate:"
"""What the tool id of a delegation begins with."""
MODULES = ("agents", "workflows")
OUR_APPS = ("agents", "hitl")

_agents: dict[str, "Agent"] = {}


class AgentDefinitionError(HitlError):
    """The agent cannot be defined this way."""

    code = "agent_definition"


class AgentNotFound(HitlError):
    """There is no agent of this name; define it in the agents.py of an installed app."""

    code = "agent_not_found"


class Agent:
    """A model with instructions and tools, known to the project under one name.

    `model` is a model string or a model object (None: the project's default), `ttl` is how long
    its questions stay open ("15m", a timedelta, or milliseconds; None: the project's default),
    `max_steps` how many model replies a run may take, its subagents' included; `token_budget` and
    `cost_budget` (US dollars) bound the same tree (None: no limit). `subagents` are agents or their
    names, its own included: each is offered as the tool `delegate_to_<name>(instructions)`, down to
    `max_depth` levels. `approver` decides on its tools' calls where the tool names nobody
    ("group:finance", or as for `requires_confirmation`). A second agent of the same name replaces
    the first. Raises AgentDefinitionError, BadDuration for `ttl`, or BadApprover.
    """

    def __init__(
        self,
        name: str,
        *,
        model: "str | Model | None" = None,
        instructions: str = "",
        tools: Iterable[Tool | Offering] = (),
        ttl: str | timedelta | float | None = None,
        subagents: "Iterable[Agent | str]" = (),
        max_steps: int = 25,
        max_depth: int = 5,
        token_budget: int | None = None,
        cost_budget: float | None = None,
        description: str = "",
        approver: object = None,
    ) -> None:
        self.name = _checked_name(name)
        self.model = self._checked_model(model)
        self.instructions = instructions
        self.description = description
        self.policy = approvers.policy(approver)
        self.delegates = {
            f"delegate_to_{sub}": sub for sub in map(_name_of, subagents) if _checked_name(sub)
        }
        self.tools = self._checked_tools([*tools, *map(_delegation, self.delegates.values())])
        self.ttl = None if ttl is None else durations.parse(ttl)
        self.max_steps = self._checked_count("max_steps", max_steps)
        self.max_depth = self._checked_count("max_depth", max_depth)
        self.token_budget = token_budget and self._checked_count("token_budget", token_budget)
        self.cost_budget_micros = self._checked_cost(cost_budget)
        _agents[self.name] = self

    def __repr__(self) -> str:
        return f"<Agent {self.name}>"

    def tool(self, name: str) -> Tool | None:
        """Return the tool that the model knows under this name."""
        return self._by_name.get(name)

    def _checked_model(self, model: "str | Model | None") -> "str | Model | None":
        if model is None or (isinstance(model, str) and model.strip()):
            return model
        if callable(getattr(model, "request", None)):
            return model
        raise self._refusal(
            f'model={model!r}; write a model string such as "openai:gpt-5", or a model object'
        )

    def _checked_tools(self, tools: Iterable[object]) -> tuple[Tool, ...]:
        self._by_name: dict[str, Tool] = {}
        for given in tools:
            tool = given.as_tool() if isinstance(given, Offering) else given
            if not isinstance(tool, Tool):
                shown = getattr(tool, "__name__", repr(tool))
                raise self._refusal(f"{shown} is not a tool; write @tool above the function")
            if tool.name in self._by_name:
                raise self._refusal(f"two tools are named {tool.name}; rename one of them")
            for twin in self._by_name.values():
                # Else a model could get past the mark by the other name (M5).
                if twin.function is tool.function and twin.gate != tool.gate:
                    raise self._refusal(
                        f"{twin.name} and {tool.name} are one function, marked differently; "
                        f"mark both with the same requires_confirmation"
                    )
            self._by_name[tool.name] = tool
        return tuple(self._by_name.values())

    def _checked_count(self, name: str, count: int) -> int:
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise self._refusal(f"{name}={count!r}; write a whole number of at least 1")
        return count

    def _checked_cost(self, dollars: float | None) -> int | None:
        if dollars is None:
            return None
        if isinstance(dollars, bool) or not isinstance(dollars, int | float) or not dollars > 0:
            raise self._refusal(f"cost_budget={dollars!r}; write US dollars above 0")
        return round(dollars * 1_000_000)

    def _refusal(self, remedy: str) -> AgentDefinitionError:
        return AgentDefinitionError(f"Agent {self.name}: {remedy}.")


def missing() -> list[tuple[str, str]]:
    """Return the agents that delegate to one that is not defined, each with its name."""
    return [
        (each.name, below)
        for each in _agents.values()
        for below in each.delegates.values()
        if below not in _agents
    ]


def get(name: str) -> Agent:
    """Return the agent of this name. Raises AgentNotFound, which names those that are known."""
    try:
        return _agents[name]
    except KeyError:
        known = display.listed(_agents)
        raise AgentNotFound(
            f"There is no agent {name!r}; known are: {known}. Define it in the agents.py of an "
            f"installed app."
        ) from None


def every() -> list[Agent]:
    """Return all agents that are known, by name."""
    return [_agents[name] for name in sorted(_agents)]


def autodiscover() -> None:
    """Import `agents.py` and `workflows.py` of each installed app; their errors pass through."""
    for app in apps.get_app_configs():
        # In our own apps modules of these names define no agents of a project's.
        if app.name in OUR_APPS or app.module is None:
            continue
        for module in MODULES:
            if module_has_submodule(app.module, module):
                import_module(f"{app.name}.{module}")


def _name_of(sub: "Agent | str") -> str:
    return sub.name if isinstance(sub, Agent) else sub


def _delegation(name: str) -> Tool:
    """Make the tool through which a model delegates; the engine opens a frame in place of it."""

    def delegate(instructions: str) -> str:
        """Delegate.

        Args:
            instructions: everything the other agent needs to know; it sees nothing else.
        """
        raise AssertionError("a delegation opens a frame")

    return Tool(
        delegate,
        id=f"{DELEGATION}{name}",
        name=f"delegate_to_{name}",
        description=_describe(name),
    )


def _describe(name: str) -> str:
    known = _agents.get(name)
    own = known.description if known is not None else ""
    return own or f"Hand a piece of work to the agent {name} and get its answer back."


def _checked_name(name: str) -> str:
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise AgentDefinitionError(
            f"{name!r} cannot be the name of an agent; write up to 52 plain letters, digits, "
            f"_ and -."
        )
    return name
