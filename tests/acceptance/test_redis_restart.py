"""A Redis that restarts under a busy worker; a Redis of the test's own, on a free port."""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis
from celery import Celery
from kombu import Connection

from project import broker

pytestmark = [pytest.mark.services, pytest.mark.timeout(150)]

SECONDS_MAX = 40
LOG = "worker.log"
ROOT = Path(__file__).resolve().parents[2]


def wait_until(condition: Callable[[], object], what: str) -> None:
    """Return when the condition holds; fail the test after SECONDS_MAX."""
    give_up_at = time.monotonic() + SECONDS_MAX
    while not condition():
        if time.monotonic() > give_up_at:
            pytest.fail(f"waited {SECONDS_MAX} s in vain: {what}")
        time.sleep(0.05)


def answers(port: int) -> bool:
    try:
        return bool(redis.Redis(port=port, socket_connect_timeout=1).ping())
    except redis.RedisError:
        return False


@contextmanager
def running_redis(port: int, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a Redis that keeps its data in the folder."""
    command = ["redis-server", "--port", str(port), "--dir", str(folder), "--appendonly", "yes"]
    with subprocess.Popen([*command, "--save", ""], stdout=subprocess.DEVNULL) as process:
        try:
            wait_until(lambda: answers(port), "Redis answers")
            yield process
        finally:
            process.kill()


@contextmanager
def running_worker(url: str, *, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    environment = {**os.environ, "BROKER_URL": url}
    environment |= {"LOG_LEVEL": "INFO", "LOG_STYLE": "console"}
    command = [sys.executable, "-m", "celery", "-A", "tests.acceptance.lone_worker", "worker"]
    with (
        (folder / LOG).open("wb") as output,
        subprocess.Popen(
            [*command, "--concurrency", "1", "--without-mingle", "--loglevel", "INFO"],
            cwd=ROOT,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
        ) as process,
    ):
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(SECONDS_MAX)
            except subprocess.TimeoutExpired:
                process.kill()


@pytest.fixture
def port() -> int:
    if shutil.which("redis-server") is None:
        pytest.fail("redis-server is not installed; this test restarts one of its own")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def kill_redis_under_a_countdown(port: int, folder: Path, sender: Celery) -> None:
    """Kill Redis while the worker holds a countdown that is not due, and return once it noticed."""
    log = folder / LOG
    with running_redis(port, folder) as first:
        sender.send_task("mark", args=[str(folder / "never")], countdown=3600)
        wait_until(lambda: "Task mark[" in log.read_text(), "the worker holds the countdown")
        first.kill()
        first.wait()
        wait_until(lambda: "Connection to broker lost" in log.read_text(), "the worker noticed")


@pytest.mark.promise("A3", "E4")
def test_a_worker_with_a_countdown_in_hand_outlives_a_restart_of_redis(
    port: int, tmp_path: Path
) -> None:
    """With kombu's emulated acknowledgements it would exit: they are off (`project/broker.py`)."""
    url = f"redis://127.0.0.1:{port}/0"
    with (
        Celery("sender", broker=url, set_as_current=False) as sender,
        running_worker(url, folder=tmp_path) as worker,
    ):
        kill_redis_under_a_countdown(port, tmp_path, sender)
        with running_redis(port, tmp_path):
            sender.send_task("mark", args=[str(tmp_path / "after")])
            wait_until(
                lambda: (tmp_path / "after").exists() or worker.poll() is not None,
                "the worker takes the next task",
            )
            assert worker.poll() is None, (tmp_path / LOG).read_text()


@pytest.mark.promise("A3", "E4")
def test_a_message_that_is_done_while_redis_is_away_is_in_hand_no_more(
    port: int, tmp_path: Path
) -> None:
    """Field report CEL-05: a worker that counts it for ever takes no other message."""
    url = f"redis://127.0.0.1:{port}/0"
    options = broker.transport_options(url)
    with running_redis(port, tmp_path) as server, Connection(url, transport_options=options) as to:
        queue = to.SimpleQueue("work")
        queue.put({})
        message = queue.get(timeout=SECONDS_MAX)
        channel: Any = queue.channel
        channel.basic_qos(0, 1, apply_global=False)
        assert not channel.qos.can_consume()
        server.kill()
        server.wait()
        message.ack()
        assert channel.qos.can_consume()
