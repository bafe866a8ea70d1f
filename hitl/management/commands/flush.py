"""`manage.py flush`: Django's own, which here empties the audit trail as well.

Whoever empties the whole database means it, and Django's test cases empty theirs by this command.
On PostgreSQL nothing is to be lifted: TRUNCATE fires no trigger of a row.
"""

from typing import Any

from django.core.management.commands import flush
from django.db import connections

from hitl.trail import append_only


class Command(flush.Command):
    """Django's flush, for a database with an append-only trail in it."""

    def handle(self, **options: Any) -> None:
        """Empty every table."""
        connection = connections[options["database"]]
        if connection.vendor != "sqlite":
            super().handle(**options)
            return
        with append_only.lifted(connection):
            super().handle(**options)
