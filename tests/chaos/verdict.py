"""What must hold in the end: of the rows, of the effects outside of them, and of what people heard.

Reads only. Each check yields a sentence per violation, as those of `tests/invariants.py` do.
"""

from tests import invariants
from tests.chaos import (
    agent_checks,
    answer_checks,
    event_checks,
    guardrail_checks,
    request_checks,
    workflow_checks,
)
from tests.chaos.evidence import Evidence

CHECKS = (
    *agent_checks.CHECKS,
    *answer_checks.CHECKS,
    *workflow_checks.CHECKS,
    *event_checks.CHECKS,
    *guardrail_checks.CHECKS,
    *request_checks.CHECKS,
)


def violations(evidence: Evidence) -> list[str]:
    """Return one sentence per violation: what the settling complained of, the rows, the effects."""
    found = [f"{check.__name__}: {one}" for check in CHECKS for one in check(evidence)]
    return [*evidence.complaints, *invariants.violations(), *found]
