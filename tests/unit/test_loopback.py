"""The guard itself: a test cannot reach another machine, and can reach this one."""

import asyncio
import socket

import pytest

from tests import loopback

Failed = pytest.fail.Exception


@pytest.fixture(autouse=True)
def installed() -> None:
    loopback.install()


def test_a_connection_elsewhere_fails_the_test() -> None:
    with socket.socket() as client, pytest.raises(Failed, match=r"192\.0\.2\.1"):
        client.connect(("192.0.2.1", 80))


def test_a_look_up_elsewhere_fails_the_test() -> None:
    with pytest.raises(Failed, match=r"api\.example\.com"):
        socket.create_connection(("api.example.com", 443))


def test_asyncio_cannot_get_round_it() -> None:
    async def connect() -> None:
        await asyncio.open_connection("192.0.2.1", 80)

    with pytest.raises(Failed, match=r"192\.0\.2\.1"):
        asyncio.run(connect())


def test_this_machine_is_reached() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(("localhost", server.getsockname()[1]), timeout=5):
            pass


def test_the_servers_of_service_tests_are_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_REDIS_URL", "redis://redis.internal:6379/9")
    loopback.refuse("redis.internal")
    with pytest.raises(Failed):
        loopback.refuse("other.internal")
