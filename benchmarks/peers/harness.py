"""Shared measuring code for the peers: statistics, PostgreSQL, processes, and scenario P.

Scenario P (park & resume): a run takes an input, does one durable step, waits for a
human decision, and after the answer does a second durable step (appends one row to
app_effects) and completes.  Each peer file adapts one product to the Peer interface
below; `main(Peer)` runs the parts a-e and prints one JSON line.
"""

import argparse
import gc
import json
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import psycopg
from measuring import (
    EFFECT_SQL,
    HOST,
    PORT,
    USER,
    Load,
    _stat,
    cpu_seconds,
    db_bytes,
    dsn,
    effect,
    fresh_db,
    kill9,
    median,
    ms,
    parallel,
    pct,
    quiet_gate,
    rss,
    threads,
    wait_for,
    writes,
    writes_per,
)

LOGS = str(Path(__file__).resolve().parent.parent.parent / "var" / "bench-logs")


# ---------------------------------------------------------------- peers
class Peer:
    """What a peer file supplies.  SQL texts may use %(id)s; ids are this harness's run ids."""

    name = "?"
    parts = "abcde"  # which parts apply
    store = "PostgreSQL"
    single_pause = 0.02  # idle gap between single runs (random up to twice this)
    parked_one_sql = parked_sql = done_one_sql = done_sql = deadlines_sql = None
    clients = 8
    e_timeout = 300

    def __init__(self, args):
        self.args = args
        self.procs = []
        self.url = None
        self.conn = None

    # -- life cycle
    def setup(self):
        self.url = fresh_db("peer_" + self.name.replace("-", "_"))
        self.create_schema()
        self.conn = psycopg.connect(self.url, autocommit=True)

    def create_schema(self):
        pass

    def worker_argv(self, i):
        return [
            sys.executable,
            os.path.abspath(sys.argv[0]),
            "--worker",
            str(i),
            "--mode",
            self.args.mode or "",
        ]

    n_workers = 1

    def start_workers(self):
        env = dict(os.environ, PEER_URL=self.url)
        self.procs = [
            subprocess.Popen(
                self.worker_argv(i),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.log(),
                env=env,
                text=True,
                bufsize=1,
            )
            for i in range(self.n_workers)
        ]
        for p in self.procs:
            if not any(
                line.strip() == "ready" for line in p.stdout
            ):  # banners before it are skipped
                raise RuntimeError(f"a worker ended before it was ready; see {self.log_path()}")
            threading.Thread(target=self._drain, args=(p,), daemon=True).start()

    def _drain(self, p):
        for line in p.stdout:
            if line.startswith("!"):
                sys.stderr.write(line)

    def log_path(self):
        d = os.environ.get("PEERS_LOGS", LOGS)
        os.makedirs(d, exist_ok=True)
        return os.path.join(d, self.name + ".log")

    def log(self):
        return open(self.log_path(), "a")

    def pids(self):
        return [p.pid for p in self.procs if p.poll() is None]

    def kill_workers(self):
        kill9(self.procs)
        self.procs = []

    def close(self):
        self.kill_workers()
        if self.conn:
            self.conn.close()

    # -- work: the default sends to the worker's stdin (a library hosted by an app process)
    def _send(self, lines):
        n = len(self.procs)
        for i, p in enumerate(self.procs):
            mine = lines[i::n] if len(lines) > 1 else (lines if i == 0 else [])
            if mine:
                p.stdin.write("".join(mine))
                p.stdin.flush()

    def start(self, ids, timeout):
        self._send([f"S {r} {timeout}\n" for r in ids])

    def look_up(self, ids):
        """Learn what whoever answers has before them already; it is not timed."""

    def answer(self, ids):
        self._send([f"A {r} yes\n" for r in ids])

    # -- observation, always from the store
    def parked_one(self, r):
        return self.conn.execute(self.parked_one_sql, {"id": r}).fetchone() is not None

    def done_one(self, r):
        return self.conn.execute(self.done_one_sql, {"id": r}).fetchone() is not None

    def parked(self, prefix):
        return self.conn.execute(self.parked_sql, {"p": prefix + "%"}).fetchone()[0]

    def done(self, prefix):
        return self.conn.execute(self.done_sql, {"p": prefix + "%"}).fetchone()[0]

    def in_doubt(self, prefix):
        """The runs that wait for a person to say whether their effect happened."""
        return set()

    def deadlines(self, prefix):
        """{run id: the deadline the peer itself recorded, epoch seconds}"""
        return dict(self.conn.execute(self.deadlines_sql, {"p": prefix + "%"}).fetchall())

    def closed(self, prefix):
        """{run id: when its wait was closed, epoch seconds}, where the peer notes that."""
        return {}

    def effects(self, prefix, kind="yes"):
        rows = self.conn.execute(
            "SELECT run_id, count(*), min(at) FROM app_effects WHERE run_id LIKE %s AND kind = %s"
            " GROUP BY 1",
            (prefix + "%", kind),
        ).fetchall()
        return {r: (n, at) for r, n, at in rows}

    def store_bytes(self):
        return db_bytes(self.conn)

    def versions(self):
        return {}


# ---------------------------------------------------------------- scenario P
LONG = 36000  # seconds; "no timeout" for every part but d


def once(eff, ids):
    """How many ids have exactly one effect, none, more than one."""
    n = [eff.get(r, (0, 0))[0] for r in ids]
    return {
        "once": sum(x == 1 for x in n),
        "lost": sum(x == 0 for x in n),
        "twice": sum(x > 1 for x in n),
    }


def spin(fn, timeout=30):
    """Poll as fast as the store answers (0.3 ms pause); perf_counter when true."""
    end = time.perf_counter() + timeout
    while not fn():
        if time.perf_counter() > end:
            raise TimeoutError
        time.sleep(0.0003)
    return time.perf_counter()


def warm(peer, n=10):
    ids = [f"w{os.getpid()}_{time.time_ns()}_{i}" for i in range(n)]
    for r in ids:
        peer.start([r], LONG)
        spin(lambda: peer.parked_one(r))
        peer.answer([r])
        spin(lambda: peer.done_one(r))


def part_ab(peer, n, singles):
    out = {}
    park, resume = [], []
    ids = [f"s{i:05d}" for i in range(singles)]
    for r in ids:
        time.sleep(random.random() * 2 * peer.single_pause)
        t = time.perf_counter()
        peer.start([r], LONG)
        park.append(spin(lambda: peer.parked_one(r)) - t)
    for r in ids:
        time.sleep(random.random() * 2 * peer.single_pause)
        peer.look_up([r])
        t = time.perf_counter()
        peer.answer([r])
        resume.append(spin(lambda: peer.done_one(r)) - t)
    out["start_to_parked"] = ms(park)
    out["answer_to_done"] = ms(resume)

    ids = [f"t{i:05d}" for i in range(n)]
    pids = peer.pids()
    for phase, go, count in (
        ("park", lambda: peer.start(ids, LONG), peer.parked),
        ("resume", lambda: peer.answer(ids), peer.done),
    ):
        time.sleep(1)
        w, cpu = writes(peer.conn), cpu_seconds(pids)
        t = time.perf_counter()
        go()
        if not wait_for(lambda: count("t") >= n, 600):
            out[phase + "_incomplete"] = count("t")
        dt = time.perf_counter() - t
        out[phase + "_per_s"] = round(n / dt, 1)
        out[phase + "_worker_cpu_ms_per_run"] = round((cpu_seconds(pids) - cpu) / n * 1000, 2)
        time.sleep(1)
        out[phase + "_db"] = writes_per(w, writes(peer.conn), n)
    out["ab_effects"] = once(peer.effects("t"), ids)
    return out


def part_c(peer, sizes):
    out = {}
    time.sleep(2)
    base_rss, base_db, had = rss(peer.pids()), peer.store_bytes(), 0
    out["rss_mb_at_0"] = round(base_rss / 1e6, 1)
    for size in sizes:
        ids = [f"c{i:06d}" for i in range(had, size)]
        t = time.perf_counter()
        peer.start(ids, LONG)
        if not wait_for(lambda: peer.parked("c") >= size, 900, 0.1):
            out[f"incomplete_at_{size}"] = peer.parked("c")
            break
        out[f"park_per_s_to_{size}"] = round((size - had) / (time.perf_counter() - t), 1)
        time.sleep(3)
        r, d = rss(peer.pids()), peer.store_bytes()
        out[f"rss_mb_at_{size}"] = round(r / 1e6, 1)
        out[f"rss_kb_per_run_at_{size}"] = round((r - base_rss) / size / 1000, 2)
        out[f"threads_at_{size}"] = threads(peer.pids())
        out[f"db_bytes_per_run_at_{size}"] = round((d - base_db) / size)
        had = size
        c0, t = cpu_seconds(peer.pids()), time.time()
        time.sleep(3)
        out[f"idle_worker_cpu_pct_at_{size}"] = round(
            (cpu_seconds(peer.pids()) - c0) / (time.time() - t) * 100, 1
        )
    return out


