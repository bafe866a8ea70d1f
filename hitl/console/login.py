"""Who sits at the terminal: the login of the operating system, for the audit trail (I2).

The user id of the process decides. Neither an option nor an environment variable can say another
name, as `$USER` could.
"""

import getpass
import os
import socket
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AnonymousUser

from hitl.audit import Actor
from hitl.models import Park


def actor() -> str:
    """Return who acts, such as "ana@db1"; a user id without a name is shown as "uid-1001@db1"."""
    return f"{_user()}@{socket.gethostname()}"


def user_name() -> str:
    """Return the login alone, such as "ana"."""
    return _user()


def decider(park: Park, channel: str) -> Actor:
    """Return who decides: where a request names its approvers, the project's user of this login.

    Who sits at a terminal of the project is trusted beyond that, as any program of it is. A login
    that is no active user of the project decides nothing that names its approvers (I8).
    """
    if not park.policy:
        return Actor(actor(), channel)
    model: Any = get_user_model()
    known = model._default_manager.filter(**{model.USERNAME_FIELD: _user()}).first()
    return Actor(actor(), channel, user=known or AnonymousUser())


def _user() -> str:
    try:
        import pwd
    except ImportError:  # no such register on this system
        return getpass.getuser()
    uid = os.getuid()
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:  # a container may run under a number that nobody has
        return f"uid-{uid}"
