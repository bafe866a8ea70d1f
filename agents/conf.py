"""Typed access to the `AGENTS` settings dictionary. Reads settings; `agents/checks.py` judges them.

| key | meaning | unit | default |
| --- | --- | --- | --- |
| `DEFAULT_MODEL` | the model of agents that name none | model string | `None` |
| `LEASE` | how long a worker may be silent before another takes its run | duration | `"6s"` |
| `ATTEMPTS_MAX` | segments in a row without progress before a run fails | count | `5` |
| `SEGMENT_MAX` | after this a segment hands back at the next boundary | duration | `"10m"` |
| `MODEL_TIMEOUT` | longest model call | duration | `"2m"` |
| `MODEL_RETRIES_MAX` | passing model failures in a row before a run fails | count | `6` |
| `MODEL_BACKOFF` | first wait after a passing failure; doubles each time | duration | `"2s"` |
| `MODEL_BACKOFF_MAX` | longest such wait, Retry-After included | duration | `"5m"` |
| `OUTPUT_BYTES_MAX` | tool output kept for the model; more is cut with a mark | bytes | `65536` |
| `REPLY_CHARS_MAX` | text of one model reply; more is cut with a mark | characters | `500000` |
| `MESSAGE_CHARS_MAX` | longest user message | characters | `100000` |
| `CALLS_MAX` | tool calls of one step; the rest get an error | count | `32` |
| `DELEGATIONS_MAX` | delegations of one step; the rest get an error | count | `8` |
| `PARALLEL_MAX` | tools of one step that run side by side | count | `8` |
| `RESULT_CHARS_MAX` | a subagent's answer; more is cut with a mark | characters | `8000` |
| `SAME_DENIALS_MAX` | denials of one call in a run before it is refused unasked | count | `3` |
| `TRIGGER_SECRETS` | secrets of triggers by name; a list while one is replaced | | `{}` |
| `TRIGGER_BYTES_MAX` | the largest event that a trigger takes | bytes | `262144` |
| `TRIGGER_ATTEMPTS_MAX` | attempts to handle an event before it fails | count | `8` |
| `TRIGGER_RETENTION` | how long an event is kept once it is settled | duration | `"30d"` |
| `HINT_GRACE` | a queued run older than this gets another message | duration | `"5s"` |

A duration is `"30s"`, `"90m"`, `"4h"`, `"2d"`, a `timedelta` or a number of milliseconds.
"""

from datetime import timedelta
from typing import Any

from django.conf import settings

from hitl import durations

DEFAULTS: dict[str, Any] = {
    "DEFAULT_MODEL": None,
    "LEASE": "6s",
    "ATTEMPTS_MAX": 5,
    "SEGMENT_MAX": "10m",
    "MODEL_TIMEOUT": "2m",
    "MODEL_RETRIES_MAX": 6,
    "MODEL_BACKOFF": "2s",
    "MODEL_BACKOFF_MAX": "5m",
    "OUTPUT_BYTES_MAX": 65_536,
    "REPLY_CHARS_MAX": 500_000,
    "MESSAGE_CHARS_MAX": 100_000,
    "CALLS_MAX": 32,
    "DELEGATIONS_MAX": 8,
    "PARALLEL_MAX": 8,
    "RESULT_CHARS_MAX": 8_000,
    "SAME_DENIALS_MAX": 3,
    "TRIGGER_SECRETS": {},
    "TRIGGER_BYTES_MAX": 262_144,
    "TRIGGER_ATTEMPTS_MAX": 8,
    "TRIGGER_RETENTION": "30d",
    "HINT_GRACE": "5s",
}
TRIGGER_SECRET_CHARS_MIN = 16
DURATIONS = (
    "LEASE",
    "SEGMENT_MAX",
    "MODEL_TIMEOUT",
    "MODEL_BACKOFF",
    "MODEL_BACKOFF_MAX",
    "TRIGGER_RETENTION",
    "HINT_GRACE",
)


def raw(key: str) -> Any:
    """Return the setting as written, or its default."""
    return getattr(settings, "AGENTS", {}).get(key, DEFAULTS[key])


def duration(key: str) -> timedelta:
    """Return a setting that is a duration."""
    return durations.parse(raw(key))


def count(key: str) -> int:
    """Return a setting that is a whole number."""
    return int(raw(key))


def trigger_secrets(name: str) -> list[str]:
    """Return the secrets of this name that count: none that is blank or of under 16 characters."""
    written = raw("TRIGGER_SECRETS").get(name, [])
    several = [written] if isinstance(written, str) else list(written)
    return [one for one in several if len(one.strip()) >= TRIGGER_SECRET_CHARS_MIN]


def default_model() -> str | None:
    value = raw("DEFAULT_MODEL")
    return None if value is None else str(value)
