"""DBOS: workflow + step + recv(timeout), hosted by two app processes.

modes: async  - async workflows started in the app process (recv_async holds a coroutine); its helper
                threads are capped at 64, since by default a burst starts one per call
       sync   - sync workflows (recv holds a thread)
       queue  - started from another process with DBOSClient.enqueue (default 1 s queue polling)
"""

import asyncio
import os
import sys
import threading
import time

import harness


class Dbos(harness.Peer):
    name = "dbos"
    n_workers = 2  # CPU-bound in Python: one process per core
    # parked: recv recorded its durable deadline (the DBOS.sleep row); done: result stored
    parked_one_sql = (
        "SELECT 1 FROM dbos.operation_outputs WHERE workflow_uuid = %(id)s"
        " AND function_name = 'DBOS.sleep'"
    )
    parked_sql = (
        "SELECT count(*) FROM dbos.operation_outputs WHERE workflow_uuid LIKE %(p)s"
        " AND function_name = 'DBOS.sleep'"
    )
    done_one_sql = (
        "SELECT 1 FROM dbos.workflow_status WHERE workflow_uuid = %(id)s AND status = 'SUCCESS'"
    )
    done_sql = "SELECT count(*) FROM dbos.workflow_status WHERE workflow_uuid LIKE %(p)s AND status = 'SUCCESS'"

    def __init__(self, args):
        super().__init__(args)
        self.name = "dbos-" + args.mode
        if args.mode == "queue":
            self.single_pause = 0.5  # spreads the starts over the 1 s polling interval

    def setup(self):
        super().setup()
        if self.args.mode == "queue":
            from dbos import DBOSClient

            self.client_cls = DBOSClient
            self.client = None

    def start_workers(self):
        super().start_workers()
        if self.args.mode == "queue":
            self.client = self.client_cls(system_database_url=self.url)

    def start(self, ids, timeout):
        if self.args.mode != "queue":
            return super().start(ids, timeout)
        harness.parallel(
            lambda c: [
                self.client.enqueue(
                    {"workflow_name": "run", "queue_name": "q", "workflow_id": r}, r, timeout
                )
                for r in c
            ],
            ids,
            self.clients,
        )

    def answer(self, ids):
        if self.args.mode != "queue":
            return super().answer(ids)
        harness.parallel(
            lambda c: [self.client.send(r, "yes", "decision") for r in c], ids, self.clients
        )

    def deadlines(self, prefix):
        rows = self.conn.execute(
            "SELECT workflow_uuid, output FROM dbos.operation_outputs WHERE"
            " function_name = 'DBOS.sleep' AND workflow_uuid LIKE %s",
            (prefix + "%",),
        ).fetchall()
        return {r: decode(o) for r, o in rows}

    def versions(self):
        from importlib.metadata import version

        return {
            "dbos": version("dbos"),
            "psycopg": version("psycopg"),
            "sqlalchemy": version("sqlalchemy"),
        }


def decode(output):
    """DBOS.sleep stores its end time with the default (portable or pickle) serializer."""
    try:
        return float(output)
    except ValueError:
        import base64
        import pickle

        return float(pickle.loads(base64.b64decode(output)))


def worker(args):
    from dbos import DBOS, SetWorkflowID

    url = os.environ["PEER_URL"]
    aio = args.mode != "sync"
    DBOS(
        config={
            "name": "peer",
            "system_database_url": url,
            "log_level": "WARNING",
            "application_version": "1",
            "executor_id": f"w{args.worker}",
            **({"max_executor_threads": 64} if aio else {}),
        }
    )

    if aio:
        from psycopg_pool import AsyncConnectionPool

        pool = AsyncConnectionPool(
            url, min_size=8, max_size=8, kwargs={"autocommit": True}, open=False
        )
        opened = []

        @DBOS.step()
        async def one(n):
            return n + 1

        @DBOS.step()
        async def two(r, kind):
            if not opened:
                opened.append(1)
                await pool.open()
            async with pool.connection() as c:
                await c.execute(harness.EFFECT_SQL, (r, kind, time.time()))
            return kind

        @DBOS.workflow(name="run")
        async def run(r, timeout):
            await one(1)
            got = await DBOS.recv_async("decision", timeout_seconds=timeout)
            return await two(r, got or "timeout")
    else:
        from psycopg_pool import ConnectionPool

        pool = ConnectionPool(url, min_size=8, max_size=8, kwargs={"autocommit": True}, open=True)

        @DBOS.step()
        def one(n):
            return n + 1

        @DBOS.step()
        def two(r, kind):
            with pool.connection() as c:
                c.execute(harness.EFFECT_SQL, (r, kind, time.time()))
            return kind

        @DBOS.workflow(name="run")
        def run(r, timeout):
            one(1)
            got = DBOS.recv("decision", timeout_seconds=timeout)
            return two(r, got or "timeout")

    DBOS.launch()
    if args.mode == "queue":
        DBOS.register_queue("q")

    def start(r, timeout):
        with SetWorkflowID(r):
            DBOS.start_workflow(run, r, timeout)

    def answer(r, v):
        DBOS.send(r, v, "decision")

    if not aio:
        return harness.pipe_worker(start, answer, 8)

    # an async app: everything on one loop, bounded only by DBOS's own pools
    loop = asyncio.new_event_loop()

    async def astart(r, timeout):
        with SetWorkflowID(r):
            await DBOS.start_workflow_async(run, r, timeout)

    async def aanswer(r, v):
        await DBOS.send_async(r, v, "decision")

    threading.Thread(target=loop.run_forever, daemon=True).start()

    def submit(coro):
        def report(f):
            if f.exception():
                print(f.exception(), file=sys.stderr, flush=True)

        asyncio.run_coroutine_threadsafe(coro, loop).add_done_callback(report)

    print("ready", flush=True)
    for line in sys.stdin:
        op, r, v = line.split()
        submit(astart(r, float(v)) if op == "S" else aanswer(r, v))


if __name__ == "__main__":
    harness.main(Dbos, worker, ("async", "sync", "queue"))
