"""No test reaches outside this machine: a connection or look-up elsewhere fails the test.

Only `install` and `refuse` matter: an audit hook sees every Python socket of the process, whatever
library opens it. The servers that service tests are pointed at by the environment stay reachable.
"""

import ipaddress
import sys
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests import tiers

_installed = False


def install() -> None:
    """Watch every socket from now on, in this process and in those it forks."""
    global _installed
    if not _installed:
        _installed = True
        sys.addaudithook(_watch)


def refuse(host: object) -> None:
    """Fail the running test unless the host is this machine or a server it was told to use.

    The failure is no `Exception`, so that no client turns it into a connection error of its own.
    """
    if isinstance(host, bytes | bytearray):
        host = host.decode(errors="replace")
    if isinstance(host, str) and host not in _servers() and not _is_loopback(host):
        pytest.fail(f"a test tried to reach {host}", pytrace=False)


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "socket.getaddrinfo":
        refuse(arguments[0])
    elif event == "socket.connect" and isinstance(arguments[1], tuple):
        refuse(arguments[1][0])


def _servers() -> set[str | None]:
    urls = (tiers.database_url(), tiers.redis_url(), tiers.amqp_url())
    return {urlsplit(url).hostname for url in urls}


def _is_loopback(host: str) -> bool:
    if host in ("", "localhost", "0.0.0.0"):  # noqa: S104 - asked for by servers that listen
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
