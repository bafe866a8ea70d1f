"""A model provider on the loopback: OpenAI chat completions, OpenAI responses, Anthropic messages.

It answers what a test lines up, in the order of the requests, and otherwise behaves as the services
do: a history that they would refuse gets status 400. Every request is kept.
"""

import json
import select
import socket
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from agents.llm.messages import Call
from tests.provider_wires import WIRES, Wire

BODY_SHARE_KEPT = 0.5


@dataclass
class Answer:
    """What the provider does with one request.

    `body` replaces the reply's JSON. `cut` ends the connection in the middle of it. `hold`
    keeps the client waiting until it is set or the client hangs up; `trickle` sends a space every
    20 ms meanwhile, so that no read times out.
    """

    text: str = ""
    calls: tuple[Call, ...] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    error: str = "no"
    code: str = "error"
    body: str | None = None
    cut: bool = False
    hold: threading.Event | None = None
    trickle: bool = False


@dataclass(frozen=True)
class Asked:
    """One request as it arrived."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


class FakeProvider:
    """The server, in threads of its own; `with FakeProvider() as provider`."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.hung_up = threading.Event()
        self.arrived = threading.Event()
        self.connections: set[socket.socket] = set()
        self._answers: deque[Answer] = deque()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.provider = self
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}"

    def answer(self, *answers: Answer | str) -> Self:
        """Line up answers; a text stands for a reply of that text."""
        self._answers.extend(Answer(text=one) if isinstance(one, str) else one for one in answers)
        return self

    def forget(self) -> None:
        """Back to the start: nothing asked, nothing lined up."""
        self._answers.clear()
        self.asked.clear()
        self.hung_up.clear()
        self.arrived.clear()

    def take(self, asked: Asked, refusal: str | None) -> Answer:
        """The answer to this request, a refusal before anything lined up."""
        self.asked.append(asked)
        self.arrived.set()
        if refusal is not None:
            return Answer(status=400, error=refusal, code="invalid_request_error")
        try:
            return self._answers.popleft()
        except IndexError:
            return Answer(status=400, error="no answer is lined up")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        for connection in list(self.connections):
            connection.close()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    provider: FakeProvider

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is no error here."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # headers and body are written apart
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.server.provider.connections.add(self.connection)

    def finish(self) -> None:
        self.server.provider.connections.discard(self.connection)
        super().finish()

    def do_POST(self) -> None:
        wire = next((one for one in WIRES if self.path.endswith(one.path)), None)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        asked = Asked(self.path, {k.lower(): v for k, v in self.headers.items()}, body)
        if wire is None:
            self._send(404, {}, b"{}")
            return
        self._answer(wire, asked, self.server.provider.take(asked, wire.refusal(body)))

    def _answer(self, wire: Wire, asked: Asked, answer: Answer) -> None:
        if answer.status != 200:
            written: dict[str, Any] = wire.error(answer.error, answer.code)
        else:
            written = wire.reply(answer.text, answer.calls, asked.body["model"])
        content = (json.dumps(written) if answer.body is None else answer.body).encode()
        if answer.trickle:
            self._start(answer.status, answer.headers, len(content) + 10_000)
        if answer.hold is not None and self._hung_up(answer.hold, trickle=answer.trickle):
            self.server.provider.hung_up.set()
            self.close_connection = True
        elif answer.cut:
            self._start(answer.status, answer.headers, len(content))
            self.wfile.write(content[: int(len(content) * BODY_SHARE_KEPT)])
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
        else:
            self._send(answer.status, answer.headers, content)

    def _hung_up(self, hold: threading.Event, *, trickle: bool) -> bool:
        try:
            while not hold.wait(0.02):
                readable, _, _ = select.select([self.connection], [], [], 0)
                if readable and not self.connection.recv(1, socket.MSG_PEEK):
                    return True
                if trickle:
                    self.wfile.write(b" ")
                    self.wfile.flush()
        except ConnectionError:  # it hung up in between
            return True
        return False

    def _send(self, status: int, headers: Mapping[str, str], content: bytes) -> None:
        self._start(status, headers, len(content))
        self.wfile.write(content)

    def _start(self, status: int, headers: Mapping[str, str], length: int) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(length))
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing."""
