"""Absurd: task + step + await_event(timeout) on PostgreSQL, two worker processes (one per core).

The client (this driver) spawns tasks and emits events with 8 connections.  Default polling, 0.25 s.
A parked task is a row: no process holds it.  Timeouts are whole seconds.
"""

import os
import subprocess
import sys
import threading

import harness

QUEUE = "q"


class AbsurdPeer(harness.Peer):
    name = "absurd"
    n_workers = 2
    single_pause = 0.13
    int_timeouts = True
    # a task is parked when its run sleeps on a wait; tasks are found by idempotency key = run id
    parked_one_sql = (
        f"SELECT 1 FROM absurd.t_{QUEUE} t JOIN absurd.w_{QUEUE} w USING (task_id)"
        " WHERE t.idempotency_key = %(id)s AND t.state = 'sleeping'"
    )
    parked_sql = f"SELECT count(*) FROM absurd.t_{QUEUE} t WHERE t.idempotency_key LIKE %(p)s AND t.state = 'sleeping'"
    done_one_sql = (
        f"SELECT 1 FROM absurd.t_{QUEUE} WHERE idempotency_key = %(id)s AND state = 'completed'"
    )
    done_sql = f"SELECT count(*) FROM absurd.t_{QUEUE} WHERE idempotency_key LIKE %(p)s AND state = 'completed'"
    deadlines_sql = (
        f"SELECT t.idempotency_key, extract(epoch FROM w.timeout_at)::float8 FROM absurd.t_{QUEUE} t"
        f" JOIN absurd.w_{QUEUE} w USING (task_id) WHERE t.idempotency_key LIKE %(p)s"
    )

    def create_schema(self):
        tool = os.path.join(os.path.dirname(sys.executable), "absurdctl")
        for argv in (["init"], ["create-queue", QUEUE]):
            subprocess.run(
                [tool, argv[0], "-d", self.url, *argv[1:]], check=True, stdout=subprocess.DEVNULL
            )
        self._conns = threading.local()

    def app(self):
        from absurd_sdk import Absurd

        if getattr(self._conns, "url", None) != self.url:
            self._conns.url, self._conns.app = self.url, Absurd(self.url, queue_name=QUEUE)
        return self._conns.app

    def start(self, ids, timeout):
        def go(chunk):
            app = self.app()
            for r in chunk:
                app.spawn("run", {"r": r, "timeout": int(timeout)}, queue=QUEUE, idempotency_key=r)

        self._each(go, ids)

    def answer(self, ids):
        def go(chunk):
            app = self.app()
            for r in chunk:
                app.emit_event("decision:" + r, "yes")

        self._each(go, ids)

    def _each(self, go, ids):
        go(ids) if len(ids) == 1 else harness.parallel(go, ids, self.clients)

    def versions(self):
        from importlib.metadata import version

        return {p: version(p) for p in ("absurd-sdk", "absurdctl", "psycopg")}


def worker(args):
    from absurd_sdk import Absurd
    from absurd_sdk import TimeoutError as Expired

    url = os.environ["PEER_URL"]
    app = Absurd(url, queue_name=QUEUE)

    @app.register_task(name="run")
    def run(params, ctx):
        r = params["r"]
        ctx.step("one", lambda: 2)
        try:
            kind = ctx.await_event("decision:" + r, timeout=params["timeout"])
        except Expired:
            kind = "timeout"

        def two():
            harness.effect(url, r, kind)
            return kind

        return ctx.step("two", two)

    print("ready", flush=True)
    app.start_worker(
        concurrency=8 if args.mode == "threads" else 1,
        batch_size=None if args.mode == "threads" else 8,
    )


if __name__ == "__main__":
    harness.main(AbsurdPeer, worker, ("serial", "threads"))
