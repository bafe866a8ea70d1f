"""A workflow as a tool of an agent: the call starts it and parks; its end answers the call (W11).

The call's idempotency key is the run's, so a call that is made again after a crash finds the run
that it began.
"""

import inspect
from datetime import timedelta
from typing import Any

from agents.closing import OF_WORKFLOWS
from agents.context import ToolContext
from agents.parking import park_for_input
from agents.states import OnDoubt, RunStatus
from agents.tools import Tool
from agents.workflows import verbs
from agents.workflows.authoring import Workflow

CONTEXT = "tool_context"
REASON = "workflow"


class WorkflowFailed(Exception):
    """The workflow that a tool started has not ended well."""


def as_tool(
    workflow: Workflow,
    *,
    name: str | None,
    description: str | None,
    ttl: str | timedelta | float,
) -> Tool:
    """Return a tool with the workflow's parameters; see `Workflow.as_tool`."""

    def run_workflow(**given: Any) -> Any:
        context: ToolContext = given.pop(CONTEXT)
        if context.resumed:
            return _output(workflow, context)
        run = verbs.start(
            workflow,
            workflow.read(**given),
            idempotency_key=context.idempotency_key,
            parent_id=context.run_id,
            parent_key=str(context.tool_call_id),
        )
        shown = {"workflow": workflow.name, "run_id": str(run.id)}
        raise park_for_input(REASON, shown, ttl=ttl)

    own = inspect.signature(workflow.function)
    taken = inspect.Parameter(CONTEXT, inspect.Parameter.KEYWORD_ONLY, annotation=ToolContext)
    run_workflow.__wrapped__ = workflow.function  # type: ignore[attr-defined]
    run_workflow.__signature__ = own.replace(  # type: ignore[attr-defined]
        parameters=[*own.parameters.values(), taken]
    )
    run_workflow.__name__, run_workflow.__doc__ = workflow.__name__, workflow.function.__doc__
    return Tool(
        run_workflow,
        id=f"{OF_WORKFLOWS}{workflow.name}",
        name=name or workflow.name,
        description=description,
        on_doubt=OnDoubt.RETRY,
    )


def _output(workflow: Workflow, context: ToolContext) -> Any:
    """Return what the workflow returned, as the report tells it."""
    if context.approval is None:
        raise WorkflowFailed(f"The workflow {workflow.name} did not end in time; it may go on.")
    told = context.approval.payload
    if not isinstance(told, dict) or "status" not in told:
        return told  # somebody answered in its place
    if told["status"] != RunStatus.COMPLETED:
        said = f"{told['status']}: {told.get('error')}"
        raise WorkflowFailed(f"The workflow {workflow.name} ended {said}")
    return told["output"]
