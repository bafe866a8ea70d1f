"""Verifying the audit trail: whether it still says what was written, all of it and in that order.

Only reads, page by page, so that it works on a live trail of any size. What it can show: a row that
was changed, removed, added or moved, and a seal that was. Rows that no seal holds yet are checked
against their own hash and counted apart. Who can write everything can also write a new chain: keep
a seal's hash elsewhere and give it as the anchor.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from django.db.models import Exists, OuterRef

from hitl import audit
from hitl.models import Decision, Park, Seal, Verb
from hitl.states import ParkStatus
from hitl.trail.sealing import seal_hash

PAGE = 1000
SEALS_PAGE = 20
FLAWS_MAX = 100
ENDINGS = (Verb.APPROVED, Verb.ANSWERED, Verb.REJECTED, Verb.EXPIRED, Verb.CANCELLED)


@dataclass(frozen=True, slots=True)
class Flaw:
    """One thing that is not as it was written. `kind` is for programs."""

    kind: str
    sentence: str


@dataclass(slots=True)
class Report:
    """What a verification has found. `head` is the hash of the last seal, to be kept elsewhere.

    `flaws` holds the first hundred; `flaw_count` counts all of them.
    """

    rows: int = 0
    loose: int = 0
    seals: int = 0
    head: str = ""
    oldest_loose_at: datetime | None = None
    flaws: list[Flaw] = field(default_factory=list)
    flaw_count: int = 0

    @property
    def is_sound(self) -> bool:
        return not self.flaw_count

    def blame(self, kind: str, sentence: str) -> None:
        """Note a flaw."""
        self.flaw_count += 1
        if len(self.flaws) < FLAWS_MAX:
            self.flaws.append(Flaw(kind, sentence))


def verify(*, anchor: str = "", heed: Callable[[Report], object] | None = None) -> Report:
    """Check every row and every seal. `anchor` is a seal's hash that must still be in the chain.

    `heed` is called with the report so far after each page.
    """
    report = Report()
    _check_sealed(report, anchor, heed)
    _check_loose(report, heed)
    _check_requests(report)
    return report


def _check_sealed(report: Report, anchor: str, heed: Callable[[Report], object] | None) -> None:
    expected, previous, is_anchored = 1, "", not anchor
    while True:
        page = list(Seal.objects.filter(number__gte=expected).order_by("number")[:SEALS_PAGE])
        if not page:
            break
        rows = _rows_of(page)
        for seal in page:
            if seal.number != expected:
                report.blame("seal_missing", f"Seals {expected} to {seal.number - 1} are missing.")
            elif seal.previous != previous:
                report.blame("seal_changed", f"Seal {seal.number} does not follow the one before.")
            _check_seal(report, seal, rows[seal.number])
            expected, previous = seal.number + 1, seal.hash
            is_anchored = is_anchored or seal.hash == anchor
        report.head = previous
        if heed is not None:
            heed(report)
    if not is_anchored:
        report.blame(
            "anchor_missing", f"No seal has the hash {anchor}: the chain was written anew."
        )


def _rows_of(page: list[Seal]) -> dict[int, list[Decision]]:
    found: dict[int, list[Decision]] = defaultdict(list)
    sealed = Decision.objects.filter(seal__gte=page[0].number, seal__lte=page[-1].number)
    for row in sealed.order_by("seal", "id"):
        assert row.seal_id is not None, "it is sealed"
        found[row.seal_id].append(row)
    return found


def _check_seal(report: Report, seal: Seal, rows: list[Decision]) -> None:
    report.seals += 1
    for row in rows:
        _check_row(report, row)
    hashes = [row.hash for row in rows]
    if len(rows) != seal.row_count:
        lost, verb = (
            seal.row_count - len(rows),
            "missing" if seal.row_count > len(rows) else "extra",
        )
        report.blame(f"row_{verb}", f"Seal {seal.number}: {abs(lost)} rows are {verb}.")
    elif seal.hash != seal_hash(seal.number, seal.previous, seal.at, hashes):
        report.blame(
            "seal_broken",
            f"Seal {seal.number} does not fit its rows: one was exchanged or moved, or the seal "
            "itself was changed.",
        )


def _check_row(report: Report, row: Decision) -> None:
    report.rows += 1
    if audit.fingerprint(row) != row.hash:
        report.blame("row_changed", f"Audit row {row.id} of request {row.park_id} was changed.")


def _check_loose(report: Report, heed: Callable[[Report], object] | None) -> None:
    after = UUID(int=0)
    loose = Decision.objects.filter(seal__isnull=True).order_by("id")
    while page := list(loose.filter(id__gt=after)[:PAGE]):
        for row in page:
            _check_row(report, row)
        report.loose += len(page)
        oldest = min(row.at for row in page)
        report.oldest_loose_at = min(report.oldest_loose_at or oldest, oldest)
        after = page[-1].id
        if heed is not None:
            heed(report)


def _check_requests(report: Report) -> None:
    """See that each request has the rows of its opening and its end, sealed or not."""
    here = Decision.objects.filter(park=OuterRef("pk"))
    unopened = ~Exists(here.filter(verb=Verb.OPENED))
    unended = ~Exists(here.filter(verb__in=ENDINGS))
    cards = Park.objects.cards()
    for found, what in (
        (cards.filter(unopened), "was opened"),
        (cards.exclude(status=ParkStatus.PENDING).filter(unended), "has ended"),
    ):
        for park_id in found.order_by("id").values_list("id", flat=True)[:FLAWS_MAX]:
            report.blame("row_missing", f"Request {park_id} {what}, and no row says so.")
