"""Celery's queues and transport options for each broker: memory, Redis, RabbitMQ. Pure.

Two queues: `agents` carries segments and callbacks, `deadlines` carries expiries and the sweep, so
that a backlog of one never delays the other.
"""

from typing import Any

from kombu import Exchange, Queue

# The host is spelled out: a bare memory:// makes Celery complain about a missing host name.
MEMORY = "memory://localhost/"

AGENTS = "agents"
DEADLINES = "deadlines"
ROUTES = {
    "agents.*": {"queue": AGENTS},
    # Waits for another site, which no deadline must wait for.
    "hitl.deliver": {"queue": AGENTS},
    "hitl.*": {"queue": DEADLINES},
}

# Longest wait for one answer of a broker. Sending a hint to one that hangs takes up to three such
# waits (the message, and twice the new connection), and whoever gave an answer waits for that.
SECONDS_MAX = 3

# A RabbitMQ message that killed its worker so often is dropped; its row is given up or sent again.
DELIVERIES_MAX = 5


def is_rabbitmq(url: str) -> bool:
    return url.startswith(("amqp://", "amqps://", "pyamqp://"))


def is_redis(url: str) -> bool:
    return url.startswith(("redis://", "rediss://", "sentinel://", "redis+socket://"))


def queue_type(url: str) -> str:
    """Return RabbitMQ's queue type; quorum queues hold countdowns themselves, without a worker."""
    return "quorum" if is_rabbitmq(url) else "classic"


def exchange_type(url: str) -> str:
    """Return the type of the queues' exchanges: what native delayed delivery asks, else direct.

    With a direct exchange a message goes to its queue by name. On Redis the other types look the
    queue up in a key that each process writes once: when the database is flushed that key is gone,
    and every later message of every process that lives on would vanish without an error.
    """
    return "topic" if is_rabbitmq(url) else "direct"


def queues(url: str) -> list[Queue]:
    """Return both queues, each on an exchange of its own."""
    arguments = (
        {"x-queue-type": "quorum", "x-delivery-limit": DELIVERIES_MAX} if is_rabbitmq(url) else None
    )
    kind = exchange_type(url)
    return [
        Queue(name, Exchange(name, type=kind), routing_key=name, queue_arguments=arguments)
        for name in (AGENTS, DEADLINES)
    ]


def transport_options(url: str) -> dict[str, Any]:
    """Return what bounds every wait on the broker; times in seconds."""
    if is_redis(url):
        return {
            # Redis need not keep what a worker has in hand until that is done. It would give it to
            # another worker after an hour; the sweep sees to what is owed within seconds. This is a
            # third of the work of a worker's main process, and a message has less of a way to go.
            "ack_emulation": False,
            "socket_timeout": SECONDS_MAX,
            "socket_connect_timeout": SECONDS_MAX,
            "socket_keepalive": True,
        }
    if is_rabbitmq(url):
        return {"confirm_publish": True}
    return {"polling_interval": 0.05}
