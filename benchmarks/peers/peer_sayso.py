"""Sayso: scenario P on PostgreSQL and Redis, default settings.

modes: agent    - an agent with one gated tool
       workflow - a durable workflow: a step, request_approval, a step with the effect

The client commits a start and an answer through the public verbs; a prefork worker (2 processes)
runs the segments and the expiries, beat asks for the sweep.
"""

import os
import sys
import time
from pathlib import Path

import harness

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))
URL = harness.dsn("peer_sayso")
os.environ.setdefault("SECRET_KEY", "benchmark")
os.environ.setdefault("LOG_LEVEL", "WARNING")
os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.settings"
os.environ["DATABASE_URL"] = URL
os.environ["BROKER_URL"] = f"redis://127.0.0.1:{os.environ.get('PEERS_REDIS_PORT', '6379')}/4"
os.environ["PYTHONPATH"] = str(ROOT)

import django  # noqa: E402

django.setup()

from django.core.management import call_command  # noqa: E402
from django.db import connection  # noqa: E402

import hitl  # noqa: E402
from agents import threads  # noqa: E402
from agents.models import ToolCall  # noqa: E402
from benchmarks.app.agents import name  # noqa: E402
from benchmarks.app.workflows import passage  # noqa: E402
from hitl.models import Park  # noqa: E402
from project.celery import app  # noqa: E402

# What tells a run is the first thing in its input; a join for each look would cost what it watches.
SHOWS = "SELECT count(*) FROM agents_run WHERE input LIKE '{{\"{key}\":\"' || %(p)s AND status = '{status}'"
# A workflow's run has no title: what tells it is in its input.
RUN = "(r.input::json ->> 'run')"
OF_RUN = "FROM hitl_park p JOIN agents_run r ON r.id = p.waiter_id WHERE " + RUN + " LIKE %(p)s"


class Sayso(harness.Peer):
    name = "sayso"
    n_workers = 2
    parked_sql = SHOWS.format(key="message", status="WAITING_FOR_INPUT")
    done_sql = SHOWS.format(key="message", status="COMPLETED")
    parked_one_sql = "SELECT 1 FROM agents_run WHERE id = %(id)s AND status = 'WAITING_FOR_INPUT'"
    done_one_sql = "SELECT 1 FROM agents_run WHERE id = %(id)s AND status = 'COMPLETED'"
    deadlines_sql = (
        "SELECT t.title, extract(epoch FROM p.expires_at)::float8 FROM agents_thread t"
        " JOIN hitl_park p ON p.scope = t.id WHERE t.title LIKE %(p)s"
    )

    def setup(self):
        super().setup()
        self.runs, self.known = {}, {}
        with app.pool.acquire(block=True) as broker:
            broker.default_channel.client.flushdb()

    def create_schema(self):
        connection.close()
        call_command("migrate", verbosity=0)

    def worker_argv(self, i):
        celery = [sys.executable, "-m", "celery", "-A", "benchmarks.worker", "--workdir", str(ROOT)]
        if i == 1:
            return [sys.executable, os.path.abspath(__file__), "--worker", "beat"]
        return [
            *celery, "worker", "-c", "2", "-l", "WARNING", "-Q", "agents,deadlines",
            "--without-gossip", "--without-mingle", "-n", f"w{time.time_ns()}@h",
        ]  # fmt: skip

    def pids(self):
        own = super().pids()
        kids = [
            int(k) for p in own for k in Path(f"/proc/{p}/task/{p}/children").read_text().split()
        ]
        return own + kids

    def kill_workers(self):
        import signal

        for pid in self.pids():
            harness.quiet(os.kill, pid, signal.SIGKILL)
        super().kill_workers()

    def close(self):
        super().close()
        connection.close()

    def start(self, ids, timeout):
        def go(chunk):
            for r in chunk:
                thread = threads.start(name(timeout), r, title=r)
                self.runs[r] = (thread.id, thread.current_run_id)
            if len(ids) > 1:
                connection.close()

        self._each(go, ids)

    def look_up(self, ids):
        """Learn the keys that answer these runs, as whoever was shown the question knows them."""
        self.known |= self.keys(ids)

    def keys(self, ids):
        """{run: the key that answers it}"""
        calls = ToolCall.objects.filter(run_id__in=[self.runs[r][1] for r in ids])
        return dict(calls.values_list("run_id", "id"))

    def answer(self, ids):
        if any(self.runs[r][1] not in self.known for r in ids):
            self.look_up(ids)

        def go(chunk):
            for r in chunk:
                thread_id, run_id = self.runs[r]
                hitl.respond(thread_id, self.known[run_id], True)
            if len(ids) > 1:
                connection.close()

        self._each(go, ids)

    def _each(self, go, ids):
        go(ids) if len(ids) == 1 else harness.parallel(go, ids, self.clients)

    def parked_one(self, r):
        return super().parked_one(self.runs[r][1])

    def done_one(self, r):
        return super().done_one(self.runs[r][1])

    closed_sql = (
        "SELECT t.title, extract(epoch FROM p.settled_at)::float8 FROM agents_thread t"
        " JOIN hitl_park p ON p.scope = t.id WHERE t.title LIKE %(p)s"
    )
    in_doubt_sql = (
        "SELECT t.title FROM agents_thread t JOIN hitl_park p ON p.scope = t.id"
        " WHERE t.title LIKE %(p)s AND p.reason = 'in_doubt' AND p.status = 'pending'"
    )

    def closed(self, prefix):
        return dict(self.conn.execute(self.closed_sql, {"p": prefix + "%"}).fetchall())

    def in_doubt(self, prefix):
        return {r for (r,) in self.conn.execute(self.in_doubt_sql, {"p": prefix + "%"}).fetchall()}

    def versions(self):
        from importlib.metadata import version

        return {p: version(p) for p in ("celery", "kombu", "redis", "django", "psycopg")}


class SaysoWorkflow(Sayso):
    parked_sql = SHOWS.format(key="run", status="WAITING_FOR_INPUT")
    done_sql = SHOWS.format(key="run", status="COMPLETED")
    deadlines_sql = f"SELECT {RUN}, extract(epoch FROM p.expires_at)::float8 {OF_RUN}"
    closed_sql = f"SELECT {RUN}, extract(epoch FROM p.settled_at)::float8 {OF_RUN}"
    in_doubt_sql = f"SELECT {RUN} {OF_RUN} AND p.reason = 'in_doubt' AND p.status = 'pending'"

    def start(self, ids, timeout):
        def go(chunk):
            for r in chunk:
                run = passage.start(r, timeout)
                self.runs[r] = (run.id, run.id)
            if len(ids) > 1:
                connection.close()

        self._each(go, ids)

    def keys(self, ids):
        asked = Park.objects.filter(waiter_id__in=[self.runs[r][1] for r in ids], reason="approval")
        return dict(asked.values_list("waiter_id", "key"))


def peer(args):
    return (SaysoWorkflow if args.mode == "workflow" else Sayso)(args)


def beat(args):
    """Run beat in this process and say so once it has started."""
    from celery.signals import beat_init

    @beat_init.connect
    def ready(**_):
        os.write(1, b"ready\n")

    app.Beat(loglevel="WARNING", max_interval=5).run()


if __name__ == "__main__":
    harness.main(peer, beat, modes=("agent", "workflow"))
