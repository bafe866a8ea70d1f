"""`manage.py demo`: Sayso on this machine alone, with something to decide. Needs no server."""

import logging
import os
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError

from agents import threads
from examples.render_farm.child import Child
from examples.support_desk.demo import account, opening, terminal
from project import embedded, environment

PORT = 8000
RENDER_SECONDS = 20  # long enough to be seen waiting
# The check decides these itself: nothing outside makes it pass or fail.
SET_BY_CHECK = (
    *("DATABASE_URL", "BROKER_URL", "DEFAULT_MODEL", "DJANGO_SETTINGS_MODULE", "SECRET_KEY"),
    *(
        "BASE_URL",
        "SITE_URL",
        "HMAC_SECRET",
        "RENDER_FARM_URL",
        "RENDER_SECONDS",
        "DEBUG",
        "HTTPS",
        "ALLOWED_HOSTS",
        "HITL_TTL",
        "LOG_LEVEL",
        "LOG_STYLE",
        "SAYSO_FAULT",
    ),
)


class Command(BaseCommand):
    """Serves the demo until it is stopped; with --check, proves it and exits with 0 or 1."""

    help = "Run Sayso on this machine with a support desk whose requests wait for you."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--port", type=int, default=PORT, help=f"port, or the next free one (default: {PORT})"
        )
        parser.add_argument(
            "--say", action="append", default=[], metavar="TEXT", help="a wish for the desk"
        )
        parser.add_argument(
            "--check", action="store_true", help="try everything unattended in a fresh directory"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["check"]:
            sys.exit(check())
        _refuse_deployments()
        try:
            self.run(options["port"], options["say"])
        except KeyboardInterrupt:
            self.stdout.write("\nStopped. What waits keeps waiting.")
            self.stdout.flush()
            # A tool that is still in hand would keep the process; the rows know where it was.
            os._exit(0)

    def run(self, port: int, wishes: list[str]) -> None:
        """Open the data, start the workers, say where to go, and serve until interrupted."""
        embedded.interrupt_on_sigterm()
        # That a page was not found is no news here: browsers ask for icons that there are not.
        logging.getLogger("django.request").setLevel(logging.ERROR)
        self.stdout.write("Starting …")
        call_command("migrate", verbosity=0)
        password = account.ensure(settings.VAR)
        is_fresh = opening.fill()
        seconds = environment.number("RENDER_SECONDS", RENDER_SECONDS)
        with embedded.listen(port) as listening, Child(seconds=seconds) as farm:
            host, bound = listening.getsockname()
            url = f"http://{host}:{bound}"
            # Known before anything runs: a parked call gives away an address of this site.
            settings.HITL["BASE_URL"], settings.RENDER_FARM_URL = url, farm.url
            workers = embedded.Workers()
            workers.start()
            try:
                for wish in wishes:
                    threads.start("desk", wish)
                if is_fresh or wishes:
                    opening.settle()
                self.stdout.write(
                    terminal.welcome(url=url, password=password, data=str(settings.VAR))
                )
                terminal.Narrator(self.stdout.write).start()
                embedded.serve(listening)
            finally:
                workers.stop()


def check() -> int:
    """Run the check in a directory of its own; returns its exit code."""
    with tempfile.TemporaryDirectory(prefix="sayso-demo-") as directory:
        kept = {name: value for name, value in os.environ.items() if name not in SET_BY_CHECK}
        return subprocess.run(
            [sys.executable, "-m", "examples.support_desk.check"],
            cwd=settings.BASE_DIR,
            env=kept | {"DEMO": "1", "VAR_DIR": directory, "PYTHONUTF8": "1"},
            check=False,
        ).returncode


def _refuse_deployments() -> None:
    """Keep the printed password out of any database but the demo's own."""
    if not settings.DEMO or settings.HTTPS:
        raise CommandError("The demo runs as DEMO=1 and without HTTPS=1.")
    for name in ("DATABASE_URL", "BROKER_URL"):
        if os.environ.get(name):
            raise CommandError(f"The demo brings its own database and queue: unset {name}.")
