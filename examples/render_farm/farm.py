"""The farm: jobs in memory, each worked on in a thread, then reported to whoever asked for it.

Standard library alone, as somebody else's service would know nothing of Sayso. Jobs are lost with
the process; whoever waits for one has a deadline.
"""

import http.client
import itertools
import json
import threading
from dataclasses import asdict, dataclass, field
from html import escape
from typing import Any
from urllib.parse import urlsplit

JOBS_MAX = 1000
REPORTS_MAX = 5
REPORT_SECONDS_MAX = 10
REPORT_PAUSE_SECONDS = 0.5
REPLY_BYTES_MAX = 65_536
FINAL = range(200, 500)
"""Statuses after which a report is not tried again: it was taken, or never will be."""

PICTURE = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 320 200">
  <rect width="320" height="200" rx="12" fill="#e8eef7"/>
  <rect x="110" y="40" width="100" height="90" rx="10" fill="#1d6fd1"/>
  <text x="160" y="165" text-anchor="middle" font-family="sans-serif" font-size="14">{scene}</text>
</svg>
"""


class Full(Exception):
    """The farm works on as many jobs as it can."""


@dataclass
class Job:
    """One scene to draw. `replies` are what the notified address said, the newest last."""

    job_id: int
    scene: str
    notify: str
    state: str = "working"
    replies: list[dict[str, Any]] = field(default_factory=list)


class Farm:
    """Works on jobs for `seconds` each. `url` is where its pictures are found."""

    def __init__(self, *, seconds: float, url: str = "") -> None:
        self.url = url
        self._seconds = seconds
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._jobs: dict[int, Job] = {}
        self._by_key: dict[str, Job] = {}
        self._hurry: dict[int, threading.Event] = {}

    def take(self, scene: str, *, notify: str, key: str) -> Job:
        """Begin a job; the same key again returns the one that it began. Raises Full."""
        with self._lock:
            if key and key in self._by_key:
                return self._by_key[key]
            if len(self._jobs) >= JOBS_MAX:
                raise Full
            job = Job(next(self._numbers), scene, notify)
            self._jobs[job.job_id] = job
            self._hurry[job.job_id] = threading.Event()
            if key:
                self._by_key[key] = job
        threading.Thread(target=self._work, args=[job], daemon=True).start()
        return job

    def find(self, job_id: int) -> Job | None:
        return self._jobs.get(job_id)

    def finish(self, job: Job) -> None:
        """Let a job be done at once."""
        self._hurry[job.job_id].set()

    def show(self, job: Job) -> dict[str, Any]:
        """Return a job as the farm tells it: all but the address, which is a secret."""
        return {name: value for name, value in asdict(job).items() if name != "notify"}

    def draw(self, job: Job) -> str:
        return PICTURE.format(scene=escape(job.scene))

    def _work(self, job: Job) -> None:
        self._hurry[job.job_id].wait(self._seconds)
        job.state = "done"
        result = {"job_id": job.job_id, "picture": f"{self.url}/pictures/{job.job_id}.svg"}
        pause = threading.Event()
        for attempt in range(1, REPORTS_MAX + 1):
            job.replies.append(reply := _report(job.notify, result))
            if reply["status"] in FINAL:
                return
            pause.wait(attempt * REPORT_PAUSE_SECONDS)


def _report(address: str, result: dict[str, Any]) -> dict[str, Any]:
    """Post a result; returns the status and what was said, status 0 when nobody could be reached.

    Redirects are not followed: the address is a secret, meant for one site.
    """
    url = urlsplit(address)
    connect = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
    connection = connect(url.netloc, timeout=REPORT_SECONDS_MAX)
    try:
        headers = {"Content-Type": "application/json"}
        connection.request("POST", url.path, json.dumps(result), headers)
        response = connection.getresponse()
        return {"status": response.status, "said": response.read(REPLY_BYTES_MAX).decode()}
    except (OSError, http.client.HTTPException, ValueError) as error:
        return {"status": 0, "said": f"{type(error).__name__}: {error}"}
    finally:
        connection.close()
