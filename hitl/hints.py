"""Messages that hurry. A hint leaves on commit and may be lost, late or repeated.

What is owed stands in the rows and the sweep sends the hint again, so a broker that is down costs
time and nothing else: the failure is logged and the caller goes on (A3).
"""

import logging
import math
from datetime import timedelta
from typing import Any

from celery import current_app
from celery.utils.quorum_queues import detect_quorum_queues
from django.db import transaction

from hitl import faults

logger = logging.getLogger(__name__)

# RabbitMQ confirms each message, but not while it is out of memory or disk: then, without a bound,
# the person who answered would wait for as long as that lasts.
CONFIRM_SECONDS_MAX = 3


def send(task: str, *args: str, delay: timedelta | None = None, queue: str | None = None) -> None:
    """Ask for `task` with these ids once the running transaction has committed.

    `queue` names a queue other than the task's own.

    Outside a transaction it is sent at once. Never raises for a broker that cannot be reached;
    blocks no longer than the bounded publish timeouts in the Celery settings.
    """

    def publish() -> None:
        faults.point("hint:committed")
        bound = CONFIRM_SECONDS_MAX
        options: dict[str, Any] = {"timeout": bound, "confirm_timeout": bound}
        try:
            if delay is not None and delay > timedelta():
                options["countdown"] = _countdown(delay)
            if queue is not None:
                options["queue"] = queue
            current_app.send_task(task, args=args, **options)
        except Exception as error:  # whatever the transport raises, the rows still owe the work
            logger.warning(
                "hint %s(%s) was not sent (%s); the sweep will send it again",
                task,
                ", ".join(args),
                error,
            )
        faults.point("hint:sent")

    transaction.on_commit(publish, robust=False)


def waiting(task: str) -> int | None:
    """Return how many messages wait in the queue of this task; None if the broker does not tell."""
    try:
        queue = current_app.amqp.router.route({}, task)["queue"].name
        with (
            current_app.producer_or_acquire() as producer,
            producer.connection.channel() as channel,
        ):
            return int(channel.queue_declare(queue=queue, passive=True).message_count)
    except Exception as error:  # a queue that is not there yet, a broker that is away
        logger.info("the messages for %s could not be counted (%s)", task, error)
        return None


def _countdown(delay: timedelta) -> float:
    """Return seconds that the broker accepts: native delayed delivery takes whole ones, from one.

    Rounded up, so that the message does not come before its time.
    """
    seconds = delay.total_seconds()
    driver = current_app.producer_pool.connections.connection.transport.driver_type
    return math.ceil(seconds) if detect_quorum_queues(current_app, driver)[0] else seconds
