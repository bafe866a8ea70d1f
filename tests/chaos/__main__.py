"""`python -m tests.chaos --seed N --minutes M --broker redis|rabbitmq`; ends with 1 on a violation.

The logs of a run that found something, or in which a process ended unasked, stay in `var/chaos/`;
of any other only its report does.
"""

import argparse
import os
import shutil
import signal
import sys

import django

from tests.chaos import crew
from tests.chaos.brokers import PrivateRedis, RabbitVhost
from tests.chaos.postgres import Postgres, free_port
from tests.chaos.processes import ROOT

REPORTS = ("report.txt", "report.json")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--broker", choices=("redis", "rabbitmq"), default="redis")
    parser.add_argument("--keep", action="store_true", help="keep the logs in any case")
    chosen = parser.parse_args()
    # Asked to stop, it ends what it started.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    folder = ROOT / "var" / "chaos" / f"{chosen.broker}-{chosen.seed}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    postgres = Postgres(folder / "postgres.log")
    broker = PrivateRedis(folder) if chosen.broker == "redis" else RabbitVhost(folder)
    web_port = free_port()
    told = crew.environment(
        database_url=postgres.url,
        broker_url=broker.url,
        web_port=web_port,
        receiver_port=free_port(),
        folder=folder,
    )
    os.environ.update(told)
    os.environ["LOG_LEVEL"] = "ERROR"
    django.setup()

    from tests.chaos.play import Play, tidy

    try:
        postgres.create()
        broker.start()
        play = Play(
            seed=chosen.seed,
            minutes=chosen.minutes,
            folder=folder,
            postgres=postgres,
            broker=broker,
            environment=told,
            web_port=web_port,
        )
        report = play.perform()
    finally:
        broker.remove()
        postgres.remove()
    report.write(folder)
    sys.stdout.write(report.text())
    if report.violations:
        sys.stdout.write(f"Everything that was logged is in {folder.relative_to(ROOT)}.\n")
        return 1
    if not chosen.keep and not report.unasked:
        tidy(folder, keep=lambda entry: entry.name in REPORTS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
