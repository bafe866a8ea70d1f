"""Where callbacks may go: the addresses at the door, and the networks behind the names."""

import ipaddress
import socket
from typing import Any

import httpcore2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hitl.callbacks import addresses, network
from hitl.errors import ApprovalInvalidRequest


@pytest.fixture(autouse=True)
def _hosts(settings: Any) -> None:
    settings.HITL = {
        "BASE_URL": "https://shop.example.com",
        "CALLBACK_HOSTS": ["hooks.example.com", "odd.example.com:8443"],
        "CALLBACK_INTERNAL_HOSTS": ["billing:8080", "10.0.0.5"],
    }


@pytest.mark.promise("C5")
@pytest.mark.parametrize(
    ("on_decide", "url", "internal"),
    [
        ("/a/b/?x=1", "https://shop.example.com/a/b/?x=1", True),
        ("https://hooks.example.com/x", "https://hooks.example.com/x", False),
        ("https://HOOKS.example.com:443/", "https://HOOKS.example.com:443/", False),
        ("https://odd.example.com:8443/", "https://odd.example.com:8443/", False),
        ("http://billing:8080/x", "http://billing:8080/x", True),
        ("https://10.0.0.5/", "https://10.0.0.5/", True),
    ],
)
def test_what_is_allowed_is_called(on_decide: str, url: str, internal: bool) -> None:
    found = addresses.check(on_decide)
    assert (found.url, found.is_internal) == (url, internal)


@pytest.mark.promise("C5")
@pytest.mark.parametrize(
    "on_decide",
    [
        *("", "x", "//evil.example.com/x", "/\\evil.example.com", "/a b", "/a\n", "/é", "/a#b"),
        *("https://evil.example.com/", "http://hooks.example.com/", "ftp://hooks.example.com/"),
        "https://hooks.example.com:8443/",
        "https://odd.example.com/",
        "https://hooks.example.com@evil.example.com/",
        "https://hooks.example.com:80@evil.example.com/",
        "https://me:pw@hooks.example.com/",
        "https://hooks.example.com.evil.example.com/",
        "https://evil.example.com/hooks.example.com",
        "https://hooks.example.com\\@evil.example.com/",
        "https:///x",
        "https://[::1",
        "https://hooks.example.com:99999/",
        *(
            "http://127.0.0.1/",
            "http://2130706433/",
            "http://0x7f.1/",
            "http://[::ffff:127.0.0.1]/",
        ),
        "javascript:alert(1)",
        "file:///etc/passwd",
        "/" + "a" * 2000,
    ],
)
def test_nothing_else_is_called(on_decide: str) -> None:
    with pytest.raises(ApprovalInvalidRequest):
        addresses.check(on_decide)


@given(st.text(max_size=60))
def test_any_text_is_judged_without_a_crash(text: str) -> None:
    for on_decide in (text, "https://" + text, "/" + text):
        try:
            found = addresses.check(on_decide)
        except ApprovalInvalidRequest:
            continue
        assert found.url.startswith("https://shop.example.com/") or "example.com" in found.url


@pytest.mark.promise("C5")
def test_a_site_reached_from_inside_hears_its_public_name(settings: Any) -> None:
    settings.HITL = settings.HITL | {"SITE_URL": "http://web:8000/"}
    found = addresses.check("/decide/")
    assert found.url == "http://web:8000/decide/"
    assert dict(found.headers) == {"Host": "shop.example.com", "X-Forwarded-Proto": "https"}


PRIVATE = [
    *("127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.0.1", "100.64.0.1", "0.1.2.3"),
    *("::1", "fc00::1", "::ffff:10.0.0.1", "2002:7f00:1::", "64:ff9b::7f00:1", "64:ff9b:1::1"),
    "2001:0:4136:e378:8000:63bf:3fff:fdd2",
]
NEVER = [
    *("169.254.169.254", "fe80::1", "224.0.0.1", "ff02::1", "::", "0.0.0.0"),  # noqa: S104
    "::ffff:169.254.169.254",
]


@pytest.mark.promise("C5")
@pytest.mark.parametrize("text", [*PRIVATE, *NEVER])
def test_a_private_address_is_not_public(text: str) -> None:
    address = ipaddress.ip_address(text)
    assert not network.is_allowed(address, internal=False)
    assert network.is_allowed(address, internal=True) == (text in PRIVATE)


@pytest.mark.promise("C5")
@pytest.mark.parametrize("text", ["93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c"])
def test_a_public_address_is_public(text: str) -> None:
    assert network.is_allowed(ipaddress.ip_address(text), internal=False)


class Name:
    """A name that stands for other addresses each time it is asked about."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = iter(answers)
        self.asked = 0

    def __call__(self, host: str, port: int, **_: Any) -> Any:
        self.asked += 1
        return [(None, None, None, "", (address, port)) for address in next(self.answers)]


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses to which a connection was tried."""
    made: list[str] = []

    def connect(self: Any, host: str, port: int, **_: Any) -> Any:
        made.append(host)
        raise httpcore2.ConnectError("not in a test")

    monkeypatch.setattr(httpcore2.SyncBackend, "connect_tcp", connect)
    return made


def connect(*, internal: bool = False) -> None:
    backend = network._Backend(internal=internal, deadline=network.monotonic() + 5)
    backend.connect_tcp("hooks.example.com", 443)


@pytest.mark.promise("C5")
def test_the_address_that_was_judged_is_the_one_that_is_called(
    monkeypatch: pytest.MonkeyPatch, connected: list[str]
) -> None:
    """A name that changes its mind after it was judged is not asked again."""
    name = Name(["93.184.215.14"], ["127.0.0.1"])
    monkeypatch.setattr(socket, "getaddrinfo", name)
    with pytest.raises(httpcore2.ConnectError):
        connect()
    assert (connected, name.asked) == (["93.184.215.14"], 1)


@pytest.mark.promise("C5")
def test_one_private_address_among_public_ones_is_enough_to_refuse(
    monkeypatch: pytest.MonkeyPatch, connected: list[str]
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", Name(["93.184.215.14", "10.0.0.1"]))
    with pytest.raises(network.AddressRefused):
        connect()
    assert connected == []


@pytest.mark.promise("C5")
def test_the_metadata_address_is_refused_to_internal_hosts_too(
    monkeypatch: pytest.MonkeyPatch, connected: list[str]
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", Name(["169.254.169.254"]))
    with pytest.raises(network.AddressRefused):
        connect(internal=True)
    assert connected == []
