"""One standalone request from the question to the told decision, in acts that may be repeated.

The receiver lives outside the database: what it was told no crash takes back. It answers the first
POST with an error, and has lost what it took once it is asked again.
"""

from dataclasses import dataclass, field

import hitl
from hitl import approval, clock, editing, sweeping, values
from hitl.callbacks import deliveries, posting
from hitl.callbacks.addresses import Destination
from hitl.models import CallbackDelivery, Decision, Park, Pulse, Seal
from hitl.states import CallbackStatus
from hitl.trail import append_only

ASKED, EDITED = {"amount": 250}, {"amount": 100}


@dataclass
class Errand:
    """The request, and what its receiver was told: the id of each POST and its body."""

    told: list[tuple[str, bytes]] = field(default_factory=list)

    def play(self) -> None:
        """Do all of it; what is done already does nothing."""
        self.ask()
        self.edit()
        self.decide()
        self.deliver()
        clock.advance(minutes=5)  # the first POST failed
        self.deliver()
        self.send_again()
        self.deliver()
        sweeping.sweep()

    @property
    def park(self) -> Park:
        return Park.objects.get()

    @property
    def callback(self) -> CallbackDelivery:
        return CallbackDelivery.objects.get()

    def ask(self) -> None:
        """Ask with one key, as a program does that got no reply."""
        approval.request(
            topic="refund", payload=ASKED, on_decide="/decide/", idempotency_key="errand"
        )

    def edit(self) -> None:
        """Edit what was asked; whoever was first has done it."""
        answer = editing.edit(
            self.park.id, EDITED, seen=values.digest(ASKED), actor="ana", channel="test"
        )
        assert answer.delivered or answer.code in ("changed", "already_answered")

    def decide(self) -> None:
        was_pending = self.park.is_pending
        seen = values.digest(EDITED)
        answer = hitl.decide(self.park.id, True, actor="ana", channel="test", seen=seen)
        assert answer.delivered == was_pending

    def deliver(self) -> None:
        for owed in deliveries.owing():
            posting.deliver(owed, send=self.receive)

    def send_again(self) -> None:
        if not Decision.objects.filter(verb="callback_resent").exists():
            assert deliveries.resend(self.callback.id, actor="ben", channel="test")

    def receive(
        self, destination: Destination, body: bytes, signed: dict[str, str]
    ) -> posting.Refusal | None:
        """Take a POST; only the first one fails."""
        self.told.append((signed["webhook-id"], body))
        return posting.judge(503 if len(self.told) == 1 else 200)

    def judge(self, crashes: int) -> None:
        """Nothing is lost, and whatever came more than once says that it did."""
        assert self.park.status == "approved"
        assert self.callback.status == CallbackStatus.DELIVERED
        assert len(set(self.told)) == 1, "one id and one body, however often it came"
        [(_, body)] = set(self.told)
        assert values.dumps(EDITED).encode() in body
        assert 3 <= len(self.told) <= 3 + crashes
        verbs = [row.verb for row in Decision.objects.order_by("id")]
        for once in ("opened", "edited", "approved", "callback_resent"):
            assert verbs.count(once) == 1


def fresh() -> Errand:
    """Empty the database and give an errand that has not begun."""
    with append_only.lifted():
        Decision.objects.all().delete()
        Seal.objects.all().delete()
    CallbackDelivery.objects.all().delete()
    Park.objects.all().delete()
    Pulse.objects.all().delete()
    return Errand()


def restart() -> None:
    """Come back as a new process does, once the lease of the dead one has lapsed."""
    clock.advance(minutes=5)
    sweeping.sweep()
