"""Durable workflows: a body that is replayed over its journal, and steps with side effects.

    from agents.workflows import workflow, step, request_approval

The public names are here; `agents.workflows.verbs` has what a program does with runs. They are
imported on first use, so that no page pays for what it does not need.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agents.workflows.authoring import StepContext, step, workflow
    from agents.workflows.awaiting import (
        gather,
        now,
        race,
        random,
        run_agent,
        sleep,
        uuid4,
    )
    from agents.workflows.errors import (
        AgentFailed,
        FatalError,
        HookClosed,
        HookConflict,
        RetryableError,
        StepFailed,
    )
    from agents.workflows.gates import Decision, define_hook, request_approval
    from agents.workflows.verbs import cancel, check, retry

_HOMES = {
    "authoring": ("StepContext", "step", "workflow"),
    "awaiting": ("gather", "now", "race", "random", "run_agent", "sleep", "uuid4"),
    "errors": (
        *("AgentFailed", "FatalError", "HookClosed", "HookConflict"),
        *("RetryableError", "StepFailed"),
    ),
    "gates": ("Decision", "define_hook", "request_approval"),
    "verbs": ("cancel", "check", "retry"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "AgentFailed",
    "Decision",
    "FatalError",
    "HookClosed",
    "HookConflict",
    "RetryableError",
    "StepContext",
    "StepFailed",
    "cancel",
    "check",
    "define_hook",
    "gather",
    "now",
    "race",
    "random",
    "request_approval",
    "retry",
    "run_agent",
    "sleep",
    "step",
    "uuid4",
    "workflow",
]


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        return getattr(import_module(f"agents.workflows.{_HOME_OF[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
