"""The program that is called about decisions: `python -m tests.chaos.receiver PORT`.

It trusts what the public library for Standard Webhooks can verify with the secret that was handed
over, writes down whatever came, and fails now and then, before or after that.
"""

import os
import random
import sys
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from standardwebhooks import Webhook, WebhookVerificationError

from tests.chaos import ledger

FAILS_SHARE = 0.25
BUSY = 503
BAD = (500, BUSY)
FAILS_MAX = 3
"""How often it fails one call, so that a play comes to rest in bounded time."""
SECRET = "CHAOS_SHARED_SECRET"


def heed(body: bytes, headers: dict[str, str], secret: str) -> bool:
    """Write down what came; False when it is not to be trusted."""
    told = {"id": headers.get("webhook-id", ""), "body": body.decode("utf-8", "replace")}
    try:
        Webhook(secret).verify(body, headers)
    except WebhookVerificationError as error:
        ledger.journal().write("told", **told, trusted=False, why=str(error))
        return False
    ledger.journal().write("told", **told, trusted=True)
    return True


failed: Counter[str] = Counter()


class Handler(BaseHTTPRequestHandler):
    """One call: heard, or failed at random."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        told = headers.get("webhook-id", "")
        fails = failed[told] < FAILS_MAX and random.random() < FAILS_SHARE
        failed[told] += fails
        trusted = heed(body, headers, os.environ[SECRET])
        status = random.choice(BAD) if fails else 200 if trusted else 401
        self.send_response(status)
        if status == BUSY:
            self.send_header("Retry-After", "1")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
