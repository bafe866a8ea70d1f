"""Run by the gate outside of the checkout: the installed wheel alone makes a working project.

Reads the names of the files that the wheel must carry, one a line, from standard input.
"""

import sys
from importlib import metadata, resources
from pathlib import Path

import django
from django.conf import settings

APPS = ("hitl", "agents")


def main() -> None:
    settings.configure(
        SECRET_KEY="only-for-this-check",
        INSTALLED_APPS=[
            "unfold",
            "django.contrib.admin",
            "django.contrib.auth",
            "django.contrib.contenttypes",
            "django.contrib.sessions",
            "django.contrib.messages",
            *APPS,
        ],
        MIDDLEWARE=[
            "django.contrib.sessions.middleware.SessionMiddleware",
            "django.contrib.auth.middleware.AuthenticationMiddleware",
            "django.contrib.messages.middleware.MessageMiddleware",
        ],
        TEMPLATES=[
            {
                "BACKEND": "django.template.backends.django.DjangoTemplates",
                "APP_DIRS": True,
                "OPTIONS": {
                    "context_processors": [
                        "django.template.context_processors.request",
                        "django.contrib.auth.context_processors.auth",
                        "django.contrib.messages.context_processors.messages",
                    ]
                },
            }
        ],
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        USE_TZ=True,
    )
    django.setup()
    from django.core.management import call_command

    for app in APPS:
        where = Path(str(resources.files(app)))
        assert "site-packages" in where.parts, (
            f"{app} was imported from {where}, not from the wheel"
        )
    call_command("check")
    call_command("migrate", verbosity=0)
    (plugin,) = metadata.entry_points(group="pytest11", name="sayso")
    plugin.load()
    carried = {str(file) for file in metadata.files("sayso") or []}
    wanted = set(sys.stdin.read().split())
    assert wanted, "no list of files on standard input"
    assert wanted <= carried, f"not in the wheel: {sorted(wanted - carried)}"
    folders = {name.split("/")[0] for name in carried}
    assert not folders & {"project", "examples", "tests", "docs", "benchmarks"}, folders
    sys.stdout.write(f"sayso {metadata.version('sayso')} works from its wheel\n")


if __name__ == "__main__":
    main()
