"""Tools: typed functions that a model may call, and the mark that makes a person be asked first.

    @requires_confirmation(when=lambda args, ctx: args["amount"] > 100, ttl="5m")
    @tool(id="refund.v1")
    def issue_refund(order_id: str, amount: float) -> str:
        \"\"\"Pay the money back.\"\"\"

Whatever is wrong with a definition raises ToolDefinitionError here, at import. Touches nothing.
"""

import copy
import functools
import inspect
import logging
import re
from collections.abc import Awaitable, Callable, Iterable
from datetime import timedelta
from typing import Any, Protocol, overload, runtime_checkable

from agents.arguments import InvalidArguments
from agents.context import ToolContext
from agents.gates import Gate, Predicate, Summary
from agents.llm import portal
from agents.llm.messages import ToolSpec
from agents.signatures import Signature, ToolDefinitionError
from agents.states import OnDoubt
from hitl import approvers, durations, redaction, values
from hitl.values import JSON

__all__ = [
    "Gate",
    "InvalidArguments",
    "Tool",
    "ToolDefinitionError",
    "requires_confirmation",
    "tool",
]

logger = logging.getLogger(__name__)

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")  # what all providers accept
ID_CHARS_MAX = 200


class Tool:
    """A function that a model may call. Calling the tool itself runs the bare function, ungated.

    `id` stays the same when the name that the model sees changes; marks and digests go by it.
    `parameters` is the JSON schema shown to the model, `schema_version` a short hash of it.
    `parks_itself` tells whether the function names `park_for_input`; one that parks through
    another function does not.
    """

    __name__: str

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        id: str | None = None,  # noqa: A002
        name: str | None = None,
        description: str | None = None,
        on_doubt: str | None = None,
        parallel: bool = False,
        redact: Iterable[str] = (),
    ) -> None:
        _check_function(function)
        signature = Signature(function)
        functools.update_wrapper(self, function)
        self.function = function
        self.id = _checked_id(id or f"{function.__module__}.{function.__qualname__}", function)
        self.name = _checked_name(name or function.__name__)
        self.description = (description or signature.description).strip()
        if not self.description:
            raise ToolDefinitionError(
                f"Tool {self.name} has no docstring; the model needs to know what it does."
            )
        self.parameters = signature.parameters
        self.schema_version = signature.version
        self.gate: Gate | None = None
        self.parallel = parallel
        self.redact = _checked_redact(self.name, redact, signature)
        self.parks_itself = _names_park(function)
        self._signature = signature
        self._on_doubt = _checked_on_doubt(self.name, on_doubt)

    def __repr__(self) -> str:
        return f"<Tool {self.name}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    @property
    def on_doubt(self) -> OnDoubt:
        """What happens to a call whose worker died inside it; "ask" unless set when gated."""
        return self.doubt(gated=self.gate is not None)

    def doubt(self, *, gated: bool) -> OnDoubt:
        """The same for one call: a guardrail may gate calls of a tool that has no mark."""
        return self._on_doubt or (OnDoubt.ASK if gated else OnDoubt.RETRY)

    @property
    def spec(self) -> ToolSpec:
        """The tool as it is offered to a model."""
        return ToolSpec(self.name, self.description, self.parameters)

    def renamed(self, name: str, *, description: str | None = None) -> "Tool":
        """Return the same tool under another name for the model; id, mark and digests stay."""
        other = copy.copy(self)
        other.name = _checked_name(name)
        other.description = description or self.description
        return other

    def validate(self, raw_text: str) -> dict[str, JSON]:
        """Return the arguments a model wrote as plain JSON, checked, with all defaults.

        Raises InvalidArguments with a sentence for the model.
        """
        return self._signature.arguments.read(raw_text, hidden=self.redact)

    def revalidate(self, arguments: dict[str, JSON]) -> dict[str, JSON]:
        """Return arguments that a person has edited, by our names, checked as a model's are.

        Raises InvalidArguments with a sentence for the person.
        """
        return self._signature.arguments.review(arguments)

    @property
    def schema_by_name(self) -> dict[str, Any]:
        """The JSON schema of the arguments with our names in place of those the model sees."""
        arguments = self._signature.arguments
        offered = self.parameters.get("properties", {})
        named = {
            name: offered.get(shown, {})
            for name, shown in zip(arguments.names, arguments.offered, strict=True)
        }
        return {**self.parameters, "properties": named}

    def digest(self, arguments: dict[str, JSON]) -> str:
        """Return the digest of these arguments to this tool as it is now: what a yes is for."""
        return values.digest(
            {"tool": self.id, "schema": self.schema_version, "arguments": arguments}
        )

    def typed(self, arguments: dict[str, JSON]) -> dict[str, Any]:
        """Return the values that the function would get for stored arguments, by name.

        Raises InvalidArguments when the function, as it is now, would get others.
        """
        return self._signature.arguments.restore(arguments)

    def needs_approval(self, arguments: dict[str, JSON], ctx: ToolContext) -> bool:
        """Tell whether a person is to confirm this call.

        The predicate is given the values that the function would get. One that raises, or returns
        anything but True or False, closes the gate, and the log says why.
        """
        if self.gate is None:
            return False
        try:
            typed = self._signature.arguments.restore(arguments)
        except InvalidArguments as error:
            logger.error("Tool %s: %s So the call is gated", self.id, error)
            return True
        return self.gate.closes(self.id, typed, ctx)

    def summarise(self, arguments: dict[str, JSON]) -> str:
        """Return one line on what this call will do; empty when the tool has nothing to say."""
        if self.gate is None or self.gate.summary is None:
            return ""
        try:
            typed = self._signature.arguments.restore(arguments)
        except InvalidArguments:
            return ""
        return self.gate.summarise(self.id, redaction.mask(typed, self.redact))

    def invoke(self, arguments: dict[str, JSON], ctx: ToolContext) -> object:
        """Run the function with stored arguments and return what it returns, as it is.

        Raises InvalidArguments, before anything ran, when the function as it is now would not get
        the values that were stored; beyond that whatever the function raises.
        """
        typed = self._signature.arguments.restore(arguments)
        if self._signature.context_name is not None:
            typed[self._signature.context_name] = ctx
        returned = self.function(**typed)
        if inspect.isawaitable(returned):
            return portal.run(_awaited(returned))
        return returned


