"""The portal: one loop for all threads, a new one after a fork, and calls that can be given up."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from agents.llm import portal
from agents.llm.errors import RequestCancelled


async def answer(value: Any) -> Any:
    return value


async def own_loop() -> tuple[int, int]:
    await asyncio.sleep(0)
    return id(asyncio.get_running_loop()), threading.get_ident()


class Waiting:
    """A coroutine that waits to be cancelled, and tells of its start and its end."""

    def __init__(self) -> None:
        self.started = threading.Event()
        self.cancelled = threading.Event()

    async def run(self) -> None:
        self.started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise


def test_it_returns_what_the_coroutine_returns() -> None:
    assert portal.run(answer(42)) == 42


def test_it_raises_what_the_coroutine_raises() -> None:
    async def fail() -> None:
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        portal.run(fail())


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, BaseException])
def test_what_is_no_exception_reaches_the_caller_and_the_loop_lives_on(
    kind: type[BaseException],
) -> None:
    """Suspension is a `BaseException`; `sys.exit()` in a tool ends neither loop nor worker."""

    async def leave() -> None:
        raise kind("leaving")

    before = portal.run(own_loop())
    with pytest.raises(kind, match="leaving"):
        portal.run(leave())
    assert portal.run(own_loop()) == before


def test_a_timeout_of_the_coroutine_is_no_timeout_of_the_wait() -> None:
    async def too_slow() -> None:
        async with asyncio.timeout(0.15):
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        portal.run(too_slow(), cancelled=lambda: False)


def test_all_threads_share_one_loop() -> None:
    with ThreadPoolExecutor(16) as pool:
        found = set(pool.map(lambda _: portal.run(own_loop()), range(200)))
    [(_, thread)] = found
    assert thread != threading.get_ident()


@pytest.mark.promise("H8")
def test_a_call_is_given_up_once_its_run_is_stopped() -> None:
    waiting = Waiting()
    with pytest.raises(RequestCancelled):
        portal.run(waiting.run(), cancelled=waiting.started.is_set)
    assert waiting.cancelled.wait(30)


@pytest.mark.promise("H8")
def test_a_run_that_is_stopped_already_starts_no_call() -> None:
    waiting = Waiting()
    with pytest.raises(RequestCancelled):
        portal.run(waiting.run(), cancelled=lambda: True)
    portal.run(answer(None))  # the loop has been round
    assert not waiting.started.is_set()


def test_a_result_that_is_there_is_not_thrown_away_by_a_stop() -> None:
    loops: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []
    asked = 0

    async def wait_for_it() -> str:
        event = asyncio.Event()
        loops.append((asyncio.get_running_loop(), event))
        await event.wait()
        return "paid for"

    def stopped_as_it_answers() -> bool:
        nonlocal asked
        asked += 1
        if asked == 1:
            return False
        loop, event = loops[0]
        loop.call_soon_threadsafe(event.set)
        portal.run(go_round())
        return True

    async def go_round() -> None:
        for _ in range(10):
            await asyncio.sleep(0)

    assert portal.run(wait_for_it(), cancelled=stopped_as_it_answers) == "paid for"
    assert asked == 2


def test_a_question_that_fails_gives_the_call_up() -> None:
    waiting = Waiting()

    def lease_lost() -> bool:
        if waiting.started.is_set():
            raise LookupError("lease lost")
        return False

    with pytest.raises(LookupError, match="lease lost"):
        portal.run(waiting.run(), cancelled=lease_lost)
    assert waiting.cancelled.wait(30)


def test_a_question_that_fails_at_once_starts_no_call() -> None:
    waiting = Waiting()

    def lease_lost() -> bool:
        raise LookupError("lease lost")

    with pytest.raises(LookupError):
        portal.run(waiting.run(), cancelled=lease_lost)
    assert not waiting.started.is_set()


@pytest.mark.parametrize("moment", range(20))
def test_a_soft_time_limit_gives_the_call_up(moment: int) -> None:
    """Celery raises it in the waiting thread from a signal handler, at any moment."""

    class SoftTimeLimitExceeded(Exception):
        pass

    def limit(*_: object) -> None:
        raise SoftTimeLimitExceeded

    waiting = Waiting()

    async def run_into_the_limit() -> None:
        os.kill(os.getpid(), signal.SIGUSR1)
        await waiting.run()

    before = signal.signal(signal.SIGUSR1, limit)
    try:
        with pytest.raises(SoftTimeLimitExceeded):
            portal.run(run_into_the_limit())
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert waiting.cancelled.wait(30)


def test_a_coroutine_that_cancels_itself_is_a_cancelled_request() -> None:
    async def give_up() -> None:
        raise asyncio.CancelledError

    with pytest.raises(RequestCancelled):
        portal.run(give_up())


def test_it_works_inside_a_running_loop_and_in_its_thread_pool() -> None:
    async def page() -> list[Any]:
        inside = portal.run(answer("inside"))
        pooled = [asyncio.to_thread(portal.run, answer(number)) for number in range(20)]
        return [inside, *await asyncio.gather(*pooled)]

    assert asyncio.run(page()) == ["inside", *range(20)]


def test_calling_it_on_its_own_loop_fails_rather_than_hang() -> None:
    async def call_again() -> None:
        portal.run(answer(1))

    with pytest.raises(RuntimeError, match="own loop"):
        portal.run(call_again())
    assert portal.run(answer(2)) == 2


FORK = """
import os, threading
from agents.llm import portal

async def where():
    return threading.get_ident()

async def stuck():
    started.set()
    import asyncio
    await asyncio.Event().wait()

before = portal.run(where())
started = threading.Event()
threading.Thread(target=portal.run, args=(stuck(),), daemon=True).start()
started.wait()
if HELD:
    portal._portal._starting.acquire()
children = []
for _ in range(3):
    child = os.fork()
    if child == 0:
        fine = [portal.run(where()) for _ in range(3)] and portal.run(where()) != 0
        os._exit(0 if fine else 1)
    children.append(child)
codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
if HELD:
    portal._portal._starting.release()
assert codes == [0, 0, 0], codes
assert portal.run(where()) == before
print("fine")
os._exit(0)
"""


@pytest.mark.parametrize("held", [False, True], ids=["free", "lock held"])
def test_a_forked_child_has_a_loop_of_its_own(held: bool) -> None:
    """A prefork worker's parent may have used the portal, and may be using it at the fork."""
    script = (
        f"import faulthandler; faulthandler.dump_traceback_later(30, exit=True)\nHELD = {held}\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script + FORK],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr
