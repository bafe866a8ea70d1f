"""Celery + Django ORM + Redis by hand: scenario P on this stack with no durable-execution layer.

Not a peer a user would pick for this, but the floor of any product built on the stack: the client
commits a row and sends a message; a prefork worker (2 processes) does each half.  A sweeper process
looks every 0.25 s for due runs and for answered runs that nobody finished, and sends them again.
Needs PEERS_REDIS_PORT.
"""

import os
import sys
import time

import harness

URL = os.environ.get("PEER_URL") or harness.dsn("peer_celery")
REDIS = f"redis://127.0.0.1:{os.environ.get('PEERS_REDIS_PORT', '6379')}/3"


def django_setup(url):
    import django
    from django.conf import settings

    settings.configure(
        DATABASES={
            "default": {
                "ENGINE": "django.db.backends.postgresql",
                "NAME": url.rsplit("/", 1)[1],
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
    django.setup()


django_setup(URL)

from celery import Celery, signals  # noqa: E402
from django.db import connection, models, transaction  # noqa: E402


class Run(models.Model):
    id = models.TextField(primary_key=True)
    input = models.JSONField()
    state = models.TextField()
    step1 = models.JSONField(null=True)
    deadline = models.FloatField(null=True)
    answer = models.TextField(null=True)
    answered_at = models.FloatField(null=True)
    result = models.JSONField(null=True)

    class Meta:
        app_label = "peer"
        db_table = "runs"
        managed = False


class Effect(models.Model):
    run_id = models.TextField()
    kind = models.TextField()
    at = models.FloatField()

    class Meta:
        app_label = "peer"
        db_table = "app_effects"
        managed = False


app = Celery("peer_celery", broker=REDIS)
app.conf.update(
    task_ignore_result=True, task_acks_late=True, broker_connection_retry_on_startup=True
)


@app.task(name="park")
def park(r):
    run = Run.objects.get(pk=r)
    if run.state == "new":
        run.step1, run.state = {"n": run.input["n"] + 1}, "parked"
        run.deadline = time.time() + run.input["timeout"]
        run.save(update_fields=["step1", "state", "deadline"])


@app.task(name="finish")
def finish(r):
    with transaction.atomic():
        run = Run.objects.select_for_update().get(pk=r)
        if run.state != "answered":
            return
        Effect.objects.create(run_id=r, kind=run.answer, at=time.time())
        run.result, run.state = {"kind": run.answer}, "done"
        run.save(update_fields=["result", "state"])


@signals.worker_ready.connect
def ready(**_):
    os.write(1, b"ready\n")  # Celery redirects sys.stdout to its log


def sweep():
    print("ready", flush=True)
    while True:
        now = time.time()
        for r in Run.objects.filter(state="parked", deadline__lte=now).values_list("id", flat=True)[
            :500
        ]:
            if Run.objects.filter(pk=r, state="parked").update(
                state="answered", answer="timeout", answered_at=now
            ):
                finish.delay(r)
        for r in Run.objects.filter(state="answered", answered_at__lte=now - 10).values_list(
            "id", flat=True
        )[:500]:
            Run.objects.filter(pk=r).update(answered_at=now)
            finish.delay(r)
        time.sleep(0.25)


class CeleryPeer(harness.Peer):
    name = "celery-by-hand"
    n_workers = 2
    parked_one_sql = "SELECT 1 FROM runs WHERE id = %(id)s AND state = 'parked'"
    parked_sql = "SELECT count(*) FROM runs WHERE id LIKE %(p)s AND state = 'parked'"
    done_one_sql = "SELECT 1 FROM runs WHERE id = %(id)s AND state = 'done'"
    done_sql = "SELECT count(*) FROM runs WHERE id LIKE %(p)s AND state = 'done'"
    deadlines_sql = "SELECT id, deadline FROM runs WHERE id LIKE %(p)s"

    def __init__(self, args):
        super().__init__(args)
        self.name = "celery-by-hand"

    def setup(self):
        self.url = harness.fresh_db("peer_celery")
        import psycopg

        self.conn = psycopg.connect(self.url, autocommit=True)
        self.conn.execute(
            "CREATE TABLE runs(id text PRIMARY KEY, input jsonb NOT NULL, state text NOT NULL, step1 jsonb,"
            " deadline double precision, answer text, answered_at double precision, result jsonb)"
        )
        self.conn.execute("CREATE INDEX ON runs(deadline) WHERE state = 'parked'")
        self.conn.execute("CREATE INDEX ON runs(answered_at) WHERE state = 'answered'")
        with app.pool.acquire(block=True) as c:
            c.default_channel.client.flushdb()

    def worker_argv(self, i):
        if i == 1:
            return [sys.executable, os.path.abspath(sys.argv[0]), "--worker", "sweep"]
        return [
            sys.executable,
            "-m",
            "celery",
            "-A",
            "peer_celery",
            "--workdir",
            os.path.dirname(os.path.abspath(__file__)),
            "worker",
            "-c",
            "2",
            "-l",
            "WARNING",
            "--without-gossip",
            "--without-mingle",
            "-n",
            f"w{time.time_ns()}@h",
        ]

    def start_workers(self):
        os.environ["PYTHONPATH"] = os.path.dirname(os.path.abspath(__file__))
        super().start_workers()

    def pids(self):
        own = super().pids()
        kids = [int(k) for p in own for k in open(f"/proc/{p}/task/{p}/children").read().split()]
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
                Run.objects.create(id=r, input={"n": 1, "timeout": timeout}, state="new")
                park.delay(r)
            if len(ids) > 1:
                connection.close()

        self._each(go, ids)

    def answer(self, ids):
        def go(chunk):
            for r in chunk:
                if Run.objects.filter(pk=r, state="parked").update(
                    state="answered", answer="yes", answered_at=time.time()
                ):
                    finish.delay(r)
            if len(ids) > 1:
                connection.close()

        self._each(go, ids)

    def _each(self, go, ids):
        go(ids) if len(ids) == 1 else harness.parallel(go, ids, self.clients)

    def versions(self):
        from importlib.metadata import version

        return {p: version(p) for p in ("celery", "kombu", "redis", "django", "psycopg")}


if __name__ == "__main__":
    harness.main(CeleryPeer, lambda args: sweep())
