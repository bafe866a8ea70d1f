"""An acknowledgement that is lost while Redis hangs, without any Redis. The chaos runs have one."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis.exceptions
from kombu.transport.redis import QoS

from project import redis_guard


class HungPipeline:
    """Takes commands, and gives up when it is to have them answered."""

    def zrem(self, *_: Any) -> "HungPipeline":
        return self

    hdel = zrem

    def execute(self) -> None:
        raise redis.exceptions.TimeoutError("Timeout reading from socket")


class HungChannel:
    """A channel to a Redis that takes connections and answers nothing."""

    unacked_key = unacked_index_key = "unacked"

    def pipeline(self) -> HungPipeline:
        return HungPipeline()

    @contextmanager
    def conn_or_acquire(self, client: Any = None) -> Iterator["HungChannel"]:
        yield self


@pytest.fixture
def full() -> Iterator[QoS]:
    """A worker's account of its messages: one in hand, and no more than one allowed."""
    qos = QoS(HungChannel(), prefetch_count=1)
    qos._quick_append("tag", object())  # type: ignore[attr-defined]
    assert not qos.can_consume()
    yield qos
    qos._on_collect.cancel()  # type: ignore[attr-defined]


@pytest.mark.promise("A3", "E4")
@pytest.mark.parametrize("settle", [QoS.ack, QoS.reject])
def test_a_message_whose_acknowledgement_was_lost_is_in_hand_no_more(
    full: QoS, settle: Callable[[QoS, str], None]
) -> None:
    """Field report CEL-05: a worker that counts it for ever takes no other message."""
    assert settle in (redis_guard._ack, redis_guard._reject), "the guard is not installed"
    with pytest.raises(redis.exceptions.TimeoutError):
        settle(full, "tag")
    assert full.can_consume()


@pytest.mark.parametrize("settle", [redis_guard._ack_original, redis_guard._reject_original])
def test_without_the_guard_the_worker_would_be_deaf(
    full: QoS, settle: Callable[[QoS, str], None]
) -> None:
    """When this fails, kombu needs that half of `project/redis_guard.py` no more: remove it."""
    with pytest.raises(redis.exceptions.TimeoutError):
        settle(full, "tag")
    assert not full.can_consume()
