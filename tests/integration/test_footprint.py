"""What a parked run costs: rows, of a size that a test keeps."""

import pytest
from django.db import connection

from agents.testing import call
from benchmarks import crowd
from tests.desk import Desk
from tests.integration import racing

BYTES_MAX = 4096
COUNT = 20_000
SIZES = """SELECT sum(pg_total_relation_size(oid)) FROM pg_class
 WHERE relkind = 'r' AND (relname LIKE 'hitl%%' OR relname LIKE 'agents%%')"""


def stored() -> int:
    with connection.cursor() as cursor:
        cursor.execute(SIZES)
        return int(cursor.fetchone()[0])


@pytest.mark.services
@pytest.mark.promise("P4")
def test_a_parked_run_with_small_arguments_takes_less_than_four_kilobytes(desk: Desk) -> None:
    """Thread, run, step, call, events, request and audit row, all their indexes included."""
    racing.needs_postgresql()
    desk.open([call("send", to="ana")])
    before = stored()
    crowd.add_pending(desk.run, COUNT, 1)
    assert (stored() - before) / COUNT < BYTES_MAX
