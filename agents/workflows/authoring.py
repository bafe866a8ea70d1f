"""What a project writes in `workflows.py`: steps and workflows, checked when they are defined.

    @step(retries=3)
    def issue_refund(order_id: str, amount: float) -> str: ...

    @workflow
    async def refund(order_id: str, amount: float) -> dict: ...

A workflow is found again after any restart by its name, which is unique in the project. Touches the
register of this process and nothing else.
"""

import functools
import inspect
import types
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin, overload
from uuid import UUID

from pydantic import TypeAdapter

from agents.arguments import InvalidArguments
from agents.signatures import Signature, ToolDefinitionError
from agents.states import OnDoubt
from agents.workflows import replay
from agents.workflows.awaiting import StepCall
from agents.workflows.errors import InvalidInput, WorkflowDefinitionError, WorkflowNotFound
from hitl import display, durations, values
from hitl.errors import NotJson, TooLarge

if TYPE_CHECKING:
    from agents.models import Run
    from agents.tools import Tool

NAME_CHARS_MAX = 200
WORKFLOW_CHARS_MAX = 100
RESERVED = frozenset({"idempotency_key"})
PLAIN = frozenset({str, int, float, bool, type(None), dict, list, Any, object, inspect._empty})
RETRIES = 3
BACKOFF = timedelta(seconds=1)
BACKOFF_MAX = timedelta(minutes=5)

