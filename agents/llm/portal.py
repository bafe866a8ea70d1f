"""Async work from sync code: one event loop, in one thread, per process.

Model clients pool their connections on the loop they were first used on, so every coroutine of a
process runs on the same loop, whichever worker thread asks for it. A forked child starts a loop of
its own and leaves the parent's alone. Touches nothing but that thread.
"""

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future, InvalidStateError, wait
from typing import Any, TypeVar

from agents.llm.errors import RequestCancelled

T = TypeVar("T")

POLL_S = 0.1


def run(coroutine: Coroutine[Any, Any, T], *, cancelled: Callable[[], bool] | None = None) -> T:
    """Run the coroutine to its end on the process's loop and return its result.

    `cancelled` is asked before the start and then about every 0.1 s, in the calling thread; once
    it is true the coroutine is cancelled and `RequestCancelled` raised, unless the result is
    there already. An exception that reaches the caller while it waits, a soft time limit for one,
    cancels it too. Raises RuntimeError when called on the loop itself, which would wait for ever.
    """
    if threading.current_thread() is _portal.thread:
        coroutine.close()
        raise RuntimeError(
            "portal.run was called on the portal's own loop; await the coroutine there."
        )
    if cancelled is not None and _asked(cancelled, coroutine):
        coroutine.close()
        raise RequestCancelled
    outcome: Future[T] = Future()
    loop = _portal.loop()
    try:
        # Inside the try, since a signal handler may raise as soon as the coroutine is on its way.
        loop.call_soon_threadsafe(_start, coroutine, outcome)
        while not wait((outcome,), timeout=None if cancelled is None else POLL_S).done:
            if cancelled is not None and cancelled():
                break
    finally:
        outcome.cancel()  # does nothing once there is a result
    try:
        return outcome.result()
    except CancelledError:
        raise RequestCancelled from None


def _asked(cancelled: Callable[[], bool], coroutine: Coroutine[Any, Any, Any]) -> bool:
    try:
        return cancelled()
    except BaseException:
        coroutine.close()
        raise


def _start(coroutine: Coroutine[Any, Any, T], outcome: "Future[T]") -> None:
    """On the loop: run the coroutine, and cancel it when its outcome is no longer waited for."""
    if outcome.cancelled():
        coroutine.close()
        return
    loop = asyncio.get_running_loop()
    task = loop.create_task(coroutine)
    task.add_done_callback(lambda _: _hand_over(task, outcome))
    outcome.add_done_callback(
        lambda _: loop.call_soon_threadsafe(task.cancel) if outcome.cancelled() else None
    )


def _hand_over(task: "asyncio.Task[T]", outcome: "Future[T]") -> None:
    error = RequestCancelled() if task.cancelled() else task.exception()
    with contextlib.suppress(InvalidStateError):  # given up at this very moment
        if error is None:
            outcome.set_result(task.result())
        else:
            outcome.set_exception(error)


class _Portal:
    """The loop and its thread, started at the first use."""

    def __init__(self) -> None:
        self.thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._starting = threading.Lock()

    def loop(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self.thread = threading.Thread(
                    target=_run_for_ever, args=(self._loop,), name="agents-portal", daemon=True
                )
                self.thread.start()
            return self._loop


def _run_for_ever(loop: asyncio.AbstractEventLoop) -> None:
    while True:
        # asyncio lets these two end the loop, though they are handed to the caller as well: a tool
        # that calls sys.exit() must not leave all that come after it without a loop.
        with contextlib.suppress(SystemExit, KeyboardInterrupt):
            loop.run_forever()


_portal = _Portal()
_of_parents: list[_Portal] = []


def _start_anew() -> None:
    """In a forked child: the parent's thread is not here, and its lock may be held for ever.

    The parent's loop is kept, unused, so that no finaliser touches what both processes share.
    """
    global _portal
    _of_parents.append(_portal)
    _portal = _Portal()


os.register_at_fork(after_in_child=_start_anew)
