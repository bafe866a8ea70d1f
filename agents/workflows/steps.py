"""Running one step: what it is given, and what becomes of whatever it returns or raises.

Touches no rows. Called outside of any transaction, by a segment or by a task of its own.
"""

import asyncio
import contextlib
import inspect
import logging
import random
import signal
import threading
from collections.abc import Awaitable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from celery.exceptions import WorkerShutdown, WorkerTerminate

from agents.arguments import InvalidArguments
from agents.lease import LeaseLost, StopLanded
from agents.llm import portal
from agents.workflows import authoring
from agents.workflows.authoring import Policy, Step, StepContext
from agents.workflows.errors import FatalError, OutsideBody, RetryableError
from hitl import durations, faults, values
from hitl.errors import BadDuration, NotJson, TooLarge

logger = logging.getLogger(__name__)

ERROR_CHARS_MAX = 4000
JITTER = 0.2
FATAL = (FatalError, OutsideBody, InvalidArguments)
PASSES_THROUGH = (
    *(LeaseLost, StopLanded, faults.Crash),
    *(KeyboardInterrupt, WorkerShutdown, WorkerTerminate),
)


class StepTimedOut(Exception):
    """The step took longer than its timeout."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How an attempt ended: with a result, or an error; `again_in` says that it is to be tried."""

    result: Any = None
    error: dict[str, str] | None = None
    again_in: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at a step: what the journal knows of it."""

    entry_id: UUID
    run_id: UUID
    workflow: str
    name: str
    arguments: dict[str, Any]
    attempt: int
    failures: int


def run(attempt: Attempt) -> Ended:
    """Run a claimed step once. Whatever it raises ends the attempt and nothing else."""
    step = authoring.get_step(attempt.name)
    if step is None:
        return Ended(error={"type": "StepNotFound", "text": f"There is no step {attempt.name!r}."})
    context = StepContext(
        idempotency_key=f"sayso:{attempt.entry_id}",
        attempt=attempt.attempt,
        run_id=attempt.run_id,
        workflow=attempt.workflow,
    )
    faults.point("step:claimed")
    try:
        returned = _call(step, step.arguments(attempt.arguments, context))
        result = values.clean(returned)
    except PASSES_THROUGH:
        raise
    except (NotJson, TooLarge) as error:  # it has happened: trying again would do it twice
        return Ended(error=_error(error))
    except BaseException as error:
        logger.warning(
            "run %s: step %s raised %s",
            attempt.run_id,
            attempt.name,
            type(error).__name__,
            exc_info=True,
        )
        return Ended(error=_error(error), again_in=_again_in(error, step.policy, attempt.failures))
    faults.point("step:returned")
    return Ended(result=result)


def _call(step: Step, arguments: dict[str, Any]) -> Any:
    limit = step.policy.timeout
    with _alarm(limit):
        returned = step.function(**arguments)
    if not inspect.isawaitable(returned):
        return returned
    return portal.run(_within(returned, limit))


async def _within(awaitable: Awaitable[Any], limit: timedelta | None) -> Any:
    try:
        async with asyncio.timeout(None if limit is None else limit.total_seconds()) as bound:
            return await awaitable
    except TimeoutError:
        if bound.expired():
            raise StepTimedOut(_late(limit)) from None
        raise


@contextlib.contextmanager
def _alarm(limit: timedelta | None) -> Iterator[None]:
    """Interrupt a function that takes too long, where the process lets its main thread do so."""
    can = threading.current_thread() is threading.main_thread() and hasattr(signal, "setitimer")
    if limit is None or not can:
        yield
        return

    def interrupt(*_: object) -> None:
        raise StepTimedOut(_late(limit))

    before: Any = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, limit.total_seconds())
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _late(limit: timedelta | None) -> str:
    return f"It took longer than {durations.spell(limit or timedelta())}."


def _again_in(error: BaseException, policy: Policy, failures: int) -> timedelta | None:
    """Return when to try again: what the error asks for, or doubling with jitter; None for never.

    `failures` are those before this one.
    """
    if failures >= policy.retries or isinstance(error, FATAL) or not isinstance(error, Exception):
        return None
    if isinstance(error, RetryableError) and error.retry_after is not None:
        with contextlib.suppress(BadDuration):
            return durations.parse(error.retry_after)
    doubled = min(policy.backoff * 2 ** min(failures, 30), policy.backoff_max)
    return doubled * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311


def _error(error: BaseException) -> dict[str, str]:
    return {
        "type": type(error).__name__,
        "text": values.clean_text(str(error), chars_max=ERROR_CHARS_MAX),
    }
