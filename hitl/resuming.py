"""The signed address that finishes one wait: who holds it may answer that one call and no other.

A capability URL: whoever is given it needs no login. It names the waiter and the key, is signed
with `SECRET_KEY` (older keys in `SECRET_KEY_FALLBACKS` still open it), and is refused once it is
older than `HITL["RESUME_URL_TTL"]`. The park's own deadline decides sooner.
"""

from uuid import UUID

from django.core import signing
from django.urls import NoReverseMatch, reverse

from hitl import conf

SALT = "sayso.resume"


def url(kind: str, waiter_id: UUID, key: str) -> str:
    """Return the address for the wait under this key; a bare path where no base URL is set."""
    token = signing.dumps([kind, waiter_id.hex, key], salt=SALT)
    try:
        path = reverse("hitl:resume", args=[token])
    except NoReverseMatch:  # the project has not included `hitl.urls`
        return ""
    return f"{conf.base_url()}{path}"


def read(token: str) -> tuple[str, UUID, str] | None:
    """Return what a token stands for: kind, waiter and key. None for a forged or too old one."""
    try:
        kind, waiter_id, key = signing.loads(token, salt=SALT, max_age=conf.resume_url_ttl())
        return str(kind), UUID(waiter_id), str(key)
    except (signing.BadSignature, ValueError, TypeError):
        return None
