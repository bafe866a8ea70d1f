"""Durable questions to people and systems, and their one answer.

The public verbs are here: `respond`, `decide`, `extend`, `pending`, `reclaim_if_orphaned`. They are
imported on first use, since models cannot be imported before Django has loaded the apps.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hitl.answers import Answer
    from hitl.extending import extend
    from hitl.inbox import PendingInput, pending
    from hitl.parks import decide, respond
    from hitl.reclaiming import reclaim_if_orphaned

_HOMES = {
    "Answer": "hitl.answers",
    "PendingInput": "hitl.inbox",
    "decide": "hitl.parks",
    "extend": "hitl.extending",
    "pending": "hitl.inbox",
    "reclaim_if_orphaned": "hitl.reclaiming",
    "respond": "hitl.parks",
}

__all__ = [
    "Answer",
    "PendingInput",
    "decide",
    "extend",
    "pending",
    "reclaim_if_orphaned",
    "respond",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
