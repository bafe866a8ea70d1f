"""What a request of a run is about: a tool call. The agents' side of `hitl/subjects.py`.

`adopt` is the only writer of a call's arguments after they were saved: it runs in the transaction
that settles the request, which holds the run's row.
"""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.db.models import F
from django.utils.functional import SimpleLazyObject

from agents import agent
from agents.agent import AgentNotFound
from agents.context import ToolContext
from agents.guardrails import rulebook
from agents.guardrails.judging import judge
from agents.guardrails.subjects import Action, Subject, Where
from agents.models import Run, Thread, ToolCall
from agents.states import FINAL, Phase
from agents.tools import InvalidArguments, Tool
from hitl import redaction
from hitl.finding import as_uuid
from hitl.models import Park
from hitl.subjects import InvalidEdit, Revision


class CallSubject:
    """Tells about the tool call behind a request, and changes its arguments."""

    def schema(self, park: Park) -> dict[str, Any]:
        """Return the schema of the tool's arguments by our names; empty when the tool is gone."""
        call = _call(park)
        tool = _tool(park, call) if call is not None else None
        return tool.schema_by_name if tool is not None else {}

    def exact(self, park: Park) -> Any:
        """Return the arguments without masks."""
        call = _call(park) if park.redacted else None
        return park.arguments if call is None else call.arguments

    def revise(self, park: Park, arguments: dict[str, Any]) -> Revision:
        """Check edited arguments by the tool's schema and judge them anew (A9)."""
        call = _call(park)
        tool = _tool(park, call) if call is not None else None
        if call is None or tool is None or tool.digest(call.arguments) != call.digest:
            raise InvalidEdit("The tool has changed or is gone, so its arguments cannot be edited.")
        if not isinstance(arguments, dict):
            raise InvalidEdit("The arguments must be an object with a name for each value.")
        wanted = redaction.unmask(arguments, call.arguments, call.redacted)
        try:
            exact = tool.revalidate(wanted)
        except InvalidArguments as error:
            raise InvalidEdit(str(error)) from error
        rule = _broken_rule(park, call, tool, exact)
        names = call.arguments.keys() | exact.keys()
        changed = sorted(name for name in names if call.arguments.get(name) != exact.get(name))
        return Revision(
            exact=exact,
            shown=redaction.mask(exact, call.redacted),
            digest=tool.digest(exact),
            detail={
                "changed": changed,
                "gated": tool.needs_approval(exact, _context(park, call)),
                **({"rule": rule} if rule else {}),
            },
        )

    def adopt(self, park: Park, revision: Revision) -> None:
        """Let the call run with the edited arguments; the model's own are kept beside them."""
        here = ToolCall.objects.filter(id=park.subject, phase=Phase.OPEN)
        written = here.update(
            arguments=revision.exact, proposed=F("arguments"), digest=revision.digest
        )
        assert written == 1, "a call whose gate was pending has not begun"

    def evidence(self, park: Park) -> dict[str, Any] | None:
        """Return what is kept of the call: what was proposed, what ran, and how it ended."""
        call = _call(park)
        if call is None:
            return None
        return {
            "tool_call_id": str(call.id),
            "run_id": str(call.run_id),
            "tool": call.tool_name,
            "tool_id": call.tool_id,
            "proposed_arguments": redaction.mask(call.proposed, call.redacted),
            "arguments": call.shown_arguments,
            "digest": call.digest,
            "phase": call.phase,
            "outcome": call.outcome,
            "done_at": call.done_at.isoformat() if call.done_at is not None else None,
        }

    def owner(self, park: Park) -> Any | None:
        """Return the owner of the thread that asks."""
        thread = Thread.objects.select_related("owner").filter(id=park.scope).first()
        return thread.owner if thread is not None else None

    def over(self, waiter_ids: Iterable[UUID]) -> set[UUID]:
        """Return the runs that have ended, or are gone."""
        asked = set(waiter_ids)
        active = Run.objects.filter(id__in=asked).exclude(status__in=FINAL)
        return asked - set(active.values_list("id", flat=True))


def _call(park: Park) -> ToolCall | None:
    call_id = as_uuid(park.subject)
    return None if call_id is None else ToolCall.objects.filter(id=call_id).first()


def _tool(park: Park, call: ToolCall) -> Tool | None:
    """Return the tool that would run, if its agent still has it under the same id."""
    try:
        tool = agent.get(park.asker).tool(call.tool_name)
    except AgentNotFound:
        return None
    return tool if tool is not None and tool.id == call.tool_id else None


def _broken_rule(park: Park, call: ToolCall, tool: Tool, exact: dict[str, Any]) -> str:
    """Return the guardrail that these arguments break and that a person may let pass.

    Raises InvalidEdit for one that blocks them, or would run something else than was approved.
    """
    asked = Subject(
        Where.TOOL_CALL,
        park.asker,
        tool=call.tool_name,
        arguments=exact,
        typed=tool.typed(exact),
    )
    verdict = judge(rulebook.current(), asked).verdict
    if verdict is None:
        return ""
    if verdict.action != Action.REQUIRE_APPROVAL:
        raise InvalidEdit(f"The guardrail {verdict.rule!r} forbids these arguments.")
    return verdict.rule


def _context(park: Park, call: ToolCall) -> ToolContext:
    return ToolContext(
        thread_id=park.scope,
        run_id=call.run_id,
        tool_call_id=call.id,
        idempotency_key=f"sayso:{call.id}",
        agent=park.asker,
        depth=park.asker_depth,
        user=SimpleLazyObject(lambda: CallSubject().owner(park)),
    )
