"""Reads typed values from the environment. Pure but for `os.environ`.

An unreadable value stops the start with a sentence that names the variable: a worker that silently
runs with a default is harder to find than one that does not start.
"""

import os
import secrets
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

TRUE = frozenset({"1", "true", "yes", "on"})
FALSE = frozenset({"", "0", "false", "no", "off"})


def text(name: str, default: str = "") -> str:
    """Return the variable without surrounding space; an empty one counts as unset."""
    return os.environ.get(name, "").strip() or default


def flag(name: str, *, default: bool = False) -> bool:
    """Return a yes or no; raises ImproperlyConfigured for anything else."""
    value = os.environ.get(name)
    if value is None:
        return default
    if value.strip().lower() in TRUE:
        return True
    if value.strip().lower() in FALSE:
        return False
    raise ImproperlyConfigured(f"{name}={value!r} is neither yes (1) nor no (0).")


def number(name: str, default: int) -> int:
    """Return a whole number of at least 0; raises ImproperlyConfigured for anything else."""
    value = text(name)
    if not value:
        return default
    if not value.isascii() or not value.isdigit():
        raise ImproperlyConfigured(f"{name}={value!r} is not a whole number.")
    return int(value)


def words(name: str, default: str = "") -> list[str]:
    """Return a comma-separated list, without empty items."""
    return [word.strip() for word in text(name, default).split(",") if word.strip()]


def named(prefix: str) -> dict[str, list[str]]:
    """Return the variables that begin so, by the rest of their names in lower case, as `words`."""
    return {
        name.removeprefix(prefix).lower(): words(name)
        for name in os.environ
        if name.startswith(prefix) and name != prefix
    }


def secret_key(*, debug: bool, demo: bool, var: Path) -> str:
    """Return the signing key, or refuse to start.

    The environment's key wins. The demo makes one on its first start and keeps it in `var`,
    readable by its owner only, so that a restart keeps everyone logged in. Debug mode has a fixed
    one. Anything else raises ImproperlyConfigured: a key that others know lets them forge a login.
    """
    if key := text("SECRET_KEY"):
        return key
    if demo:
        return kept_secret(var / "demo-secret-key", size=50)
    if debug:
        return "insecure-key-of-debug-mode-never-use-it-in-production"
    raise ImproperlyConfigured(
        "SECRET_KEY is not set. Set it to a long random string that only this deployment knows, "
        "or set DEBUG=1 while developing."
    )


def hmac_secrets(*, demo: bool, var: Path) -> list[str]:
    """Return what signs callbacks, the newest first; the demo makes one as it does its key.

    Empty when nothing is set: then no callback is signed, and none is accepted.
    """
    written = words("HMAC_SECRET")
    if not written and demo:
        return [kept_secret(var / "demo-hmac-secret", size=50)]
    return written


def kept_secret(path: Path, *, size: int) -> str:
    """Return the secret kept in this file, made of `size` random bytes when there is none yet.

    Only its owner may read the file. It appears whole or not at all, so a start that is cut short
    leaves no half of one.
    """
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f"{path.name}.{os.getpid()}")
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(size))
        draft.rename(path)
    return path.read_text(encoding="ascii").strip()
