"""A hundred thousand requests due at the same moment, and people who answer others meanwhile.

    python -m benchmarks.flood --due 100000 --seconds 90

Real workers and beat, started as by default. Before and while what is due is worked off, a client
opens the inbox, answers requests of its own and waits until their runs have gone on.
"""

import argparse
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "peers"))

import harness
import measuring
import peer_sayso
from django.contrib.auth import get_user_model
from django.test import Client

from agents.models import Run
from benchmarks import crowd, results
from benchmarks.results import say
from hitl import parks
from hitl.models import Park

LEAD_S = 15


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--due", type=int, default=100_000)
    options.add_argument("--seconds", type=float, default=90, help="how long to watch")
    options.add_argument("--own", type=int, default=120, help="requests of the client, at most")
    args = options.parse_args()
    peer = peer_sayso.Sayso(argparse.Namespace(mode="", **vars(args)))
    peer.setup()
    peer.start_workers()
    try:
        harness.warm(peer, 20)
        found = flood(peer, args)
        [server] = peer.conn.execute("SELECT version()").fetchone()
    finally:
        peer.close()
    whole = {"machine": results.machine(server), "options": vars(args), **found}
    results.write("flood", whole, page_of(found, args))
    return 0


def flood(peer: Any, args: argparse.Namespace) -> dict[str, Any]:
    """Fill the database, look before, let it all fall due, look while it is worked off."""
    own = [f"o{number:04d}" for number in range(args.own)]
    peer.start([*own, "pattern", "settled"], harness.LONG)
    measuring.wait_for(lambda: peer.parked("") >= len(own) + 2, 300, 0.2)
    pattern, other = (Run.objects.get(id=peer.runs[name][1]) for name in ("pattern", "settled"))
    parks.cancel(Park.objects.get(waiter_id=other.id).id, actor="bench", channel="python")
    measuring.wait_for(lambda: Run.objects.filter(id=other.id, status="COMPLETED").exists(), 60)
    crowd.gather(pattern, other, total=args.due + 1, waiting=args.due)
    browser = Client(HTTP_HOST="localhost")
    browser.force_login(
        get_user_model().objects.create_user("ana", is_superuser=True, is_staff=True)
    )
    say("before")
    before = watch(peer, browser, own, LEAD_S)
    peer.conn.execute(
        "UPDATE hitl_park SET expires_at = now() + interval '1 second'"
        " WHERE status = 'pending' AND id::text LIKE '018bcf%'"
    )
    say("due")
    time.sleep(1)
    began, start = progress(peer), time.time()
    meanwhile = watch(peer, browser, own, args.seconds)
    ended, seconds = progress(peer), time.time() - start
    rates = {name: round((ended[name] - began[name]) / seconds, 1) for name in began}
    return {"before": before, "meanwhile": meanwhile, "per_second": rates, "after": ended}


def progress(peer: Any) -> dict[str, int]:
    """Return how many have expired and how many runs are done."""
    expired = peer.conn.execute("SELECT count(*) FROM hitl_park WHERE status = 'timed_out'")
    done = peer.conn.execute("SELECT count(*) FROM agents_run WHERE status = 'COMPLETED'")
    return {"expired": expired.fetchone()[0], "done": done.fetchone()[0]}


def watch(peer: Any, browser: Client, own: list[str], seconds: float) -> dict[str, Any]:
    """Open the inbox, answer and wait for the run, again and again; returns medians and worst."""
    times: dict[str, list[float]] = {"inbox": [], "answer": [], "answer to done": []}
    queued, end = [0], time.time() + seconds
    while time.time() < end and own:
        name = own.pop()
        began = time.perf_counter()
        assert browser.get("/admin/hitl/park/").status_code == 200
        times["inbox"].append(time.perf_counter() - began)
        began = time.perf_counter()
        peer.answer([name])
        times["answer"].append(time.perf_counter() - began)
        harness.spin(lambda one=name: peer.done_one(one), 300)
        times["answer to done"].append(time.perf_counter() - began)
        rows = peer.conn.execute("SELECT count(*) FROM agents_run WHERE status = 'QUEUED'")
        queued.append(rows.fetchone()[0])
        time.sleep(0.5)
    shown = {
        name: [round(statistics.median(each), 3), round(max(each), 3)]
        for name, each in times.items()
    }
    return {**shown, "queued at most": max(queued), "answered": len(times["answer"])}


def page_of(found: dict[str, Any], args: argparse.Namespace) -> str:
    """Return the table: before, and while it is worked off."""
    rows = [
        [name, *(" / ".join(map(str, found[when][name])) for when in ("before", "meanwhile"))]
        for name in ("inbox", "answer", "answer to done")
    ]
    rate = found["per_second"]
    text = results.table(["median / worst, s", "before", f"{args.due:,} due"], rows)
    return text + (
        f"\n{rate['expired']} requests a second were settled and {rate['done']} runs a second "
        f"ended meanwhile; no more than {found['meanwhile']['queued at most']} runs were queued.\n"
    )


if __name__ == "__main__":
    sys.exit(main())
