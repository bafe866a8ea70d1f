"""Procrastinate (a PostgreSQL job queue): scenario P put together by hand, the queue baseline.

It has no 'wait for a person', so: job one stores step one and parks the run in a table of ours and
defers an expiry job for the deadline; the answer marks the row and defers job two.  Two worker
processes, 10 async jobs each.  Stalled jobs are retried by a periodic task, as its manual advises.
"""

import os
import threading
import time
from datetime import UTC

import harness
import psycopg

TAKE = (
    "UPDATE runs SET answer = %s, state = 'answered' WHERE id = %s AND state = 'parked' RETURNING 1"
)


class ProcrastinatePeer(harness.Peer):
    name = "procrastinate"
    n_workers = 2
    parked_one_sql = "SELECT 1 FROM runs WHERE id = %(id)s AND state = 'parked'"
    parked_sql = "SELECT count(*) FROM runs WHERE id LIKE %(p)s AND state = 'parked'"
    done_one_sql = "SELECT 1 FROM runs WHERE id = %(id)s AND state = 'done'"
    done_sql = "SELECT count(*) FROM runs WHERE id LIKE %(p)s AND state = 'done'"
    deadlines_sql = (
        "SELECT args->>'r', extract(epoch FROM scheduled_at)::float8 FROM procrastinate_jobs"
        " WHERE task_name = 'expire' AND args->>'r' LIKE %(p)s"
    )

    def create_schema(self):
        from procrastinate import App, SyncPsycopgConnector

        with psycopg.connect(self.url, autocommit=True) as c:
            c.execute(
                "CREATE TABLE runs(id text PRIMARY KEY, state text NOT NULL, step1 jsonb, answer text, result text)"
            )
        app = App(connector=SyncPsycopgConnector(conninfo=self.url, min_size=8, max_size=8))
        app.open()
        app.schema_manager.apply_schema()
        self.app = app
        self.pool_conns = threading.local()

    def close(self):
        super().close()
        self.app.close()

    def start(self, ids, timeout):
        one = self.app.configure_task("one")
        self._each(lambda c: [one.defer(r=r, timeout=timeout) for r in c], ids)

    def answer(self, ids):
        two = self.app.configure_task("two")

        def go(chunk):
            c = self.pool_conns
            if getattr(c, "url", None) != self.url:
                c.url, c.conn = self.url, psycopg.connect(self.url, autocommit=True)
            for r in chunk:
                if c.conn.execute(TAKE, ("yes", r)).fetchone():
                    two.defer(r=r)

        self._each(go, ids)

    def _each(self, go, ids):
        go(ids) if len(ids) == 1 else harness.parallel(go, ids, self.clients)

    def versions(self):
        from importlib.metadata import version

        return {p: version(p) for p in ("procrastinate", "psycopg")}


def worker(args):
    import asyncio
    from datetime import datetime, timedelta, timezone

    from procrastinate import App, PsycopgConnector
    from psycopg_pool import AsyncConnectionPool

    url = os.environ["PEER_URL"]
    app = App(connector=PsycopgConnector(conninfo=url, min_size=4, max_size=12))
    pool = AsyncConnectionPool(
        url, min_size=4, max_size=10, kwargs={"autocommit": True}, open=False
    )

    async def finish(r, kind):
        async with pool.connection() as c:
            await c.execute(harness.EFFECT_SQL, (r, kind, time.time()))
            await c.execute("UPDATE runs SET state = 'done', result = %s WHERE id = %s", (kind, r))

    @app.task(name="one")
    async def one(r, timeout):
        async with pool.connection() as c:
            await c.execute(
                "INSERT INTO runs(id, state, step1) VALUES (%s, 'parked', '{\"n\": 2}')", (r,)
            )
        await expire.configure(
            schedule_at=datetime.now(UTC) + timedelta(seconds=timeout)
        ).defer_async(r=r)

    @app.task(name="two")
    async def two(r):
        await finish(r, "yes")

    @app.task(name="expire")
    async def expire(r):
        async with pool.connection() as c:
            if not await (await c.execute(TAKE, ("timeout", r))).fetchone():
                return
        await finish(r, "timeout")

    @app.periodic(cron="* * * * *")
    @app.task(name="retry_stalled", queueing_lock="retry_stalled", pass_context=True)
    async def retry_stalled(context, timestamp):
        for job in await app.job_manager.get_stalled_jobs():
            await app.job_manager.retry_job(job)

    async def main():
        async with app.open_async():
            await pool.open()
            print("ready", flush=True)
            await app.run_worker_async(concurrency=10, install_signal_handlers=False)

    asyncio.run(main())


if __name__ == "__main__":
    harness.main(ProcrastinatePeer, worker)
