"""What happens to messages between those who send and those who take them: late, twice, never.

Only hints travel there, so a message is a task's name and the ids it was given.
"""

import random
from contextlib import suppress
from typing import Any, NamedTuple

from agents.models import Run
from agents.runs import SEGMENT
from hitl.deadlines import EXPIRE, SWEEP
from hitl.models import Park
from project.broker import AGENTS, DEADLINES
from project.celery import app

QUEUES = (AGENTS, DEADLINES)


class Message(NamedTuple):
    task: str
    args: list[str]


def take(most: int) -> list[Message]:
    """Take up to so many messages from each queue; whoever takes one owes nobody an answer."""
    taken: list[Message] = []
    with app.connection_for_read() as connection:
        channel: Any = connection.channel()
        for queue in QUEUES:
            waiting: Any = app.amqp.queues[queue].bind(channel)
            for _ in range(most):
                if (found := waiting.get(no_ack=True)) is None:
                    break
                taken.append(Message(found.headers["task"], list(found.decode()[0])))
    return taken


def lose() -> int:
    """Throw away all that waits in the queues; returns how many messages that were."""
    lost = 0
    with app.connection_for_write() as connection:
        for queue in QUEUES:
            channel: Any = connection.channel()
            with suppress(*connection.channel_errors):
                lost += channel.queue_purge(queue) or 0
    return lost


def send(messages: list[Message], *, times: int = 1) -> None:
    for message in messages * times:
        app.send_task(message.task, args=message.args)


def old(count: int, rng: random.Random) -> list[Message]:
    """Return messages that have long been delivered, or may not be due yet."""
    runs = list(Run.objects.values_list("id", flat=True))
    parks = list(Park.objects.values_list("id", flat=True))
    segments = [Message(SEGMENT, [str(one)]) for one in rng.sample(runs, min(count, len(runs)))]
    expiries = [Message(EXPIRE, [str(one)]) for one in rng.sample(parks, min(count, len(parks)))]
    return segments + expiries


def sweeps(count: int) -> list[Message]:
    return [Message(SWEEP, []) for _ in range(count)]
