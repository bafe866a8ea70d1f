"""Checks of what is written in the settings: the system checks and the keys that sign."""

from django.conf import settings
from django.core import checks

from hitl import conf, signing
from hitl.doctor.examination import Verdict, check, fail, ok, skip, warn

SHOWN_MAX = 3
KEY_CHARS_MIN = signing.SECRET_CHARS_MIN


@check("settings")
def system_checks() -> Verdict:
    """All of `manage.py check`: unknown keys, unreadable durations, and what other apps check."""
    found = [message for message in checks.run_checks() if not message.is_silenced()]
    errors = [message for message in found if message.is_serious()]
    warnings = [
        message
        for message in found
        if message not in errors and (message.level or 0) >= checks.WARNING
    ]
    shown = " ".join(f"{message.id}: {message.msg}" for message in (errors or warnings)[:SHOWN_MAX])
    if errors:
        return fail(f"Errors: {len(errors)}; `manage.py check` lists them. {shown}")
    if warnings:
        return warn(f"Warnings: {len(warnings)}; `manage.py check` lists them. {shown}")
    return ok("The system checks found nothing.")


@check("secret key")
def secret_key() -> Verdict:
    """A key that others know, or can guess, lets them forge logins and signed links."""
    if settings.DEBUG:
        return skip("DEBUG is on, so any key will do. Never serve other people with DEBUG.")
    key = str(settings.SECRET_KEY)
    if signing.is_sample(key):
        return fail("SECRET_KEY is a sample that anybody can read. Set a random one of your own.")
    if len(key) < KEY_CHARS_MIN:
        return warn(f"SECRET_KEY is short; make it {KEY_CHARS_MIN} random characters or more.")
    return ok("SECRET_KEY is no sample value.")


@check("callback key")
def callback_key() -> Verdict:
    """Without a secret of one's own no callback is signed, and none is accepted (C4)."""
    if settings.DEBUG:
        return skip("DEBUG is on, so callbacks are signed with whatever there is.")
    secrets = [secret for secret in conf.hmac_secrets() if secret.strip()]
    if not secrets:
        return skip("HMAC_SECRET is not set. Requests with a callback are refused until it is.")
    if any(map(signing.is_sample, secrets)):
        return fail("HMAC_SECRET is a sample that anybody can read. Set a random one of your own.")
    if any(len(secret) < KEY_CHARS_MIN for secret in secrets):
        return warn(f"HMAC_SECRET is short; make it {KEY_CHARS_MIN} random characters or more.")
    many = f", and {len(secrets) - 1} older" if len(secrets) > 1 else ""
    return ok(f"HMAC_SECRET is no sample value{many}.")
