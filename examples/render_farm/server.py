"""The farm's HTTP, on loopback alone.

| | |
| --- | --- |
| `POST /jobs` | `{"scene", "notify", "key"}` begins a job; 201 `{"job_id"}` |
| `GET /jobs/1` | how it stands, and what the notified address said |
| `POST /jobs/1/finish` | be done at once |
| `GET /pictures/1.svg` | what was drawn |
"""

import json
import re
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from examples.render_farm.farm import Farm, Full, Job

HOST = "127.0.0.1"
BODY_BYTES_MAX = 65_536
JOB = re.compile(
    r"/(?:jobs/(?P<job>\d{1,9})(?P<finish>/finish)?|pictures/(?P<picture>\d{1,9})\.svg)"
)


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    protocol_version = "HTTP/1.1"
    timeout = 10
    server: "Server"

    def do_POST(self) -> None:
        body = self._body()
        if body is None:
            return
        if self.path == "/jobs":
            self._begin(body)
        elif (found := JOB.fullmatch(self.path)) and found["finish"] and (job := self._job(found)):
            self.server.farm.finish(job)
            self._tell(202, self.server.farm.show(job))
        else:
            self._tell(404, {"error": "no such address"})

    def do_GET(self) -> None:
        found = JOB.fullmatch(self.path)
        job = self._job(found) if found and not found["finish"] else None
        if found is None or job is None:
            self._tell(404, {"error": "no such address"})
        elif found["picture"] and job.state == "done":
            self._send(200, "image/svg+xml", self.server.farm.draw(job).encode())
        elif found["picture"]:
            self._tell(404, {"error": "not drawn yet"})
        else:
            self._tell(200, self.server.farm.show(job))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing: the addresses to notify are secrets, and the rest is of no interest."""

    def _begin(self, body: bytes) -> None:
        try:
            asked = json.loads(body)
            scene, notify, key = (str(asked[name]) for name in ("scene", "notify", "key"))
        except (ValueError, KeyError, TypeError):
            self._tell(400, {"error": "a job has a scene, an address to notify and a key"})
            return
        if not notify.startswith(("http://", "https://")):
            self._tell(400, {"error": "notify is no http address"})
            return
        try:
            job = self.server.farm.take(scene, notify=notify, key=key)
        except Full:
            self._tell(503, {"error": "the farm is full"})
        else:
            self._tell(201, {"job_id": job.job_id})

    def _job(self, found: re.Match[str]) -> Job | None:
        return self.server.farm.find(int(found["job"] or found["picture"]))

    def _body(self) -> bytes | None:
        """Read the body; None after an answer that refuses it."""
        length = self.headers.get("Content-Length") or "0"
        if not length.isascii() or not length.isdigit() or int(length) > BODY_BYTES_MAX:
            self.close_connection = True
            self._tell(413, {"error": f"at most {BODY_BYTES_MAX} bytes"})
            return None
        return self.rfile.read(int(length))

    def _tell(self, status: int, document: dict[str, Any]) -> None:
        self._send(status, "application/json", json.dumps(document).encode())

    def _send(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Server(ThreadingHTTPServer):
    """Serves one farm. Port 0 takes any free one; `url` says which."""

    daemon_threads = True

    def __init__(self, port: int, *, seconds: float) -> None:
        super().__init__((HOST, port), Handler)
        self.url = f"http://{HOST}:{self.server_port}"
        self.farm = Farm(seconds=seconds, url=self.url)
