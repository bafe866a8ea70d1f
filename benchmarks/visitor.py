"""One process that looks at a database of requests and answers some, on command, and takes times.

    DATABASE_URL=… python -m benchmarks.visitor

It reads commands from standard input, a line each, and answers each with a line of JSON. Two of
them, one with few rows and one with a million, are asked in turn (`benchmarks/size.py`), so that
whatever else the machine does meets both alike.
"""

import gc
import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.settings"
os.environ.setdefault("SECRET_KEY", "benchmark")
os.environ.setdefault("LOG_LEVEL", "ERROR")

import django

django.setup()

from django.contrib.auth import get_user_model  # noqa: E402
from django.contrib.auth.models import AnonymousUser  # noqa: E402
from django.db import connection  # noqa: E402
from django.test import Client, RequestFactory  # noqa: E402

import hitl  # noqa: E402
from agents import segments, threads  # noqa: E402
from agents.models import Run  # noqa: E402
from benchmarks import crowd  # noqa: E402
from hitl import pages, sweeping  # noqa: E402
from hitl.admin import waiting  # noqa: E402
from hitl.models import Park  # noqa: E402

FULL = 10_000
INBOX = "/admin/hitl/park/"
PAGES = {
    "inbox": INBOX,
    "inbox, a late page": f"{INBOX}?p={{last}}",
    "approved": f"{INBOX}?status=approved",
    "cancelled (rare, old)": f"{INBOX}?status=cancelled",
    "all": f"{INBOX}?status=all",
    "a tool that is rare": f"{INBOX}?tool=seldom",
    "settled, a tool that is rare": f"{INBOX}?status=approved&tool=seldom",
    "an asker that nobody is": f"{INBOX}?status=all&asker=nobody",
    "search, found": f"{INBOX}?q=act",
    "search, found nowhere": f"{INBOX}?q=zzzzzz",
    "search in all, found nowhere": f"{INBOX}?status=all&q=zzzzzz",
    "threads": "/admin/agents/thread/",
}


class Queries:
    """The statements of a leg, and the milliseconds that the database took for them."""

    def __init__(self) -> None:
        self.ms = 0.0
        self.seen: list[tuple[str, Any]] = []

    def __call__(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        began = time.perf_counter()
        try:
            return execute(sql, params, many, context)
        finally:
            self.ms += (time.perf_counter() - began) * 1000
            self.seen.append((sql, params))


@contextmanager
def timed(into: dict[str, Any]) -> Any:
    queries = Queries()
    began = time.perf_counter()
    with connection.execute_wrapper(queries):
        yield queries
    into["ms"] = (time.perf_counter() - began) * 1000
    into |= {"db_ms": queries.ms, "queries": len(queries.seen)}


class Visitor:
    """What can be asked of this process; each returns what is printed."""

    def __init__(self) -> None:
        self.client = Client(HTTP_HOST="localhost")
        self.open: list[tuple[Any, str]] = []
        self.is_full = False

    def prepare(self, count: str) -> dict[str, Any]:
        """Log in, and park this many runs as workers do."""
        user, _ = get_user_model().objects.get_or_create(
            username="ana", defaults={"is_superuser": True, "is_staff": True}
        )
        self.client.force_login(user)
        self.user = user
        for number in range(int(count)):
            thread = threads.start("p", f"visitor-{number}")
            segments.run_segment(thread.current_run_id, keep_alive=False)
        for park in Park.objects.pending().order_by("-id")[: int(count)]:
            self.open.append((park.scope, park.key))
        self.is_full = Park.objects.all()[:FULL].count() == FULL
        return {"open": len(self.open)}

    def gather(self, total: str, waiting: str) -> dict[str, Any]:
        """Fill the database from one pending and one settled run."""
        pending, other = Run.objects.filter(status="WAITING_FOR_INPUT").order_by("-id")[:2]
        scope, key = other.thread_id, Park.objects.get(waiter_id=other.id).key
        hitl.respond(scope, key, True)
        segments.run_segment(other.id, keep_alive=False)
        sweeping.sweep()
        self.open = [one for one in self.open if one not in [(scope, key)]]
        self.is_full = True
        crowd.gather(pending, other, total=int(total), waiting=int(waiting))
        return {"parks": Park.objects.count()}

    def look(self, name: str) -> dict[str, Any]:
        """Fetch one page as a browser does."""
        found: dict[str, Any] = {}
        with timed(found):
            response = self.client.get(self._address(name))
            found["bytes"] = len(response.content)
        assert response.status_code == 200, response.status_code
        return found

    def _address(self, name: str) -> str:
        """Return the address of a page; a list of the admin is no longer than 1000 rows."""
        last = min(len(self.open) // 25, 40) if not self.is_full else 40
        return PAGES[name].format(last=last)

    def explain(self, name: str) -> dict[str, Any]:
        """Return the plans of the statements over requests that a page, or a sweep, makes."""
        queries = Queries()
        with connection.execute_wrapper(queries):
            sweeping.sweep() if name == "sweep" else self.client.get(self._address(name))
        plans = []
        for sql, params in queries.seen:
            if name != "sweep" and "hitl_park" not in sql and "agents_thread" not in sql:
                continue
            with connection.cursor() as cursor:
                cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS) {sql}", params)
                plans.append([sql, "\n".join(row[0] for row in cursor.fetchall())])
        return {"plans": plans}

    def badge(self) -> dict[str, Any]:
        """Count what waits, as every page of the admin does."""
        request = RequestFactory().get("/")
        request.user = self.user or AnonymousUser()
        found: dict[str, Any] = {}
        with timed(found):
            found["badge"] = waiting.badge(request)
        return found

    def list(self, status: str) -> dict[str, Any]:
        """Read one page as `manage.py hitl list` does."""
        found: dict[str, Any] = {}
        with timed(found):
            pages.page(status=status)
        return found

    def answer(self) -> dict[str, Any]:
        """Answer one open request."""
        scope, key = self.open.pop()
        found: dict[str, Any] = {}
        with timed(found):
            assert hitl.respond(scope, key, True).delivered
        [run] = Run.objects.filter(thread_id=scope)
        segments.run_segment(run.id, keep_alive=False)  # nothing is owed when the sweep is timed
        return found

    def sweep(self) -> dict[str, Any]:
        """Sweep with nothing due, nothing owed and nothing loose in the trail."""
        sweeping.sweep()
        found: dict[str, Any] = {}
        with timed(found):
            counts = sweeping.sweep()
        assert not any(counts.values()), counts
        return found


def main() -> None:
    visitor = Visitor()
    gc.freeze()  # as the web process does
    for line in sys.stdin:
        name, *args = json.loads(line)
        ask: Callable[..., dict[str, Any]] = getattr(visitor, name)
        print(json.dumps(ask(*args)), flush=True)


if __name__ == "__main__":
    main()
