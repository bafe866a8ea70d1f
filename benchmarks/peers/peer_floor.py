"""The floor: scenario P written by hand on psycopg, nothing between the code and PostgreSQL.

Four commits a run: accepted; step one + parked; decision recorded; step two + effect + done.
Expiry is one thread that looks for due rows every 50 ms.  Not a product: a yardstick.
"""

import os
import threading
import time

import harness
import psycopg


class Floor(harness.Peer):
    name = "floor"
    parked_one_sql = "SELECT 1 FROM runs WHERE id = %(id)s AND state = 'parked'"
    parked_sql = "SELECT count(*) FROM runs WHERE id LIKE %(p)s AND state = 'parked'"
    done_one_sql = "SELECT 1 FROM runs WHERE id = %(id)s AND state = 'done'"
    done_sql = "SELECT count(*) FROM runs WHERE id LIKE %(p)s AND state = 'done'"
    deadlines_sql = "SELECT id, deadline FROM runs WHERE id LIKE %(p)s"

    def create_schema(self):
        with psycopg.connect(self.url, autocommit=True) as c:
            c.execute(
                "CREATE TABLE runs(id text PRIMARY KEY, input jsonb NOT NULL, state text NOT NULL,"
                " step1 jsonb, deadline double precision, answer text, result jsonb)"
            )
            c.execute("CREATE INDEX ON runs(deadline) WHERE state = 'parked'")

    def versions(self):
        return {"psycopg": psycopg.__version__}


def worker(args):
    url = os.environ["PEER_URL"]
    local = threading.local()

    def conn():
        if not hasattr(local, "c"):
            local.c = psycopg.connect(url, autocommit=True)
        return local.c

    def start(r, timeout):
        c = conn()
        c.execute("INSERT INTO runs(id, input, state) VALUES (%s, '{\"n\": 1}', 'running')", (r,))
        c.execute(
            "UPDATE runs SET step1 = '{\"n\": 2}', state = 'parked', deadline = %s WHERE id = %s",
            (time.time() + timeout, r),
        )

    def finish(r, kind):
        c = conn()
        with c.transaction():
            if c.execute(
                "UPDATE runs SET state = 'done', result = to_jsonb(%s::text) WHERE id = %s"
                " AND state <> 'done' RETURNING 1",
                (kind, r),
            ).fetchone():
                c.execute(harness.EFFECT_SQL, (r, kind, time.time()))

    def answer(r, v):
        if (
            conn()
            .execute(
                "UPDATE runs SET answer = %s, state = 'answered' WHERE id = %s AND state = 'parked'"
                " RETURNING 1",
                (v, r),
            )
            .fetchone()
        ):
            finish(r, v)

    def expire():
        while True:
            for (r,) in (
                conn()
                .execute(
                    "SELECT id FROM runs WHERE state = 'parked' AND deadline <= %s"
                    " ORDER BY deadline LIMIT 200",
                    (time.time(),),
                )
                .fetchall()
            ):
                finish(r, "timeout")
            time.sleep(0.05)

    # recovery: an answered run whose process died before step two
    for r, v in conn().execute("SELECT id, answer FROM runs WHERE state = 'answered'").fetchall():
        finish(r, v)
    threading.Thread(target=expire, daemon=True).start()
    harness.pipe_worker(start, answer, 8)


if __name__ == "__main__":
    harness.main(Floor, worker)
