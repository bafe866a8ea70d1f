"""What a provider's failure means, and what of it may be told. Pure.

A status decides whether asking again may help. Nothing a provider says is passed on before
everything that looks like a key is taken out: some echo the key they were given.
"""

import re
from collections.abc import Iterable
from datetime import timedelta

from agents.llm.errors import ModelError, ModelRefused, ModelUnavailable
from hitl.values import clean_text

RETRY_AFTER_MAX = timedelta(hours=1)
DETAIL_CHARS_MAX = 300
KEY_CHARS_MIN = 6

_PASSING = frozenset({408, 409, 425, 429})
_CREDENTIALS = frozenset({401, 403, 407})
_KEY_LIKE = re.compile(
    r"(?i)\bbearer\s+\S+"
    r"|\b(?:sk|pk|rk|gsk|xai|key|api)[-_][\w*.-]{6,}"
    r"|\bAIza[\w-]{8,}"
    r"|\b[\w-]{40,}"
)


def of_status(
    status: int, *, model: str, detail: str = "", retry_after_s: float | None = None
) -> ModelError:
    """The error for an HTTP status: 408, 409, 425, 429 and all from 500 on pass, the rest do not.

    `detail` must be free of keys already; it is left out where the credentials themselves are at
    fault.
    """
    message = f"{model} answered with HTTP status {status}"
    if status in _CREDENTIALS:
        return ModelRefused(f"{message}; check its API key and what the key may do.")
    message += f": {detail}" if detail else "."
    if status in _PASSING or status >= 500:
        return ModelUnavailable(message, retry_after=bounded(retry_after_s))
    return ModelRefused(message)


def bounded(retry_after_s: float | None) -> timedelta | None:
    """The wait a provider asked for, between nothing and an hour; None where it asked for none."""
    if retry_after_s is None or not retry_after_s >= 0:
        return None
    return timedelta(seconds=min(retry_after_s, RETRY_AFTER_MAX.total_seconds()))


def detail_of(body: object, *, keys: Iterable[str]) -> str:
    """The sentence in an error body or text, short, free of `keys` and of what looks like one."""
    while isinstance(body, dict):
        body = body.get("message") or body.get("error") or body.get("detail")
    if not isinstance(body, str):
        return ""
    text = clean_text(body)
    for key in keys:
        if len(key) >= KEY_CHARS_MIN:
            text = text.replace(key, "[key]")
    return clean_text(_KEY_LIKE.sub("[key]", text).strip(), chars_max=DETAIL_CHARS_MAX)
