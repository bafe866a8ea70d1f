"""Connections that go only where they may: a transport for httpx2 over a checked network backend.

A name is resolved once, each address behind it is judged, and the connection is made to the very
address that was judged, so a name that changes its mind in between changes nothing (C5). One
deadline bounds the whole exchange, however slowly the other side drips.
"""

import ipaddress
import socket
import ssl
from collections.abc import Iterable
from functools import lru_cache
from time import monotonic
from typing import Any

import httpcore2
import httpx2

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# Addresses that stand for others: translated by a gateway to any IPv4 address, also a private one.
_TRANSLATED = (ipaddress.ip_network("64:ff9b::/96"), ipaddress.ip_network("64:ff9b:1::/48"))


class AddressRefused(Exception):
    """The name stands for an address that callbacks may not go to."""


def is_allowed(address: Address, *, internal: bool) -> bool:
    """Tell whether a connection to this address may be made; `internal` allows private ones.

    Link-local, multicast and unspecified addresses are never called.
    """
    address = getattr(address, "ipv4_mapped", None) or address
    if address.is_link_local or address.is_multicast or address.is_unspecified:
        return False
    if internal:
        return True
    if isinstance(address, ipaddress.IPv6Address) and (
        address.sixtofour or address.teredo or any(address in net for net in _TRANSLATED)
    ):
        return False
    return address.is_global


@lru_cache(maxsize=1)
def _ssl_context() -> ssl.SSLContext:
    """Return the one context of this process: reading the certificates takes longer than a POST.

    The operator may name others by SSL_CERT_FILE or SSL_CERT_DIR.
    """
    return httpx2.create_ssl_context()


class CheckedTransport(httpx2.BaseTransport):
    """Sends one request, without a proxy, over connections to allowed addresses alone."""

    def __init__(self, *, internal: bool, seconds_max: float) -> None:
        self._pool = httpcore2.ConnectionPool(
            ssl_context=_ssl_context(),
            max_connections=1,
            network_backend=_Backend(internal=internal, deadline=monotonic() + seconds_max),
        )

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Return the answer once its headers are there; its body is for the caller to leave."""
        assert isinstance(request.stream, httpx2.SyncByteStream)
        answer = self._pool.handle_request(
            httpcore2.Request(
                method=request.method,
                url=httpcore2.URL(
                    scheme=request.url.raw_scheme,
                    host=request.url.raw_host,
                    port=request.url.port,
                    target=request.url.raw_path,
                ),
                headers=request.headers.raw,
                content=request.stream,
                extensions=request.extensions,
            )
        )
        return httpx2.Response(answer.status, headers=answer.headers)

    def close(self) -> None:
        self._pool.close()


class _Backend(httpcore2.NetworkBackend):
    """Opens connections to allowed addresses."""

    def __init__(self, *, internal: bool, deadline: float) -> None:
        self._internal = internal
        self._deadline = deadline
        self._sockets = httpcore2.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.NetworkStream:
        address = self._resolve(host, port)
        left = _left(self._deadline, httpcore2.ConnectTimeout)
        stream = self._sockets.connect_tcp(
            address, port, timeout=left, local_address=local_address, socket_options=socket_options
        )
        return _Bounded(stream, self._deadline)

    def _resolve(self, host: str, port: int) -> str:
        """Return the first address of the name, once all of them are allowed."""
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise httpcore2.ConnectError(f"{host} has no address: {error}") from error
        addresses = [str(entry[4][0]).partition("%")[0] for entry in found]
        for one in addresses:
            if not is_allowed(ipaddress.ip_address(one), internal=self._internal):
                raise AddressRefused(f"{host} stands for {one}, where callbacks may not go")
        return addresses[0]


class _Bounded(httpcore2.NetworkStream):
    """A connection that is over at its deadline."""

    def __init__(self, stream: httpcore2.NetworkStream, deadline: float) -> None:
        self._stream = stream
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _left(self._deadline, httpcore2.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, _left(self._deadline, httpcore2.WriteTimeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore2.NetworkStream:
        left = _left(self._deadline, httpcore2.ConnectTimeout)
        return _Bounded(self._stream.start_tls(ssl_context, server_hostname, left), self._deadline)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def _left(deadline: float, late: type[Exception]) -> float:
    """Return how many seconds are left; raise `late` when none are."""
    left = deadline - monotonic()
    if left <= 0:
        raise late("the time for one callback is up")
    return left
