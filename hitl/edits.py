"""Editing what a request asks for together with the yes to it (A9): checked first, then written.

`checked` runs before any lock is taken. The rest happens in the transaction that settles the park
(`hitl/parks.py`): the columns in its one UPDATE, the audit row beside the deciding one.
"""

from datetime import datetime
from typing import Any

from hitl import audit, faults, subjects
from hitl.answers import Given
from hitl.audit import Actor
from hitl.models import Decision, Park, Verb
from hitl.subjects import Revision


def may_be_edited(park: Park) -> bool:
    """Tell whether someone permitted to may change what this pending park asks for."""
    return park.is_pending and park.editable and subjects.of(park) is not None


def checked(park: Park, given: Given) -> Revision | None:
    """Return the edit that an answer brings; None when it changes nothing. Raises InvalidEdit."""
    subject = subjects.of(park)
    if given.arguments is None or subject is None:
        return None
    revision = subject.revise(park, given.arguments)
    return revision if revision.digest != park.digest else None


def changes(park: Park, revision: Revision) -> dict[str, Any]:
    """Return the columns that an edit changes."""
    return {
        "proposed": park.arguments if park.proposed is None else park.proposed,
        "arguments": revision.shown,
        "digest": revision.digest,
    }


def row(park: Park, revision: Revision, who: Actor, *, at: datetime) -> Decision:
    """Return the audit row of an edit: digests before and after, and what the subject adds."""
    detail = {"from": park.digest, "digest": revision.digest, **revision.detail}
    return audit.row(park, Verb.EDITED, who, at=at, detail=detail)


def adopt(park: Park, revision: Revision) -> None:
    """Let the work run with the edited arguments."""
    subject = subjects.of(park)
    assert subject is not None, "an edit was checked by its subject"
    subject.adopt(park, revision)
    faults.point("edit:adopted")
