"""What is wrong with this deployment, and what to do about it. Reads only.

`examine()` makes every registered check, one sentence each. hitl registers its own here, another
app adds its own at start-up:

    from hitl import doctor

    @doctor.check("queued runs", needs=("database",))
    def queued_runs() -> doctor.Verdict:
        return doctor.ok("No run waits for a worker.")

A check takes seconds at most and changes nothing. `manage.py hitl doctor` prints the findings.
"""

from hitl.doctor.examination import (
    Finding,
    Status,
    Verdict,
    check,
    examine,
    fail,
    ok,
    skip,
    warn,
)

from hitl.doctor import setup, database, sweeping, callbacks, broker  # isort: skip  (the order of the report)

__all__ = [
    "Finding",
    "Status",
    "Verdict",
    "broker",
    "callbacks",
    "check",
    "database",
    "examine",
    "fail",
    "ok",
    "setup",
    "skip",
    "sweeping",
    "warn",
]
