"""Approvals of their own: ask a person from any code, and be told the decision. Needs no agents.

    from hitl import approval

    entry = approval.request(topic="refund", payload={"order": 17}, on_decide="/approvals/decide/")

A person decides in the inbox; the decision is POSTed, signed, to `on_decide`, where `verify` reads
it. `get`, `list` and `cancel` look at and withdraw what was asked, `tool` gates one function.
"""

from hitl.approval.entries import Entries, Entry, get, list  # noqa: A004
from hitl.approval.requests import cancel, request
from hitl.approval.tools import Outcome, Tool, tool
from hitl.approval.verifying import verify
from hitl.callbacks.decisions import Decision
from hitl.errors import (
    ApprovalInvalidRequest,
    ApprovalInvalidSignature,
    ApprovalNotFound,
    ApprovalSigningKeyMissing,
    ApprovalStaleTimestamp,
    ApprovalToolExecuteFailed,
)

__all__ = [
    "ApprovalInvalidRequest",
    "ApprovalInvalidSignature",
    "ApprovalNotFound",
    "ApprovalSigningKeyMissing",
    "ApprovalStaleTimestamp",
    "ApprovalToolExecuteFailed",
    "Decision",
    "Entries",
    "Entry",
    "Outcome",
    "Tool",
    "cancel",
    "get",
    "list",
    "request",
    "tool",
    "verify",
]
