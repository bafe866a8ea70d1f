"""The machine's physical limits: fsync, PostgreSQL commits, psycopg, Django ORM, Redis.  One JSON line.

Set PEERS_REDIS_PORT to a Redis of your own (without persistence); without it those rows are left out.
"""

import json
import os
import subprocess
import tempfile
import threading
import time

import harness
import psycopg

SECONDS = float(os.environ.get("LIMITS_SECONDS", "4"))
DIR = os.environ.get("PEERS_TMP", ".")


def fsync_ms(n=300):
    """8 KiB append + fdatasync, as a WAL flush does."""
    t = []
    with tempfile.NamedTemporaryFile(dir=DIR) as f:
        f.write(b"\0" * 16 * 2**20)
        os.fsync(f.fileno())
        for i in range(n):
            a = time.perf_counter()
            os.pwrite(f.fileno(), b"x" * 8192, (i % 2000) * 8192)
            os.fdatasync(f.fileno())
            t.append(time.perf_counter() - a)
    return harness.ms(t)


def pgbench(db, clients, script):
    with tempfile.NamedTemporaryFile("w", suffix=".sql", dir=DIR) as f:
        f.write(script)
        f.flush()
        out = subprocess.run(
            [
                "pgbench",
                "-n",
                "-M",
                "prepared",
                "-h",
                harness.HOST,
                "-p",
                harness.PORT,
                "-U",
                harness.USER,
                "-c",
                str(clients),
                "-j",
                str(min(clients, 2)),
                "-T",
                str(int(SECONDS)),
                "-f",
                f.name,
                db,
            ],
            capture_output=True,
            text=True,
        )
    tps = [x for x in out.stdout.splitlines() if x.startswith("tps")]
    if not tps:
        raise RuntimeError(out.stderr[-300:])
    return round(float(tps[0].split()[2]), 1)


def rate(fn, seconds=SECONDS):
    """fn() per second on one thread, and CPU ms of this process per call."""
    fn()
    end, n, t, c = time.perf_counter() + seconds, 0, time.perf_counter(), time.process_time()
    while time.perf_counter() < end:
        fn()
        n += 1
    dt = time.perf_counter() - t
    return {"per_s": round(n / dt, 1), "cpu_ms": round((time.process_time() - c) / n * 1000, 3)}


def rate_threads(make, k, seconds=SECONDS):
    counts, stop = [0] * k, time.perf_counter() + seconds

    def go(i):
        fn = make()
        while time.perf_counter() < stop:
            fn()
            counts[i] += 1

    ts = [threading.Thread(target=go, args=(i,)) for i in range(k)]
    t = time.perf_counter()
    [x.start() for x in ts]
    [x.join() for x in ts]
    return round(sum(counts) / (time.perf_counter() - t), 1)


def django_rates(db):
    from django.conf import settings

    settings.configure(
        DATABASES={
            "default": {
                "ENGINE": "django.db.backends.postgresql",
                "NAME": db,
                "HOST": harness.HOST,
                "PORT": harness.PORT,
                "USER": harness.USER,
                "CONN_MAX_AGE": None,
            }
        },
        INSTALLED_APPS=[],
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        USE_TZ=True,
    )
    import django

    django.setup()
    from django.db import connection, models, transaction

    class Effect(models.Model):
        run_id = models.TextField()
        kind = models.TextField()
        at = models.FloatField()

        class Meta:
            app_label = "limits"
            db_table = "app_effects"
            managed = False

    out = {"create_commit": rate(lambda: Effect.objects.create(run_id="a", kind="b", at=1.0))}
    pk = Effect.objects.create(run_id="a", kind="b", at=1.0).pk
    out["get"] = rate(lambda: Effect.objects.get(pk=pk))

    def locked():
        with transaction.atomic():
            e = Effect.objects.select_for_update().get(pk=pk)
            e.at += 1
            e.save(update_fields=["at"])

    out["lock_update_commit"] = rate(locked)

    def in_one():
        with transaction.atomic():
            for _ in range(100):
                Effect.objects.create(run_id="a", kind="b", at=1.0)

    r = rate(in_one)
    out["create_100_per_commit_rows"] = {
        "per_s": round(r["per_s"] * 100, 1),
        "cpu_ms": round(r["cpu_ms"] / 100, 3),
    }
    connection.close()
    out["version"] = django.get_version()
    return out


def redis_rates(port):
    import redis

    r = redis.Redis(port=port)
    r.flushdb()
    out = {"ping": rate(r.ping)}
    stop = threading.Event()

    def echo():
        c = redis.Redis(port=port)
        while not stop.is_set():
            m = c.brpop("there", timeout=1)
            if m:
                c.lpush("back", m[1])

    th = threading.Thread(target=echo, daemon=True)
    th.start()
    t = []
    for i in range(500):
        a = time.perf_counter()
        r.lpush("there", "x")
        r.brpop("back", timeout=5)
        t.append(time.perf_counter() - a)
    stop.set()
    out["lpush_brpop_there_and_back"] = harness.ms(t)
    out["lpush"] = rate(lambda: r.lpush("sink", "x" * 200))
    out["server"] = r.info()["redis_version"]
    r.flushdb()
    return out


def main():
    with psycopg.connect(harness.dsn("postgres")) as c:
        postmaster = harness._stat(c.info.backend_pid)[0]
        server = c.execute("SHOW server_version").fetchone()[0]
    load = harness.Load(postmaster)
    url = harness.fresh_db("limits")
    out = {"peer": "limits", "postgres": server, "fsync": fsync_ms()}
    insert = "INSERT INTO app_effects(run_id, kind, at) VALUES ('a', 'b', 1);\n"
    for k in (1, 2, 8, 32):
        out[f"pg_commits_per_s_{k}"] = pgbench("limits", k, insert)
    out["pg_notify_commits_per_s_8"] = pgbench("limits", 8, f"BEGIN;\n{insert}NOTIFY x;\nCOMMIT;\n")
    out["pg_select_per_s_2"] = pgbench("limits", 2, "SELECT 1;\n")

    def make():
        c = psycopg.connect(url, autocommit=True)
        return lambda: c.execute(harness.EFFECT_SQL, ("a", "b", 1.0))

    out["psycopg_insert_commit"] = rate(make())
    out["psycopg_insert_commit_8_threads_per_s"] = rate_threads(make, 8)
    out["django"] = django_rates("limits")
    if os.environ.get("PEERS_REDIS_PORT"):
        out["redis"] = redis_rates(int(os.environ["PEERS_REDIS_PORT"]))
    out["others_cpu_pct"] = load.others_pct()
    print(json.dumps(out), flush=True)


if __name__ == "__main__":
    main()