@runtime_checkable
class Offering(Protocol):
    """What else an agent may be given as a tool: a workflow is one."""

    def as_tool(self) -> Tool:
        """Return the tool that stands for it."""


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...


@overload
def tool(
    *,
    id: str | None = None,
    name: str | None = None,
    description: str | None = None,
    on_doubt: str | None = None,
    parallel: bool = False,
    redact: Iterable[str] = (),
) -> Callable[[Callable[..., Any]], Tool]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    id: str | None = None,  # noqa: A002
    name: str | None = None,
    description: str | None = None,
    on_doubt: str | None = None,
    parallel: bool = False,
    redact: Iterable[str] = (),
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a tool of a typed function with a docstring; used with or without options.

    `id` is the tool's identity for good (default: its dotted path), `name` and `description` are
    what the model sees (default: the function's), `on_doubt` says what happens when a worker dies
    inside it: "ask", "fail" or "retry" (default: "ask" when gated, else "retry"). `parallel` says
    that free calls of one step may run side by side, each in a thread of its own. `redact` names
    arguments whose values few may see (O6). Raises ToolDefinitionError.
    """
    if function is not None:
        return Tool(function)
    return functools.partial(
        Tool,
        id=id,
        name=name,
        description=description,
        on_doubt=on_doubt,
        parallel=parallel,
        redact=redact,
    )


@overload
def requires_confirmation(marked: Tool, /) -> Tool: ...


@overload
def requires_confirmation(
    *,
    when: Predicate | None = None,
    ttl: str | timedelta | float | None = None,
    payload: str = "result",
    on_doubt: str | None = None,
    summary: Summary | None = None,
    approver: object = None,
    quorum: int | None = None,
    veto: bool = True,
    editable: bool = False,
    redact: Iterable[str] = (),
) -> Callable[[Tool], Tool]: ...


def requires_confirmation(
    marked: Tool | None = None,
    /,
    *,
    when: Predicate | None = None,
    ttl: str | timedelta | float | None = None,
    payload: str = "result",
    on_doubt: str | None = None,
    summary: Summary | None = None,
    approver: object = None,
    quorum: int | None = None,
    veto: bool = True,
    editable: bool = False,
    redact: Iterable[str] = (),
) -> Tool | Callable[[Tool], Tool]:
    """Mark a tool so that a person confirms its calls; stands above @tool, with or without options.

    Also called on a tool made elsewhere: the marked tool is returned, the given one stays as it
    was. `when(args, ctx)` picks the calls to confirm: `args` are the values that the function would
    get, by name and with defaults; if it raises or returns no bool, the call is confirmed. `ttl` is
    how long the question stays open ("5m", a timedelta, or milliseconds), `payload` is "result" or
    "context", `summary(args)` gives the person one line on what will happen. `approver` names who
    decides ("user:ana", "group:finance", a list, or a mapping to counts; default: whoever may),
    `quorum` how many have to approve, and without `veto` one "no" is not enough to deny (I8). With
    `editable` a reviewer may change the arguments before approving (A9). `redact` names arguments
    whose values are masked on cards, in events, logs and exports (O6).
    Raises ToolDefinitionError, BadDuration for `ttl`, or BadApprover.
    """
    if marked is not None:
        return _mark(marked, Gate(), None, ())
    gate = Gate(
        when=when,
        ttl=None if ttl is None else durations.parse(ttl),
        payload=payload,
        summary=summary,
        policy=approvers.policy(approver, quorum=quorum, veto=veto),
        editable=editable,
    )
    return functools.partial(
        _mark,
        gate=gate,
        on_doubt=_checked_on_doubt("requires_confirmation", on_doubt),
        redact=redact,
    )


def _mark(marked: object, gate: Gate, on_doubt: OnDoubt | None, redact: Iterable[str]) -> Tool:
    if not isinstance(marked, Tool):
        name = getattr(marked, "__name__", repr(marked))
        raise ToolDefinitionError(
            f"{name} is not a tool yet; write @requires_confirmation above @tool."
        )
    if marked.gate is not None:
        raise ToolDefinitionError(
            f"Tool {marked.name} requires confirmation already; mark it once, with all options."
        )
    other = copy.copy(marked)
    other.gate = gate
    other._on_doubt = on_doubt or marked._on_doubt
    other.redact = marked.redact | _checked_redact(marked.name, redact, marked._signature)
    return other


def _names_park(function: Callable[..., Any]) -> bool:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return code is not None and "park_for_input" in code.co_names


def _check_function(function: object) -> None:
    if isinstance(function, Tool):
        raise ToolDefinitionError(
            f"{function.name} is a tool already; write @tool once, right above the function, "
            f"and tool.renamed(…) for another name."
        )
    if not inspect.isfunction(function):
        raise ToolDefinitionError(f"{function!r} is not a function; write @tool above a def.")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ToolDefinitionError(
            f"Tool {function.__name__} yields; return one value, and report with ctx.emit(…)."
        )


def _checked_name(name: str) -> str:
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise ToolDefinitionError(
            f"{name!r} cannot be the name of a tool; give it name=… of up to 64 plain letters, "
            f"digits, _ and -."
        )
    return name


def _checked_id(id: str, function: Callable[..., Any]) -> str:  # noqa: A002
    if not isinstance(id, str) or not id.isprintable() or len(id) > ID_CHARS_MAX:
        raise ToolDefinitionError(
            f"Tool {function.__name__}: its id must be printable text of at most {ID_CHARS_MAX} "
            f"characters; give it id=…."
        )
    return id


def _checked_redact(where: str, redact: Iterable[str], signature: Signature) -> frozenset[str]:
    names = [redact] if isinstance(redact, str) else list(redact)
    known = signature.arguments.names
    if unknown := [name for name in names if name not in known]:
        raise ToolDefinitionError(
            f"Tool {where}: redact={unknown!r} is no argument of it; its arguments are "
            f"{', '.join(known) or 'none'}."
        )
    return frozenset(names)


def _checked_on_doubt(where: str, on_doubt: str | None) -> OnDoubt | None:
    if on_doubt is None:
        return None
    if on_doubt not in tuple(OnDoubt):
        raise ToolDefinitionError(
            f'{where}: on_doubt={on_doubt!r}; write "ask", "fail" or "retry".'
        )
    return OnDoubt(on_doubt)


async def _awaited(awaitable: Awaitable[Any]) -> Any:
    return await awaitable
