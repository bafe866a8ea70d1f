"""What goes to PostgreSQL over the wire, as libpq itself traces it."""

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from django.db import connection
from psycopg.pq import Trace

MESSAGE = re.compile(r"^F\t\d+\t(?:Query|Parse)\t (?!\"PREPARE )", re.MULTILINE)
"""Without those that prepare a statement, which a connection does once."""
DONE = re.compile(r'^B\t\d+\tCommandComplete\t "([A-Z ]+?)(?: 0)?(?: (\d+))?"$', re.MULTILINE)


@dataclass
class Traffic:
    """What a block sent: how many messages, and how many transactions that the server wrote in.

    A write that insists on a row tells the server's count, not its own: a unit of nothing else is
    not counted among the second.
    """

    messages: int = 0
    write_transactions: int = 0


@contextmanager
def traced() -> Iterator[Traffic]:
    """Count what the block sends over this thread's connection."""
    traffic = Traffic()
    connection.ensure_connection()
    raw = connection.connection.pgconn
    with tempfile.TemporaryFile("w+") as file:
        raw.trace(file.fileno())
        raw.set_trace_flags(Trace.SUPPRESS_TIMESTAMPS)
        try:
            yield traffic
        finally:
            raw.untrace()
        file.seek(0)
        trace = file.read()
    traffic.messages = len(MESSAGE.findall(trace))
    is_open = wrote = False
    for verb, count in DONE.findall(trace):
        if verb == "BEGIN":
            is_open, wrote = True, False
        elif verb in ("COMMIT", "ROLLBACK"):
            traffic.write_transactions += verb == "COMMIT" and wrote
            is_open = False
        elif verb in ("INSERT", "UPDATE", "DELETE") and int(count):
            wrote = True
            traffic.write_transactions += not is_open
