"""The keys that sign callbacks, from `HITL["HMAC_SECRET"]`. Reads settings.

Outside DEBUG a blank secret and a sample are no secret: nothing is signed with them and nothing
that they sign is accepted (C4). With several, all sign and any is accepted, so a rotation is: put
the new one first, wait until every process knows both, take the old one away.
"""

from functools import lru_cache

from django.conf import settings

from hitl import conf, signing
from hitl.errors import ApprovalSigningKeyMissing

# While developing nobody needs to set a secret first; nobody else accepts what this one signs.
_OF_DEBUG = "insecure: signs callbacks while DEBUG is on"


def current() -> tuple[bytes, ...]:
    """Return the keys, the first one first. Raises ApprovalSigningKeyMissing when there is none."""
    usable = secrets_in_use()
    if not usable:
        raise ApprovalSigningKeyMissing
    return _derived(usable)


def secrets_in_use() -> tuple[str, ...]:
    """Return the secrets that count here: none that is blank, and outside DEBUG no sample."""
    written = [secret for secret in conf.hmac_secrets() if secret.strip()]
    if settings.DEBUG:
        return tuple(written or [_OF_DEBUG])
    return tuple(secret for secret in written if not signing.is_sample(secret))


@lru_cache(maxsize=8)
def _derived(secrets: tuple[str, ...]) -> tuple[bytes, ...]:
    return tuple(signing.derive(secret) for secret in secrets)
