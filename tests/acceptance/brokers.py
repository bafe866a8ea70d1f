"""The brokers of the tests: a Redis database and a RabbitMQ virtual host that nobody else uses."""

import shutil
import subprocess
from typing import Any, Protocol
from urllib.parse import quote, urlsplit, urlunsplit

import redis
from kombu import Connection

from tests import tiers

QUEUES = ("agents", "deadlines")
DELAY_QUEUES = [f"celery_delayed_{level}" for level in range(28)]
REDIS_DATABASES = 16


class Broker(Protocol):
    """What a test does to a broker behind the back of those who use it."""

    name: str
    url: str

    def create(self) -> None:
        """Make it, empty."""

    def flush(self) -> None:
        """Lose every message that no worker has taken yet, the delayed ones included."""

    def waiting(self, queue: str) -> int:
        """Return how many messages wait in this queue."""

    def drop(self) -> None:
        """Remove it."""


class RedisBroker:
    """A database of its own, counted on from that of `tiers.redis_url`."""

    name = "redis"

    def __init__(self, slot: int) -> None:
        parts = urlsplit(tiers.redis_url())
        number = int(parts.path.strip("/") or 0) + slot
        self.url = urlunsplit(parts._replace(path=f"/{number % REDIS_DATABASES}"))
        self._client = redis.Redis.from_url(self.url)

    def create(self) -> None:
        self.flush()

    def flush(self) -> None:
        self._client.flushdb()

    def waiting(self, queue: str) -> int:
        # LLEN is awaitable with the asynchronous client only, which the annotation cannot tell.
        return int(self._client.llen(queue))  # type: ignore[arg-type]

    def drop(self) -> None:
        self.flush()
        self._client.close()


class RabbitBroker:
    """A virtual host of its own; the one of `tiers.amqp_url` where rabbitmqctl is not at hand."""

    name = "rabbitmq"

    def __init__(self, slot: int) -> None:
        self.url = tiers.amqp_url()
        self._vhost = ""
        if shutil.which("rabbitmqctl") is not None:
            parts = urlsplit(self.url)
            self._user = parts.username or "guest"
            self._vhost = f"sayso_acceptance_{slot}"
            self.url = urlunsplit(parts._replace(path="/" + quote(self._vhost, safe="")))

    def create(self) -> None:
        if self._vhost:
            self.drop()
            _rabbitmqctl("add_vhost", self._vhost)
            _rabbitmqctl("set_permissions", "-p", self._vhost, self._user, ".*", ".*", ".*")
        else:
            self.flush()

    def flush(self) -> None:
        with Connection(self.url) as connection:
            for queue in (*QUEUES, *DELAY_QUEUES):
                channel: Any = connection.channel()
                with channel:
                    try:
                        channel.queue_purge(queue)
                    except connection.channel_errors:
                        continue  # no worker has declared it yet

    def waiting(self, queue: str) -> int:
        with Connection(self.url) as connection:
            channel: Any = connection.channel()
            return int(channel.queue_declare(queue, passive=True).message_count)

    def drop(self) -> None:
        if self._vhost:
            _rabbitmqctl("delete_vhost", self._vhost, check=False)
        else:
            self.flush()


def _rabbitmqctl(*arguments: str, check: bool = True) -> None:
    subprocess.run(["rabbitmqctl", "-q", *arguments], check=check, capture_output=True)
