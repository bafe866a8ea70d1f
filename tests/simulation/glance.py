"""What must hold of the rows and costs one statement to look at: for after each act of a history.

The whole is in `tests/invariants.py`; this finds the act after which it broke.
"""

from django.db import connection

BROKEN = """
SELECT 'a run that is ' || run.status || ' has open parks, or has none' FROM agents_run AS run
WHERE (run.status IN ('WAITING_FOR_INPUT', 'WAITING')) <> EXISTS (
    SELECT 1 FROM hitl_park WHERE waiter_id = run.id AND status = 'pending')
UNION ALL
SELECT 'a run that is ' || run.status || ' has a call that is ' || made.phase
FROM agents_run AS run JOIN agents_toolcall AS made ON made.run_id = run.id
WHERE run.status IN ('COMPLETED', 'FAILED', 'CANCELLED') AND made.phase <> 'done'
UNION ALL
SELECT 'the log has other numbers than its run has given out' FROM agents_thread AS thread
JOIN agents_run AS run ON run.id = thread.current_run_id
WHERE run.event_seq <> (SELECT count(*) FROM agents_event WHERE thread_id = thread.id)
OR run.event_seq <> (SELECT max(seq) FROM agents_event WHERE thread_id = thread.id)
UNION ALL
SELECT 'a run counts other steps than it has' FROM agents_run AS run
WHERE run.steps <> (SELECT count(*) FROM agents_step WHERE run_id = run.id)
"""


def check() -> None:
    """Fail with a sentence for each row that breaks something."""
    with connection.cursor() as cursor:
        cursor.execute(BROKEN)
        broken = [sentence for (sentence,) in cursor.fetchall()]
    assert not broken, "; ".join(broken)


def events() -> int:
    """Return how many events there are, so that nobody reads what has not been told."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM agents_event")
        return int(cursor.fetchone()[0])


def written() -> object:
    """Return what changes with each row that is written; new each time where nobody counts them."""
    return getattr(connection.connection, "total_changes", object())
