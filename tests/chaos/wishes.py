"""What people want to do with an open request; asked about a call in doubt they are truthful.

Reads the file of effects; decides nothing itself.
"""

import random
import zlib
from dataclasses import dataclass
from typing import Any

from agents.workflows.offering import REASON as WORKFLOW
from hitl.models import Park
from hitl.parks import UNSET
from hitl.states import ParkStatus, Reason
from tests.chaos import jobs, ledger

IGNORED = 6
"""One approval in so many is answered by nobody."""
RUN_AGAIN_SHARE = 0.7
EDITED_SHARE = 0.4


@dataclass(frozen=True, slots=True)
class Wish:
    """`verb` is approve, reject or cancel; with a payload an approval is an answer, with
    `arguments` it is one of those in place of what was asked for.
    """

    verb: str
    payload: Any = UNSET
    arguments: dict[str, int] | None = None

    @property
    def status(self) -> ParkStatus:
        """What the request becomes when the wish is granted."""
        return {
            "approve": ParkStatus.APPROVED,
            "reject": ParkStatus.REJECTED,
            "cancel": ParkStatus.CANCELLED,
        }[self.verb]

    @property
    def has_payload(self) -> bool:
        return self.payload is not UNSET


def is_for_people(park: Park) -> bool:
    """Tell whether people at the screens answer this request; all drivers agree on that."""
    if park.is_job and park.reason != WORKFLOW:
        return jobs.way(park.key) == jobs.PEOPLE
    return not is_ignored(park)


def is_ignored(park: Park) -> bool:
    """Tell whether nobody ever answers this request."""
    if park.reason in (Reason.HOOK, WORKFLOW):
        return True  # the courier's business, and a run's
    if park.is_job:
        return jobs.way(park.key) == jobs.NOBODY
    about = str(park.id) if park.is_own_scope or park.is_standalone else park.key
    return park.reason == Reason.APPROVAL and zlib.crc32(about.encode()) % IGNORED == 0


def about(park: Park, rng: random.Random) -> Wish:
    """Return what somebody wants to do with this request."""
    if park.reason == Reason.IN_DOUBT:
        return truth_about(park, rng)
    if park.is_job:
        given = Wish("approve", {"said": rng.randrange(1000)})
        return rng.choices([given, Wish("reject"), Wish("cancel")], weights=[80, 10, 10])[0]
    if park.is_standalone or park.is_held:
        return rng.choices([Wish("approve"), Wish("reject"), Wish("cancel")], weights=[75, 18, 7])[
            0
        ]
    if park.editable and rng.random() < EDITED_SHARE:
        return Wish(
            "approve", arguments={"before": rng.randrange(300), "after": rng.randrange(300)}
        )
    return rng.choices(
        [
            Wish("approve"),
            Wish("approve", {"said": rng.randrange(1000)}),
            Wish("reject"),
            Wish("cancel"),
        ],
        weights=[62, 12, 18, 8],
    )[0]


def truth_about(park: Park, rng: random.Random) -> Wish:
    """Look whether the call happened and say so; if it did not, have it run again or give it up."""
    if step := park.metadata.get("entry"):
        times = sum(line["entry"] == step for line in ledger.effects().lines("acted"))
    else:
        effects = ledger.effects().lines("effect")
        times = sum(line["call"] == park.subject for line in effects)
    if times:
        return Wish("approve", {"happened": times})
    return Wish("approve") if rng.random() < RUN_AGAIN_SHARE else Wish("reject")
