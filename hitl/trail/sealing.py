"""The chain over the audit trail, made by the sweep. Only writer of `Seal` and of a row's seal.

A row is written with its own hash and waits for nobody. Later the loose rows are sealed in batches:
seal n is the hash over seal n-1 and the hashes of its rows in the order of their ids. Several
sweeps may try at once: numbers are unique, so one wins each of them.
"""

import logging
from datetime import UTC, datetime
from uuid import UUID

from django.db import IntegrityError, transaction

from hitl import clock, faults, values
from hitl.models import Decision, Seal

logger = logging.getLogger(__name__)

BATCH = 1000
BATCHES_MAX = 50


def seal_loose(*, batches_max: int = BATCHES_MAX) -> int:
    """Seal the rows that no seal holds yet, in bounded batches; returns how many this call did."""
    sealed = 0
    for _ in range(batches_max):
        count = _seal_batch()
        sealed += count
        if count < BATCH:
            break
    return sealed


def seal_hash(number: int, previous: str, at: datetime, hashes: list[str]) -> str:
    """Return the hash of one link of the chain."""
    made = at.astimezone(UTC).isoformat(timespec="microseconds")
    return values.digest({"number": number, "previous": previous, "at": made, "rows": hashes})


def _seal_batch() -> int:
    """Seal up to a batch of rows in one transaction; 0 when none is loose or another was first."""
    loose = Decision.objects.filter(seal__isnull=True).order_by("id")
    rows = list(loose.values_list("id", "hash")[:BATCH])
    if not rows:
        return 0
    try:
        with transaction.atomic(durable=True):
            _write([row_id for row_id, _ in rows], [row_hash for _, row_hash in rows])
    except IntegrityError:
        logger.info("another sweep seals the audit trail")
        return 0
    faults.point("seal:made")
    return len(rows)


def _write(ids: list[UUID], hashes: list[str]) -> None:
    last = Seal.objects.order_by("-number").first()
    number, previous = (last.number + 1, last.hash) if last is not None else (1, "")
    now = clock.now()
    Seal.objects.create(
        number=number,
        row_count=len(ids),
        previous=previous,
        hash=seal_hash(number, previous, now, hashes),
        at=now,
    )
    faults.point("seal:making")
    taken = Decision.objects.filter(id__in=ids, seal__isnull=True).update(seal=number)
    if taken != len(ids):
        raise IntegrityError("another sweep has sealed some of these rows")
