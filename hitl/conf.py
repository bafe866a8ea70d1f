"""Typed access to the `HITL` settings dictionary. Reads settings; `hitl/checks.py` judges them.

| key | meaning | unit | default |
| --- | --- | --- | --- |
| `TTL` | how long a tool gate waits | duration | `"15m"` |
| `APPROVAL_TTL` | how long a standalone approval or workflow gate waits | duration | `"24h"` |
| `HORIZON` | deadlines nearer than this get a countdown message | duration | `"60s"` |
| `SWEEP_EVERY` | period of the sweep that settles what is due | duration | `"30s"` |
| `SWEEP_BATCH` | how many due parks are settled before others have a turn | rows | `500` |
| `PAYLOAD_BYTES_MAX` | the largest payload of an answer | bytes of JSON | `262144` |
| `FOUR_EYES` | whether who asked is barred from approving | bool | `False` |
| `EXTEND_MAX` | how long after its opening a request may be extended to | duration | `"30d"` |
| `NOTIFIERS` | what tells people about requests | dotted paths of functions | log, e-mail |
| `BASE_URL` | where the outside reaches this site | URL | `"http://localhost:8000"` |
| `RESUME_URL_TTL` | how long the signed address of a parked call is valid | duration | `"30d"` |
| `HMAC_SECRET` | what signs callbacks; in a rotation several, newest first | text or list | `""` |
| `SITE_URL` | where a worker reaches this site for callbacks to a path of it | URL | `BASE_URL` |
| `CALLBACK_HOSTS` | other sites that may be called, by https: `host`, `host:port` | list | `()` |
| `CALLBACK_INTERNAL_HOSTS` | the same in your network: private addresses, http | list | `()` |
| `CALLBACK_TIMEOUT` | how long one POST of a callback may take in all | duration | `"10s"` |
| `CALLBACK_ATTEMPTS_MAX` | after how many failed POSTs a callback is given up | attempts | `12` |

A duration is `"30s"`, `"90m"`, `"4h"`, `"2d"`, a `timedelta` or a number of milliseconds.
"""

from datetime import timedelta
from typing import Any

from django.conf import settings

from hitl import durations

DEFAULTS: dict[str, Any] = {
    "TTL": "15m",
    "APPROVAL_TTL": "24h",
    "HORIZON": "60s",
    "SWEEP_EVERY": "30s",
    "SWEEP_BATCH": 500,
    "PAYLOAD_BYTES_MAX": 262_144,
    "FOUR_EYES": False,
    "EXTEND_MAX": "30d",
    "NOTIFIERS": ["hitl.notices.log", "hitl.notices.email"],
    "BASE_URL": "http://localhost:8000",
    "RESUME_URL_TTL": "30d",
    "HMAC_SECRET": "",
    "SITE_URL": "",
    "CALLBACK_HOSTS": (),
    "CALLBACK_INTERNAL_HOSTS": (),
    "CALLBACK_TIMEOUT": "10s",
    "CALLBACK_ATTEMPTS_MAX": 12,
}
DURATIONS = (
    *("TTL", "APPROVAL_TTL", "HORIZON", "SWEEP_EVERY", "RESUME_URL_TTL"),
    *("EXTEND_MAX", "CALLBACK_TIMEOUT"),
)


def raw(key: str) -> Any:
    """Return the setting as written, or its default."""
    return getattr(settings, "HITL", {}).get(key, DEFAULTS[key])


def ttl() -> timedelta:
    return durations.parse(raw("TTL"))


def approval_ttl() -> timedelta:
    return durations.parse(raw("APPROVAL_TTL"))


def horizon() -> timedelta:
    return durations.parse(raw("HORIZON"))


def sweep_every() -> timedelta:
    return durations.parse(raw("SWEEP_EVERY"))


def sweep_batch() -> int:
    return int(raw("SWEEP_BATCH"))


def payload_bytes_max() -> int:
    return int(raw("PAYLOAD_BYTES_MAX"))


def four_eyes() -> bool:
    return bool(raw("FOUR_EYES"))


def extend_max() -> timedelta:
    return durations.parse(raw("EXTEND_MAX"))


def notifiers() -> list[str]:
    return list(raw("NOTIFIERS"))


def base_url() -> str:
    return str(raw("BASE_URL")).rstrip("/")


def resume_url_ttl() -> timedelta:
    return durations.parse(raw("RESUME_URL_TTL"))


def hmac_secrets() -> list[str]:
    """Return the secrets as they are written, one or several; `hitl/keys.py` says which count."""
    written = raw("HMAC_SECRET")
    return [written] if isinstance(written, str) else list(written or ())


def site_url() -> str:
    return str(raw("SITE_URL") or raw("BASE_URL")).rstrip("/")


def callback_hosts() -> frozenset[str]:
    return frozenset(host.lower() for host in raw("CALLBACK_HOSTS"))


def callback_internal_hosts() -> frozenset[str]:
    return frozenset(host.lower() for host in raw("CALLBACK_INTERNAL_HOSTS"))


def callback_timeout() -> timedelta:
    return durations.parse(raw("CALLBACK_TIMEOUT"))


def callback_attempts_max() -> int:
    return int(raw("CALLBACK_ATTEMPTS_MAX"))