def part_d(peer, n, lead, spread):
    """n runs, all parked before the first deadline; deadlines spread evenly over `spread` seconds."""
    ids = [f"d{i:05d}" for i in range(n)]
    begin = time.time()
    step = max(1, n // 100)
    for k in range(0, n, step):
        chunk = ids[k : k + step]
        target = begin + lead + spread * k / n
        peer.start(
            chunk,
            max(1, round(target - time.time()))
            if peer.int_timeouts
            else round(target - time.time(), 2),
        )
        time.sleep(max(0, begin + lead * 0.5 * (k + step) / n - time.time()))
    out = {"lead_s": lead, "spread_s": spread}
    if not wait_for(lambda: peer.parked("d") >= n, lead * 0.5 + 2):
        out["not_all_parked_before_deadline"] = peer.parked("d")
    due = peer.deadlines("d")
    wait_for(lambda: peer.done("d") >= n, lead + spread + 120, 0.25)
    time.sleep(1)
    eff = peer.effects("d", "timeout")
    other = peer.effects("d", "yes")
    due = {r: at for r, at in due.items() if at is not None}
    late = [eff[r][1] - due[r] for r in ids if r in eff and r in due]
    out.update(once(eff, ids))
    out["answered_by_mistake"] = len(other)
    out["deadlines_known"] = len(due)
    if late:
        out["late_p50_ms"] = round(pct(late, 50) * 1000, 1)
        out["late_p99_ms"] = round(pct(late, 99) * 1000, 1)
        out["late_max_ms"] = round(max(late) * 1000, 1)
        out["early"] = sum(x < -0.005 for x in late)
    closed = [at - due[r] for r, at in peer.closed("d").items() if r in due]
    if closed:
        out["closed_p50_ms"] = round(pct(closed, 50) * 1000, 1)
        out["closed_p99_ms"] = round(pct(closed, 99) * 1000, 1)
    return out


def part_e(peer, n):
    """kill -9 with n parked; restart; answer one (time to useful), then the rest.
    Then park n again, kill -9 half way through the answers, restart, re-answer nothing."""
    out = {}
    ids = [f"e{i:05d}" for i in range(n)]
    peer.start(ids, LONG)
    wait_for(lambda: peer.parked("e") >= n, 600)
    time.sleep(1)
    peer.kill_workers()
    time.sleep(0.5)
    t = time.perf_counter()
    peer.start_workers()
    out["restart_ready_s"] = round(time.perf_counter() - t, 2)
    peer.answer(ids[:1])
    spin(lambda: peer.done_one(ids[0]), peer.e_timeout)
    out["restart_to_first_done_s"] = round(time.perf_counter() - t, 2)
    t2 = time.perf_counter()
    peer.answer(ids[1:])
    wait_for(lambda: peer.done("e") >= n, peer.e_timeout)
    out["rest_done_s"] = round(time.perf_counter() - t2, 2)
    out["completed"] = peer.done("e")
    out.update(once(peer.effects("e"), ids))

    ids = [f"f{i:05d}" for i in range(n)]
    peer.start(ids, LONG)
    wait_for(lambda: peer.parked("f") >= n, 600)
    time.sleep(1)
    th = threading.Thread(target=lambda: quiet(peer.answer, ids))
    th.start()
    wait_for(lambda: peer.done("f") >= n * 0.3, 60, 0.005)
    at_kill = peer.done("f")
    peer.kill_workers()
    time.sleep(0.5)
    t = time.perf_counter()
    peer.start_workers()
    th.join()
    # what the dead process had not yet accepted is the client's to send again, as a web client would
    time.sleep(2)
    peer.reanswer([r for r in ids if not peer.done_one(r)])
    wait_for(lambda: peer.done("f") + len(peer.in_doubt("f")) >= n, peer.e_timeout)
    doubts = peer.in_doubt("f")
    out["midkill"] = dict(
        once(peer.effects("f"), [r for r in ids if r not in doubts]),
        in_doubt=len(doubts),
        done_at_kill=at_kill,
        completed=peer.done("f"),
        restart_to_all_done_s=round(time.perf_counter() - t, 2),
    )
    return out


def quiet(fn, *a):
    try:
        fn(*a)
    except Exception:
        pass


Peer.int_timeouts = False
Peer.reanswer = lambda self, ids: self.answer(ids)


def main(cls, worker=None, modes=("",)):
    ap = argparse.ArgumentParser()
    ap.add_argument("--worker")
    ap.add_argument("--mode", default=modes[0], choices=modes)
    ap.add_argument("--parts", default="abcde")
    ap.add_argument("-n", type=int, default=1000)
    ap.add_argument("--singles", type=int, default=50)
    ap.add_argument("--sizes", default="1000,10000")
    ap.add_argument("--lead", type=float, default=10)
    ap.add_argument("--spread", type=float, default=3)
    ap.add_argument(
        "--workers", type=int, help="worker processes, instead of the file's own number"
    )
    ap.add_argument("--clients", type=int, help="client threads of the driver, instead of 8")
    ap.add_argument(
        "--quiet",
        type=float,
        default=0,
        metavar="S",
        help="wait up to S seconds before each part for the rest of the machine to be idle",
    )
    ap.add_argument("--quiet-pct", type=float, default=15)
    args = ap.parse_args()
    if args.worker is not None:
        return worker(args)
    peer = cls(args)
    peer.n_workers = args.workers or peer.n_workers
    peer.clients = args.clients or peer.clients
    out = {
        "peer": peer.name,
        "mode": args.mode,
        "n": args.n,
        "workers": peer.n_workers,
        "versions": peer.versions(),
        "store": peer.store,
        "others_cpu_pct": {},
    }
    with psycopg.connect(dsn("postgres")) as c:
        postmaster = _stat(c.info.backend_pid)[0]
    load = Load(postmaster)
    plan = {
        "a": lambda: part_ab(peer, args.n, args.singles),
        "b": None,  # measured with a
        "c": lambda: part_c(peer, [int(x) for x in args.sizes.split(",")]),
        "d": lambda: part_d(peer, args.n, args.lead, args.spread),
        "e": lambda: part_e(peer, args.n),
    }
    for part in args.parts:
        if part == "b":
            continue
        if part not in peer.parts:
            out[part] = "n/a"
            continue
        try:
            peer.setup()
            peer.start_workers()
            warm(peer)
            gc.freeze()  # the client is no web process, which does so too, but stands for one
            if args.quiet:
                quiet_gate(load, args.quiet_pct, args.quiet)
            load.mark()
            out["ab" if part == "a" else part] = plan[part]()
        except Exception as e:
            out[part + "_error"] = f"{type(e).__name__}: {e}"[:300]
            import traceback

            traceback.print_exc()
        finally:
            out["others_cpu_pct"][part] = load.others_pct()
            peer.close()
    print(json.dumps(out), flush=True)


def pipe_worker(on_start, on_answer, n_threads=8):
    """Worker side of the default transport: read 'S id timeout' / 'A id value' lines, run on threads.

    A client can only answer what it was asked, so an answer waits until its run's start returned.
    """
    from concurrent.futures import ThreadPoolExecutor

    pool = ThreadPoolExecutor(n_threads)
    starting = {}

    def guard(fn, before, *a):
        try:
            if before:
                before.result()
            fn(*a)
        except Exception as e:
            print(f"{type(e).__name__}: {e}"[:400], file=sys.stderr, flush=True)

    print("ready", flush=True)
    for line in sys.stdin:
        op, r, v = line.split()
        if op == "S":
            f = starting[r] = pool.submit(guard, on_start, None, r, float(v))
            f.add_done_callback(lambda _, r=r: starting.pop(r, None))
        else:
            pool.submit(guard, on_answer, starting.get(r), r, v)
