"""Measuring: statistics, PostgreSQL, processes. Used by `harness.py` and the peers."""

import os
import signal
import statistics
import subprocess
import sys
import threading
import time

import psycopg

HOST = os.environ.get("PEERS_PGHOST", "127.0.0.1")
PORT = os.environ.get("PEERS_PGPORT", "5432")
USER = os.environ.get("PEERS_PGUSER", "bench")


# ---------------------------------------------------------------- statistics
def pct(values, p):
    """The p-th percentile (0-100) by linear interpolation."""
    v = sorted(values)
    if not v:
        return None
    k = (len(v) - 1) * p / 100
    lo = int(k)
    hi = min(lo + 1, len(v) - 1)
    return v[lo] + (v[hi] - v[lo]) * (k - lo)


def ms(values):
    return {"p50_ms": round(pct(values, 50) * 1000, 2), "p95_ms": round(pct(values, 95) * 1000, 2)}


def median(values):
    return statistics.median(values)


# ---------------------------------------------------------------- PostgreSQL
def dsn(db):
    return f"postgresql://{USER}@{HOST}:{PORT}/{db}"


def fresh_db(db):
    """Drop and create database `db`; returns its connection string."""
    with psycopg.connect(dsn("postgres"), autocommit=True) as c:
        c.execute(f'DROP DATABASE IF EXISTS "{db}" WITH (FORCE)')
        c.execute(f'CREATE DATABASE "{db}"')
        c.execute("CHECKPOINT")
    with psycopg.connect(dsn(db), autocommit=True) as c:
        c.execute(
            "CREATE TABLE app_effects(id bigserial PRIMARY KEY, run_id text NOT NULL,"
            " kind text NOT NULL, at double precision NOT NULL)"
        )
    return dsn(db)


EFFECT_SQL = "INSERT INTO app_effects(run_id, kind, at) VALUES (%s, %s, %s)"

_local = threading.local()


def effect(url, run_id, kind):
    """The side effect of step two: one row, one commit, on this thread's connection."""
    conn = getattr(_local, "conn", None)
    if conn is None:
        conn = _local.conn = psycopg.connect(url, autocommit=True)
    at = time.time()
    conn.execute(EFFECT_SQL, (run_id, kind, at))
    return at


SIZE_SQL = """SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relkind IN ('r', 'm') AND n.nspname NOT LIKE 'pg\\_%%' AND n.nspname <> 'information_schema'"""


def db_bytes(conn):
    return int(conn.execute(SIZE_SQL).fetchone()[0])


def writes(conn):
    """(writing transactions, WAL bytes) of the server so far; asking costs one transaction itself.

    Transaction ids are only given to transactions that write, so their difference counts the
    durable commits (and rolled-back writes) exactly, whatever polls in between.
    """
    r = conn.execute(
        "SELECT pg_current_xact_id()::text::bigint, pg_current_wal_insert_lsn() - '0/0'"
    ).fetchone()
    return int(r[0]), int(r[1])


def writes_per(a, b, n):
    return {
        "write_txns_per_run": round((b[0] - a[0] - 1) / n, 2),
        "wal_bytes_per_run": round((b[1] - a[1]) / n),
    }


# ---------------------------------------------------------------- processes
def rss(pids):
    """Resident bytes of these processes (Pss would hide sharing; Rss is what a limit counts)."""
    total = 0
    for pid in pids:
        with open(f"/proc/{pid}/statm") as f:
            total += int(f.read().split()[1]) * 4096
    return total


def threads(pids):
    n = 0
    for pid in pids:
        with open(f"/proc/{pid}/status") as f:
            n += next(int(x.split()[1]) for x in f if x.startswith("Threads:"))
    return n


def cpu_seconds(pids):
    tick = os.sysconf("SC_CLK_TCK")
    total = 0
    for pid in pids:
        with open(f"/proc/{pid}/stat") as f:
            parts = f.read().rsplit(")", 1)[1].split()
        total += (int(parts[11]) + int(parts[12])) / tick
    return total


def _stat(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            p = f.read().rsplit(")", 1)[1].split()
        return int(p[1]), [int(x) for x in p[11:15]]  # ppid; utime stime cutime cstime
    except (FileNotFoundError, ProcessLookupError):
        return None


class Load:
    """How much of the machine other people's processes used meanwhile (own = driver, its workers, its server)."""

    def __init__(self, postmaster):
        self.roots = [os.getpid(), postmaster]
        self.mark()

    def _own(self):
        total, tree, kids = 0, {}, {}
        for d in os.listdir("/proc"):
            if d.isdigit():
                s = _stat(d)
                if s:
                    tree[int(d)] = s
                    kids.setdefault(s[0], []).append(int(d))
        todo = list(self.roots)
        while todo:
            p = todo.pop()
            if p in tree:
                total += sum(tree[p][1])
                todo += kids.get(p, [])
        return total

    def mark(self):
        with open("/proc/stat") as f:
            v = [int(x) for x in f.readline().split()[1:9]]
        self.at = (sum(v) - v[3] - v[4], sum(v), self._own())

    def others_pct(self):
        """Share of all cores that others used since the last mark."""
        busy, total, own = self.at
        self.mark()
        d = self.at[1] - total
        return round(max(0.0, (self.at[0] - busy) - (self.at[2] - own)) / d * 100, 1) if d else 0.0


def quiet_gate(load, most, patience):
    """Wait until others use less than `most` percent for 3 s, at most `patience` seconds."""
    end = time.time() + patience
    while True:
        load.mark()
        time.sleep(3)
        p = load.others_pct()
        if p <= most or time.time() > end:
            return p


def kill9(procs):
    for p in procs:
        if p.poll() is None:
            os.kill(p.pid, signal.SIGKILL)
    for p in procs:
        p.wait()


def wait_for(fn, timeout, every=0.02):
    """Call fn until it is truthy; the value, or None on timeout."""
    end = time.perf_counter() + timeout
    while True:
        v = fn()
        if v:
            return v
        if time.perf_counter() > end:
            return None
        time.sleep(every)


def parallel(fn, items, n):
    """fn(chunk) on n threads, for clients whose calls block."""
    chunks = [items[i::n] for i in range(n)]
    errors = []

    def go(chunk):
        try:
            fn(chunk)
        except Exception as e:  # the driver must see it
            errors.append(e)

    ts = [threading.Thread(target=go, args=(c,)) for c in chunks if c]
    [t.start() for t in ts]
    [t.join() for t in ts]
    if errors:
        raise errors[0]
