"""Answers that do not count: why, in a sentence, and a row of the trail for each attempt (I2).

Only inserts audit rows. `too_late` runs in the transaction that lost, `refuse` in one of its own.
"""

import logging
from uuid import UUID

from django.db import transaction

from hitl import audit, clock, faults, states
from hitl.answers import Answer
from hitl.audit import Actor
from hitl.models import Park, Verb
from hitl.states import Code

logger = logging.getLogger(__name__)


def too_late(park: Park, who: Actor, tried: str, reason: str) -> Answer:
    """Note the refused attempt in the trail and say why it came too late."""
    now = Park.objects.only("status", "expires_at").get(id=park.id)
    if not now.is_pending:
        code = states.too_late(now.status)
    else:
        code = Code.EXPIRED if now.is_overdue(clock.now()) else Code.CHANGED
    _note(park, who, tried, reason, code)
    return refused(code, park.id)


def refuse(
    park: Park, who: Actor, tried: str, reason: str, code: Code, sentence: str = ""
) -> Answer:
    """Note an attempt that may not be made, and say why (I8)."""
    logger.warning("request %s: %s by %s was refused: %s", park.id, tried, who.name, code)
    with transaction.atomic():
        _note(park, who, tried, reason, code)
    return Answer(False, code, sentence or states.SENTENCES[code], park.id)


def refused(code: Code, request_id: UUID | None) -> Answer:
    """Return the answer to an attempt that leaves no trace."""
    return Answer(False, code, states.SENTENCES[code], request_id)


def _note(park: Park, who: Actor, tried: str, reason: str, code: Code) -> None:
    detail = {"tried": tried, "code": code}
    audit.append([audit.row(park, Verb.REFUSED, who, at=clock.now(), reason=reason, detail=detail)])
    faults.point("refusal:noted")
