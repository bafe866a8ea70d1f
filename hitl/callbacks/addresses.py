"""Where a callback may go: a path on this site, or a URL on an allowed host (C5). Reads settings.

Asked twice: at the door, before a request is opened, and again before each POST, since the settings
may have changed in between. `network` looks at the address behind the name.
"""

import re
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from hitl import conf
from hitl.errors import ApprovalInvalidRequest

CHARS_MAX = 2000
PORTS = {"https": 443, "http": 80}
# Nothing that two readers of a URL could take for different things.
_PLAIN = re.compile(r"[A-Za-z0-9\-._~:/?\[\]@!$&'()*+,;=%]+")


@dataclass(frozen=True, slots=True)
class Destination:
    """One checked address.

    `is_internal` allows a private address behind the name. `headers` let a site that is reached
    under another name than its public one recognise itself.
    """

    url: str
    is_internal: bool = False
    headers: tuple[tuple[str, str], ...] = ()


def check(on_decide: str) -> Destination:
    """Return where a POST to `on_decide` would go. Raises ApprovalInvalidRequest: nowhere."""
    if len(on_decide) > CHARS_MAX or not _PLAIN.fullmatch(on_decide):
        raise _refused(on_decide, "it must be plain ASCII, without spaces, and not too long")
    if on_decide.startswith("/"):
        return _on_this_site(on_decide)
    try:
        parts = urlsplit(on_decide)
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        raise _refused(on_decide, "it is no URL") from None
    if parts.scheme not in PORTS or not host or "@" in parts.netloc:
        raise _refused(on_decide, "write a path, or https:// and a host")
    return _on_a_host(on_decide, parts.scheme, host, port or PORTS[parts.scheme])


def _on_this_site(path: str) -> Destination:
    if path.startswith("//"):
        raise _refused(path, "a path begins with one slash")
    public = urlsplit(conf.base_url())
    headers: tuple[tuple[str, str], ...] = ()
    if conf.site_url() != conf.base_url():
        # Reached from inside: the site hears its public name, as it would through its proxy.
        headers = (("Host", public.netloc), ("X-Forwarded-Proto", public.scheme))
    return Destination(f"{conf.site_url()}{path}", is_internal=True, headers=headers)


def _on_a_host(url: str, scheme: str, host: str, port: int) -> Destination:
    names = {f"{host}:{port}"} | ({host} if port == PORTS[scheme] else set())
    if names & conf.callback_internal_hosts():
        return Destination(url, is_internal=True)
    if scheme != "https" or not names & conf.callback_hosts():
        raise _refused(
            url, f'only https to a host of HITL["CALLBACK_HOSTS"] is called; {host}:{port} is none'
        )
    return Destination(url)


def _refused(on_decide: str, why: str) -> ApprovalInvalidRequest:
    return ApprovalInvalidRequest(f"on_decide {on_decide[:200]!r} cannot be called: {why}.")


def shown(on_decide: str) -> str:
    """Return the address for the trail: without its query, which may carry secrets."""
    parts: SplitResult = urlsplit(on_decide)
    return parts._replace(query="…" if parts.query else "").geturl()
