"""System checks of the `HITL` settings: a misconfiguration is a `manage.py check` error."""

import re
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, register
from django.core.checks import Warning as Advice
from django.utils.module_loading import import_string

from hitl import conf, deadlines, durations, signing
from hitl.errors import BadDuration


@register("hitl")
def check_settings(**_: Any) -> list[CheckMessage]:
    """Refuse unknown keys, unreadable durations and bounds that are not positive whole numbers."""
    return check_dictionary("HITL", conf.DEFAULTS, conf.DURATIONS)


@register("hitl")
def check_horizon(**_: Any) -> list[CheckMessage]:
    """Warn of deadlines that no countdown and no sweep meets in time."""
    try:
        horizon, needed = conf.horizon(), conf.sweep_every() + deadlines.SWEEP_LATE_MAX
    except BadDuration:  # told by `check_settings`
        return []
    if horizon >= needed:
        return []
    sentence = (
        'HITL["HORIZON"] is shorter than a sweep may take to come again: a deadline behind it may '
        "be closed as late as the next sweep."
    )
    hint = f"Make it {needed.total_seconds():g}s or longer, or sweep more often."
    return [Advice(sentence, hint=hint, id="hitl.W003")]


@register("hitl")
def check_callbacks(**_: Any) -> list[CheckMessage]:
    """Refuse a sample among the secrets and hosts that are no hosts; warn where nothing can sign.

    A blank secret is no error: without callbacks none is needed, and with one they are refused.
    """
    found: list[CheckMessage] = []
    for key in ("CALLBACK_HOSTS", "CALLBACK_INTERNAL_HOSTS"):
        written = conf.raw(key)
        if isinstance(written, str) or not all(map(_is_host, written)):
            sentence = f'HITL["{key}"] is a list of hosts, such as "billing.example.com:8443".'
            found.append(Error(sentence, id="hitl.E004"))
    secrets = [secret for secret in conf.hmac_secrets() if secret.strip()]
    if settings.DEBUG:
        return found
    if any(map(signing.is_sample, secrets)):
        sentence = 'HITL["HMAC_SECRET"] is a sample that anybody can read: it signs nothing.'
        found.append(Error(sentence, hint=_MAKE_ONE, id="hitl.E005"))
    elif not secrets:
        sentence = 'HITL["HMAC_SECRET"] is not set: a callback can be neither sent nor accepted.'
        hint = f"{_MAKE_ONE} Without callbacks, silence hitl.W001."
        found.append(Advice(sentence, hint=hint, id="hitl.W001"))
    elif any(len(secret) < signing.SECRET_CHARS_MIN for secret in secrets):
        least = signing.SECRET_CHARS_MIN
        sentence = f'HITL["HMAC_SECRET"] is short; make it {least} random characters or more.'
        found.append(Advice(sentence, hint=_MAKE_ONE, id="hitl.W002"))
    return found


_MAKE_ONE = "Make one: python -c 'import secrets; print(secrets.token_urlsafe(50))'."


def _is_host(written: Any) -> bool:
    return isinstance(written, str) and bool(_HOST.fullmatch(written))


_HOST = re.compile(r"([A-Za-z0-9\-.]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?")


def check_dictionary(
    name: str, defaults: dict[str, Any], duration_keys: tuple[str, ...]
) -> list[CheckMessage]:
    """Judge one settings dictionary against its defaults."""
    written = getattr(settings, name, {})
    found: list[CheckMessage] = []
    for key, value in written.items():
        if key not in defaults:
            known = ", ".join(sorted(defaults))
            found.append(Error(f"{name}[{key!r}] is unknown. Known: {known}.", id="hitl.E001"))
        elif key in duration_keys:
            found += _check_duration(name, key, value)
        elif isinstance(defaults[key], list):
            found += _check_paths(name, key, value)
        elif isinstance(defaults[key], bool):
            if not isinstance(value, bool):
                found.append(Error(f"{name}[{key!r}] must be True or False.", id="hitl.E004"))
        elif isinstance(defaults[key], int) and (
            not isinstance(value, int) or isinstance(value, bool) or value < 1
        ):
            found.append(Error(f"{name}[{key!r}] must be a whole number above 0.", id="hitl.E003"))
    return found


def _check_paths(name: str, key: str, value: Any) -> list[CheckMessage]:
    """Refuse what is no list of dotted paths that can be imported."""
    if not isinstance(value, list | tuple) or not all(isinstance(path, str) for path in value):
        return [Error(f"{name}[{key!r}] must be a list of dotted paths.", id="hitl.E005")]
    found: list[CheckMessage] = []
    for path in value:
        try:
            import_string(path)
        except ImportError as error:
            found.append(Error(f"{name}[{key!r}]: {error}", id="hitl.E005"))
    return found


def _check_duration(name: str, key: str, value: Any) -> list[CheckMessage]:
    try:
        durations.parse(value)
    except BadDuration as error:
        return [Error(f"{name}[{key!r}]: {error}", id="hitl.E002")]
    return []
