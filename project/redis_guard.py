"""Keeps a worker alive, and taking messages, when Redis restarts or hangs. Mends kombu 5.7.

A Celery 5.7 worker that holds a countdown or another unacknowledged message exits when Redis goes
away: while it hands the message back, on a channel whose connection is gone, kombu fails with an
AttributeError, which nobody expects, in place of a connection error, which the worker answers by
connecting again. The guard says it the second way.

When Redis hangs for longer than the socket timeout, the acknowledgement of a message that was done
meanwhile fails. kombu then goes on counting it among the messages in hand, and a worker that may
have no more of them in hand takes no other for as long as it lives. The guard lets go of it; Redis
hands it out once more after the visibility timeout, and finds nothing left to do.

Remove each half when kombu no longer needs it: `tests/acceptance/test_redis_restart.py` and
`tests/unit/test_redis_guard.py` tell when.
"""

from typing import Any

import redis.exceptions
from kombu.transport import virtual
from kombu.transport.redis import Channel, QoS

_original = Channel._connparams  # type: ignore[attr-defined]
_ack_original = QoS.ack
_reject_original = QoS.reject


def install() -> None:
    """Guard kombu's Redis channels in this process; a second call changes nothing."""
    Channel._connparams = _connparams  # type: ignore[attr-defined]
    QoS.ack = _ack  # type: ignore[method-assign, assignment]
    QoS.reject = _reject  # type: ignore[method-assign, assignment]


def _connparams(channel: Channel, *args: Any, **kwargs: Any) -> Any:
    if channel.connection is None or channel.connection.client is None:
        raise redis.exceptions.ConnectionError("The connection of this channel is closed.")
    return _original(channel, *args, **kwargs)


def _ack(qos: QoS, delivery_tag: str) -> None:
    try:
        _ack_original(qos, delivery_tag)
    except redis.exceptions.RedisError:
        virtual.QoS.ack(qos, delivery_tag)
        raise


def _reject(qos: QoS, delivery_tag: str, requeue: bool = False) -> None:
    try:
        _reject_original(qos, delivery_tag, requeue=requeue)
    except redis.exceptions.RedisError:
        virtual.QoS.ack(qos, delivery_tag)
        raise
