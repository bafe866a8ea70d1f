"""The demo's administrator, whose password is made once and kept beside the database."""

from pathlib import Path

from django.contrib.auth import get_user_model

from project import environment

USERNAME = "admin"
PASSWORD_FILE = "demo-admin-password"  # noqa: S105  (the file's name)
PASSWORD_BYTES = 9


def ensure(var: Path) -> str:
    """Make the administrator if there is none, and return the password to show.

    The password in the file stands: should the file have gone, a new one is made and set. A
    password that someone set in the admin stays, and its place is shown in the password's stead.
    """
    path = var / PASSWORD_FILE
    is_new = not path.exists()
    password = environment.kept_secret(path, size=PASSWORD_BYTES)
    users = get_user_model()
    admin = users.objects.filter(username=USERNAME).first()
    if admin is None:
        users.objects.create_superuser(USERNAME, password=password)
    elif is_new:
        admin.set_password(password)
        admin.save(update_fields=["password"])
    elif not admin.check_password(password):
        return f"(the one you set; delete {path} for a new one)"
    return password
