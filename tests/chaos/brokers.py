"""The brokers of a run: a Redis of its own, or a virtual host of its own behind a relay."""

import shutil
import signal
import subprocess
from pathlib import Path
from time import monotonic, sleep
from typing import Protocol
from urllib.parse import quote, urlsplit, urlunsplit

import redis

from tests import tiers
from tests.acceptance.relay import Relay
from tests.chaos.postgres import HOST, free_port

START_SECONDS_MAX = 20


class Broker(Protocol):
    """What may happen to any broker; what lasts is ended by `heal`."""

    name: str
    url: str
    is_well: bool
    """False while it hangs or is gone."""

    def start(self) -> None: ...

    def hang(self) -> None:
        """Keep every connection, let new ones in, and answer nothing."""

    def vanish(self) -> None:
        """Close every connection and refuse new ones."""

    def heal(self) -> None:
        """Be there and answer."""

    def drop_connections(self) -> None:
        """Close every connection, and take new ones."""

    def remove(self) -> None: ...


class PrivateRedis:
    """A Redis on a free port that keeps a log of its data, as in `docker-compose.yml`."""

    name = "redis"

    def __init__(self, folder: Path) -> None:
        self._port = free_port()
        self.url = f"redis://{HOST}:{self._port}/0"
        self.is_well = True
        self._folder = folder
        self._running: subprocess.Popen[bytes] | None = None
        self._client = redis.Redis(port=self._port, socket_timeout=2, socket_connect_timeout=2)

    def start(self) -> None:
        if shutil.which("redis-server") is None:
            raise FileNotFoundError("redis-server is not installed; chaos runs one of its own")
        command = ["redis-server", "--port", str(self._port), "--bind", HOST, "--save", ""]
        command += ["--dir", str(self._folder), "--appendonly", "yes"]
        with (self._folder / "redis.log").open("ab") as log:
            self._running = subprocess.Popen(command, stdout=log, stderr=log)
        give_up = monotonic() + START_SECONDS_MAX
        while not self._answers():
            if monotonic() > give_up:
                raise TimeoutError("Redis did not start")
            sleep(0.05)

    def hang(self) -> None:
        self.is_well = False
        self._signal(signal.SIGSTOP)

    def vanish(self) -> None:
        self.is_well = False
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Shut down in good order, and start again."""
        self._end(signal.SIGTERM)
        self.start()
        self.is_well = True

    def heal(self) -> None:
        self._signal(signal.SIGCONT)
        if self._running is None:
            self.start()
        self.is_well = True

    def flush(self) -> None:
        self._client.flushall()

    def drop_connections(self) -> None:
        self._client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

    def remove(self) -> None:
        self.vanish()

    def _answers(self) -> bool:
        try:
            return bool(self._client.ping())
        except redis.RedisError:
            return False

    def _signal(self, which: signal.Signals) -> None:
        if self._running is not None:
            self._running.send_signal(which)

    def _end(self, how: signal.Signals) -> None:
        self._signal(how)
        self._signal(signal.SIGCONT)  # it may hang just now
        if self._running is not None:
            self._running.wait(START_SECONDS_MAX)
            self._running = None


class RabbitVhost:
    """A virtual host of the running node. Everybody reaches it through a relay that can be cut."""

    name = "rabbitmq"

    def __init__(self, folder: Path) -> None:
        if shutil.which("rabbitmqctl") is None:
            raise FileNotFoundError("rabbitmqctl is not installed; chaos makes a virtual host")
        parts = urlsplit(tiers.amqp_url())
        assert parts.hostname is not None
        self._vhost = f"sayso_chaos_{folder.name}".replace("-", "_")
        self._user = parts.username or "guest"
        self._relay = Relay(parts.hostname, parts.port or 5672)
        self.is_well = True
        self._cut = False
        login = parts.netloc.rpartition("@")[0]
        netloc = f"{login}@{HOST}:{self._relay.port}" if login else f"{HOST}:{self._relay.port}"
        self.url = urlunsplit(parts._replace(netloc=netloc, path="/" + quote(self._vhost, safe="")))
        self._errands: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        self._ctl("delete_vhost", self._vhost).wait()
        for errand in (
            ["add_vhost", self._vhost],
            ["set_permissions", "-p", self._vhost, self._user, ".*", ".*", ".*"],
        ):
            if self._ctl(*errand).wait() != 0:
                raise RuntimeError(f"rabbitmqctl {errand[0]} failed")

    def hang(self) -> None:
        self.is_well = False
        self._relay.freeze()

    def vanish(self) -> None:
        self.is_well = False
        if not self._cut:
            self._relay.cut()
        self._cut = True

    def heal(self) -> None:
        if self._cut:
            self._relay.mend()
            self._cut = False
        self._relay.thaw()
        self.is_well = True

    def drop_connections(self) -> None:
        # The node's own tool takes seconds; nobody waits for it here.
        self._errands.append(
            self._ctl("close_all_connections", "--vhost", self._vhost, "an operator says so")
        )

    def remove(self) -> None:
        for errand in self._errands:
            errand.wait()
        self._relay.cut()
        self._ctl("delete_vhost", self._vhost).wait()

    def _ctl(self, *arguments: str) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            ["rabbitmqctl", "-q", *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
