"""Checks of the broker and of the workers behind it, each within a bounded time.

A broker that hangs takes the connection and says nothing, and not every transport has a timeout for
that. So each check asks from a thread that it stops waiting for.
"""

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from celery import current_app
from kombu import Connection

from hitl.doctor.examination import Verdict, check, fail, ok, skip, warn

T = TypeVar("T")

CONNECT_SECONDS_MAX = 5
PING_SECONDS = 1
ANSWER_SECONDS_MAX = 10
QUORUM = "quorum"
DELAYED_EXCHANGE = "celery_delayed_delivery"
MEMORY = "memory"


@check("broker")
def broker() -> Verdict:
    """Messages leave at once, not only with the next sweep."""
    with current_app.connection_for_write() as connection:
        address = connection.as_uri()
        if _driver(connection) == MEMORY:
            return skip(
                "The in-memory broker lives inside one process and cannot be asked from another. "
                "For several processes, set BROKER_URL to Redis or RabbitMQ."
            )
        try:
            within(CONNECT_SECONDS_MAX, lambda: _connect(connection))
        except Exception as error:  # each transport has its own
            return fail(
                f"{address} does not answer ({_said(error)}). Look at its server and BROKER_URL. "
                f"Answers are kept meanwhile; the runs go on when it is back."
            )
    return ok(f"{address} answers.")


@check("queues", needs=("broker",))
def queues() -> Verdict:
    """On RabbitMQ with quorum queues, a countdown needs exchanges that a worker declares."""
    if current_app.conf.task_default_queue_type != QUORUM:
        return skip("Only RabbitMQ's quorum queues are to be prepared.")
    missing = within(ANSWER_SECONDS_MAX, _missing)
    if missing:
        return warn(
            f"RabbitMQ has no {', '.join(missing)} yet, so messages to them are lost until the "
            f"sweep repeats them. Start a worker: it declares them."
        )
    return ok("RabbitMQ has the queues, and the exchange of delayed messages.")


@check("workers", needs=("broker",))
def workers() -> Verdict:
    """Some worker answers, and every queue has one that takes from it."""
    answers = within(ANSWER_SECONDS_MAX, lambda: current_app.control.ping(timeout=PING_SECONDS))
    if not answers:
        return fail(
            f"No worker answered within {PING_SECONDS} s. "
            f"Start one with `celery -A PROJECT worker`."
        )
    inspect = current_app.control.inspect(timeout=PING_SECONDS)
    taken = within(ANSWER_SECONDS_MAX, inspect.active_queues) or {}
    served = {queue["name"] for queues in taken.values() for queue in queues}
    if unserved := sorted(set(queue_names()) - served):
        return fail(
            f"No worker takes from the queue {', '.join(unserved)}. Start one with "
            f"`celery -A PROJECT worker -Q {','.join(unserved)}`."
        )
    names = sorted(name for answer in answers for name in answer)
    return ok(f"Workers that answer: {', '.join(names)}.")


def queue_names() -> list[str]:
    """Return the queues that this project sends to."""
    return list(current_app.amqp.queues)


def within(seconds: float, function: Callable[[], T]) -> T:
    """Return what the function returns, or raises; TimeoutError when that takes too long.

    The function then goes on in a thread that does not keep the process alive.
    """
    outcome: list[tuple[T | None, BaseException | None]] = []

    def run() -> None:
        try:
            outcome.append((function(), None))
        except BaseException as error:
            outcome.append((None, error))

    thread = threading.Thread(target=run, name="doctor", daemon=True)
    thread.start()
    thread.join(seconds)
    if not outcome:
        raise TimeoutError(f"no answer within {seconds} s")
    result, error = outcome[0]
    if error is not None:
        raise error
    return result  # type: ignore[return-value]


def _driver(connection: Connection) -> str:
    return str(connection.transport.driver_type)


def _connect(connection: Connection) -> None:
    connection.ensure_connection(max_retries=1, interval_start=0, timeout=CONNECT_SECONDS_MAX)


def _missing() -> list[str]:
    """Return the queues and the exchange that RabbitMQ does not have. Declares nothing."""
    missing = []
    with current_app.connection_for_write() as connection:
        for name in queue_names():
            if not _has(connection, "queue", name):
                missing.append(f"queue {name}")
        if not _has(connection, "exchange", DELAYED_EXCHANGE):
            missing.append(f"exchange {DELAYED_EXCHANGE}")
    return missing


def _has(connection: Connection, kind: str, name: str) -> bool:
    """Ask on a channel of its own: RabbitMQ closes the channel when it says no."""
    channel: Any = connection.channel()
    try:
        if kind == "queue":
            channel.queue_declare(queue=name, passive=True)
        else:
            channel.exchange_declare(exchange=name, type="topic", passive=True)
    except connection.channel_errors:
        return False
    channel.close()
    return True


def _said(error: BaseException) -> str:
    return str(error).strip().rstrip(".") or type(error).__name__
