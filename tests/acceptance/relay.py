"""A wire between the processes of a test and their broker, which the test can cut or freeze."""

import socket
import threading
from contextlib import suppress
from typing import Self

CHUNK = 65_536


class Relay:
    """Forwards TCP from a free port on loopback; `with Relay(host, port) as relay`.

    Cut, it refuses connections and has closed those there were, as a broker that is not there.
    Frozen, it keeps them and lets new ones in, and nothing passes, as with a broker that hangs.
    """

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._flows = threading.Event()
        self._flows.set()
        self._open: set[socket.socket] = set()
        self._listener = _listener(0)
        self.port: int = self._listener.getsockname()[1]
        self._accept()

    def freeze(self) -> None:
        self._flows.clear()

    def thaw(self) -> None:
        """Let everything pass again that was held up."""
        self._flows.set()

    def cut(self) -> None:
        _close(self._listener)
        for one in list(self._open):
            _close(one)
        self._flows.set()

    def mend(self) -> None:
        """Listen again at the same port."""
        self._listener = _listener(self.port)
        self._accept()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.cut()

    def _accept(self) -> None:
        threading.Thread(target=self._serve, args=(self._listener,), daemon=True).start()

    def _serve(self, listener: socket.socket) -> None:
        while True:
            try:
                near, _ = listener.accept()
                far = socket.create_connection(self._target)
            except OSError:
                return
            self._open |= {near, far}
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(CHUNK):
                self._flows.wait()
                sink.sendall(data)
        for one in (source, sink):
            self._open.discard(one)
            _close(one)


def _listener(port: int) -> socket.socket:
    return socket.create_server(("127.0.0.1", port))


def _close(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)  # wakes the thread that reads from it
    one.close()
