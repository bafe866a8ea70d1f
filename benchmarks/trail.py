"""Decisions a second with 1, 4 and 16 clients while the trail is chained, and rows verified a second.

    DATABASE_URL=postgres://… python -m benchmarks.trail --decisions 400 --rows 20000

Each client is a process that answers requests of its own, one transaction each, as a web process
does. Beside them a sealer chains the rows, or does not: were answers to wait for the chain, it
would show between the two columns, and most with 16 clients. Rounds take the cases in turn.
"""

import argparse
import multiprocessing
import os
import statistics
import sys
from collections import defaultdict
from time import perf_counter, process_time, sleep
from typing import Any

from benchmarks import results
from benchmarks.results import say

CLIENTS = (1, 4, 16)
PAUSE_S = 0.2


def main() -> int:
    options = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    options.add_argument("--decisions", type=int, default=400, help="in each case of each round")
    options.add_argument("--rows", type=int, default=20_000, help="audit rows to verify at least")
    options.add_argument("--rounds", type=int, default=3)
    chosen = options.parse_args()
    set_up()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    crew = Crew()
    rates: dict[tuple[int, bool], list[float]] = defaultdict(list)
    for number in range(1, chosen.rounds + 1):
        for clients in CLIENTS:
            for chained in (True, False):
                rate = crew.rate(clients, chosen.decisions, chained=chained)
                rates[clients, chained].append(rate)
                say(f"round {number}, {clients} clients, chained {chained}: {rate:.0f}/s")
    medians = {key: statistics.median(found) for key, found in rates.items()}
    verified = verify(chosen.rows)
    told = {"machine": results.machine(server()), "options": vars(chosen), "verify": verified}
    told["per_second"] = {
        f"{clients}, {chained}": rate for (clients, chained), rate in medians.items()
    }
    results.write("trail", told, page(medians, verified))
    return 0


def set_up() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchmarks.settings")
    os.environ.setdefault("SECRET_KEY", "benchmark")
    os.environ.setdefault("LOG_LEVEL", "ERROR")
    import django

    django.setup()


class Crew:
    """The clients, each a process with a connection, and the sealer; all started once."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.chains = context.Event()
        self.pipes = []
        for _ in range(max(CLIENTS)):
            mine, theirs = context.Pipe()
            context.Process(target=decide, args=(theirs,), daemon=True).start()
            self.pipes.append(mine)
        context.Process(target=seal_while, args=(self.chains,), daemon=True).start()
        for pipe in self.pipes:
            pipe.recv()

    def rate(self, clients: int, decisions: int, *, chained: bool) -> float:
        """Open requests, let the clients decide them, and return decisions a second."""
        from hitl import approval
        from hitl.trail import sealing

        ids = [
            str(approval.request(topic="bench", payload={"number": n}).approval_id)
            for n in range(decisions)
        ]
        sealing.seal_loose()
        if chained:
            self.chains.set()
        began = perf_counter()
        for n, pipe in enumerate(self.pipes[:clients]):
            pipe.send(ids[n::clients])
        for pipe in self.pipes[:clients]:
            pipe.recv()
        seconds = perf_counter() - began
        self.chains.clear()
        return decisions / seconds


def decide(pipe: Any) -> None:
    """Be one client: decide what comes, and say when it is done."""
    set_up()
    from django.db import transaction

    import hitl
    from hitl import approval

    ids = [str(approval.request(topic="bench", payload={}).approval_id)]  # to load everything
    while True:
        for one in ids:
            with transaction.atomic(durable=True):
                assert hitl.decide(one, True, actor="bench").delivered
        pipe.send("done")
        try:
            ids = pipe.recv()
        except EOFError:  # the benchmark is over
            return


def seal_while(chains: Any) -> None:
    """Be the sweep that chains the rows, many times as often as a real one."""
    set_up()
    from hitl.trail import sealing

    while True:
        chains.wait()
        sealing.seal_loose()
        sleep(PAUSE_S)


def verify(rows_min: int) -> dict[str, float]:
    """Write audit rows up to so many, seal them and verify all."""
    from hitl import audit, clock
    from hitl.models import Decision, Park, Verb
    from hitl.trail import sealing, verifying

    park = Park.objects.order_by("id")[0]
    while (missing := rows_min - Decision.objects.count()) > 0:
        who = audit.person("bench", "python")
        audit.append(
            audit.row(park, Verb.REFUSED, who, at=clock.now(), detail={"tried": "approve"})
            for _ in range(min(missing, 1000))
        )
    began = perf_counter()
    sealed = sealing.seal_loose(batches_max=10_000)
    sealing_s = perf_counter() - began
    began, cpu = perf_counter(), process_time()
    report = verifying.verify()
    seconds, cpu_s = perf_counter() - began, process_time() - cpu
    assert report.is_sound, report.flaws[:3]
    return {
        "rows": report.rows,
        "per_second": report.rows / seconds,
        "per_cpu_second": report.rows / cpu_s,
        "sealed": sealed,
        "sealed_per_second": sealed / sealing_s if sealed else 0.0,
    }


def page(medians: dict[tuple[int, bool], float], verified: dict[str, float]) -> str:
    rows = [
        [
            clients,
            f"{medians[clients, True]:.0f}",
            f"{medians[clients, False]:.0f}",
            f"{medians[clients, True] / medians[clients, False]:.2f}×",
        ]
        for clients in CLIENTS
    ]
    head = ["clients", "decisions/s, chained meanwhile", "decisions/s, not chained", "ratio"]
    return (
        f"{results.table(head, rows)}\n"
        f"Verified {verified['rows']:,.0f} audit rows at {verified['per_second']:,.0f} a second, "
        f"{verified['per_cpu_second']:,.0f} a second of its own processor time; "
        f"sealed {verified['sealed']:,.0f} at {verified['sealed_per_second']:,.0f} a second.\n"
    )


def server() -> str:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT version()")
        return str(cursor.fetchone()[0])


if __name__ == "__main__":
    sys.exit(main())