_steps: dict[str, "Step"] = {}
_workflows: dict[str, "Workflow"] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class StepContext:
    """The call that a step serves; a step asks for it with a parameter annotated `StepContext`.

    `idempotency_key` stays the same when the step is tried again: pass it on to whatever must not
    act twice. `attempt` counts from 1. Every field has a default, for unit tests.
    """

    idempotency_key: str = ""
    attempt: int = 1
    run_id: UUID | None = None
    workflow: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How a step is tried again, bounded and placed."""

    retries: int = RETRIES
    backoff: timedelta = BACKOFF
    backoff_max: timedelta = BACKOFF_MAX
    timeout: timedelta | None = None
    on_doubt: OnDoubt = OnDoubt.RETRY
    queue: str = ""


class Step:
    """A function with side effects. Called in a body it is a request, elsewhere it just runs."""

    __name__: str

    def __init__(self, function: Callable[..., Any], name: str | None, policy: Policy) -> None:
        _check(function, "Step")
        functools.update_wrapper(self, function)
        self.function = function
        self.name = _checked_name(name or f"{function.__module__}.{function.__qualname__}")
        self.policy = policy
        self._signature = _signature(function, "Step", context=StepContext, is_typed=False)
        self._binding = _without(inspect.signature(function), self._signature.context_name)
        self._output = _adapter(function)
        _steps[self.name] = self

    def __repr__(self) -> str:
        return f"<Step {self.name}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not replay.is_in_body():
            return self.function(*args, **kwargs)
        return StepCall(self, self._binding.bind(*args, **kwargs).arguments)

    def arguments(self, kept: dict[str, Any], context: StepContext) -> dict[str, Any]:
        """Return what the function is called with. Raises InvalidArguments."""
        read = self._signature.arguments.read(values.dumps(kept))
        typed = self._signature.arguments.restore(read)
        if self._signature.context_name is not None:
            typed[self._signature.context_name] = context
        return typed

    def restore_output(self, output: Any) -> Any:
        """Return a kept output as the body sees it: of the annotated type, or JSON."""
        return output if self._output is None else self._output.validate_python(output)


class Workflow:
    """A body that is replayed over its journal. `start` begins a run of it.

    A second workflow of the same name replaces the first.
    """

    __name__: str

    def __init__(self, function: Callable[..., Any], name: str | None) -> None:
        _check(function, "Workflow")
        if not inspect.iscoroutinefunction(function):
            raise WorkflowDefinitionError(
                f"Workflow {function.__name__} is not async; write async def, and put what calls "
                f"out into a @step."
            )
        functools.update_wrapper(self, function)
        self.function = function
        self.name = _checked_name(name or function.__name__, chars_max=WORKFLOW_CHARS_MAX)
        signature = _signature(function, "Workflow", context=_Nothing, is_typed=True)
        self.parameters = signature.parameters
        self.description = signature.description
        self.version = _version(function)
        self._arguments = signature.arguments
        self._binding = inspect.signature(function)
        for taken in RESERVED & set(self._binding.parameters):
            raise WorkflowDefinitionError(
                f"Workflow {self.name}: the parameter {taken!r} is what start() takes for "
                f"itself; call it something else."
            )
        _workflows[self.name] = self

    def __repr__(self) -> str:
        return f"<Workflow {self.name}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, Any]:
        """Return the bare body, to be awaited as a part of another workflow's body."""
        body: Coroutine[Any, Any, Any] = self.function(*args, **kwargs)
        return body

    def start(self, *args: Any, idempotency_key: str | None = None, **kwargs: Any) -> "Run":
        """Start a run with this input and return it; its body runs on a worker.

        The same `idempotency_key` (up to 200 characters) returns the run that it began, whatever
        the input. Joins the caller's transaction: nothing runs before it commits. Raises
        InvalidInput before any row is written.
        """
        from agents.workflows import verbs

        return verbs.start(self, self.read(*args, **kwargs), idempotency_key=idempotency_key)

    def as_tool(
        self,
        *,
        name: str | None = None,
        description: str | None = None,
        ttl: str | timedelta | float = "7d",
    ) -> "Tool":
        """Return a tool with which an agent starts this workflow and waits for its output.

        The agent's run parks meanwhile, for at most `ttl`. `name` and `description` are what the
        model sees (default: the workflow's). In `Agent(tools=[…])` the workflow itself will do.
        """
        from agents.workflows import offering

        return offering.as_tool(self, name=name, description=description, ttl=ttl)

    def read(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return this input as it is stored, checked and complete. Raises InvalidInput."""
        try:
            given = self._binding.bind(*args, **kwargs).arguments
            return self._arguments.read(values.dumps(values.clean(given)))
        except TypeError as error:
            raise InvalidInput(f"{self.name}: {error}.") from error
        except (InvalidArguments, NotJson, TooLarge) as error:
            raise InvalidInput(f"{self.name}: {error}") from error

    def body(self, kept: dict[str, Any]) -> Coroutine[Any, Any, Any]:
        """Return the body for a stored input, not begun. Raises InvalidArguments."""
        body: Coroutine[Any, Any, Any] = self.function(**self._arguments.restore(kept))
        return body


class _Nothing:
    """Workflows have no context parameter: whatever they need to know is recorded."""


@overload
def step(function: Callable[..., Any], /) -> Step: ...


@overload
def step(
    *,
    name: str | None = None,
    retries: int = RETRIES,
    backoff: str | timedelta | float = BACKOFF,
    backoff_max: str | timedelta | float = BACKOFF_MAX,
    timeout: str | timedelta | float | None = None,
    on_doubt: str = "retry",
    queue: str | None = None,
) -> Callable[[Callable[..., Any]], Step]: ...


def step(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    retries: int = RETRIES,
    backoff: str | timedelta | float = BACKOFF,
    backoff_max: str | timedelta | float = BACKOFF_MAX,
    timeout: str | timedelta | float | None = None,
    on_doubt: str = "retry",
    queue: str | None = None,
) -> Any:
    """Make a step of a function, sync or async; used with or without options.

    What it returns is kept as JSON, and the step never runs again once it is. A step that raises is
    tried again up to `retries` times (default 3), after `backoff` (default "1s"), doubling up to
    `backoff_max` (default "5m"), with jitter, or after what RetryableError asks for; FatalError is
    never tried again. `timeout` bounds one attempt: an async step is cancelled, a sync one is
    interrupted where it runs in a process's main thread. `on_doubt` says what happens when a worker
    died inside it: "retry" (default), "ask" a person, or "fail". `queue` names the Celery queue for
    steps that run in parallel. `name` is its identity in journals (default: its dotted path).
    Raises WorkflowDefinitionError, BadDuration.
    """
    if function is not None:
        return Step(function, None, Policy())
    if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
        raise WorkflowDefinitionError(f"retries={retries!r}; write a whole number from 0.")
    if on_doubt not in tuple(OnDoubt):
        raise WorkflowDefinitionError(f'on_doubt={on_doubt!r}; write "retry", "ask" or "fail".')
    policy = Policy(
        retries=retries,
        backoff=durations.parse(backoff),
        backoff_max=durations.parse(backoff_max),
        timeout=None if timeout is None else durations.parse(timeout),
        on_doubt=OnDoubt(on_doubt),
        queue=queue or "",
    )
    return lambda function: Step(function, name, policy)


@overload
def workflow(function: Callable[..., Any], /) -> Workflow: ...


@overload
def workflow(*, name: str | None = None) -> Callable[[Callable[..., Any]], Workflow]: ...


def workflow(function: Callable[..., Any] | None = None, /, *, name: str | None = None) -> Any:
    """Make a workflow of an async function; used with or without options.

    `name` is its identity for good (default: the function's name). Raises WorkflowDefinitionError.
    """
    if function is not None:
        return Workflow(function, None)
    return lambda function: Workflow(function, name)


def get(name: str) -> Workflow:
    """Return the workflow of this name. Raises WorkflowNotFound, which names those known."""
    try:
        return _workflows[name]
    except KeyError:
        known = display.listed(_workflows)
        raise WorkflowNotFound(
            f"There is no workflow {name!r}; known are: {known}. Define it in the workflows.py of "
            f"an installed app."
        ) from None


def every() -> list[Workflow]:
    """Return all workflows that are known, by name."""
    return [_workflows[name] for name in sorted(_workflows)]


def get_step(name: str) -> Step | None:
    """Return the step of this name; None when it has left the code."""
    return _steps.get(name)


def _signature(function: Callable[..., Any], what: str, **options: Any) -> Signature:
    try:
        return Signature(function, what=what, **options)
    except ToolDefinitionError as error:
        raise WorkflowDefinitionError(str(error)) from error


def _without(signature: inspect.Signature, name: str | None) -> inspect.Signature:
    """Return what a body gives to a step: everything but its context."""
    given = [one for one in signature.parameters.values() if one.name != name]
    return signature.replace(parameters=given)


def _check(function: object, what: str) -> None:
    if isinstance(function, Step | Workflow):
        raise WorkflowDefinitionError(f"{function!r} is decorated already; decorate it once.")
    if not inspect.isfunction(function):
        raise WorkflowDefinitionError(f"{what}: {function!r} is not a function.")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise WorkflowDefinitionError(f"{what} {function.__name__} yields; return one value.")


def _checked_name(name: str, *, chars_max: int = NAME_CHARS_MAX) -> str:
    if not isinstance(name, str) or not name.isprintable() or not 0 < len(name) <= chars_max:
        raise WorkflowDefinitionError(
            f"{name!r} cannot be a name; write 1 to {chars_max} printable characters."
        )
    return name


def _adapter(function: Callable[..., Any]) -> TypeAdapter[Any] | None:
    """Return what restores an output whose annotated type is more than JSON."""
    try:
        annotation = inspect.signature(function, eval_str=True).return_annotation
        return None if _is_plain(annotation) else TypeAdapter(annotation)
    except Exception:  # a type that cannot be read, or restored: the body sees JSON
        return None


def _is_plain(annotation: Any) -> bool:
    """Tell whether JSON is all that a type can be."""
    origin = get_origin(annotation)
    if origin in (dict, list, Union, types.UnionType):
        return all(map(_is_plain, get_args(annotation)))
    return origin is None and annotation in PLAIN


def _version(function: Callable[..., Any]) -> str:
    """Return a short hash of the body's source, which tells what a run was started with."""
    try:
        source = inspect.getsource(function)
    except (OSError, TypeError):
        source = function.__code__.co_code.hex()
    return values.digest(source).removeprefix("sha256:")[:12]
