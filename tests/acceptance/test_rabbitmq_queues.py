"""What a worker declares on RabbitMQ: queues that survive a node, and the way for countdowns."""

from typing import Any

import pytest
from kombu import Connection

from project import broker
from tests.acceptance.brokers import DELAY_QUEUES, QUEUES
from tests.acceptance.stations import Station

pytestmark = pytest.mark.services


@pytest.mark.promise("O1", "E3")
@pytest.mark.parametrize(
    "made_station",
    [pytest.param("rabbitmq", marks=pytest.mark.xdist_group("rabbitmq"))],
    indirect=True,
)
def test_a_worker_of_one_queue_makes_all_quorum_queues_and_their_delayed_delivery(
    station: Station,
) -> None:
    """Field report CEL-08: a queue that nobody has tied to delayed delivery loses what is late."""
    station.broker.create()
    worker = station.worker("first", "--queues", "agents", "--concurrency", "1")
    assert '"critical"' not in worker.output()
    arguments = {"x-queue-type": "quorum", "x-delivery-limit": broker.DELIVERIES_MAX}
    with Connection(station.broker.url) as connection:
        channel: Any = connection.channel()
        for queue in QUEUES:
            # RabbitMQ refuses to declare a queue again with other arguments than it has.
            channel.queue_declare(queue, durable=True, auto_delete=False, arguments=arguments)
        for queue in DELAY_QUEUES:
            channel.queue_declare(queue, passive=True)
