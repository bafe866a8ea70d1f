"""Two gated calls of one thread: extended, warned of, voted on, edited, sealed and blanked.

Every act may be repeated, as people and sweeps do.
"""

from datetime import timedelta
from typing import Any

from django.contrib.auth.models import Group, User

import hitl
from agents import Agent, requires_confirmation, threads, tool
from agents.models import Thread, ToolCall
from agents.testing import ScriptedModel, call, run_worker
from hitl import audit, clock, sweeping, warning
from hitl.models import Decision, Park, Pulse, Seal, Verb
from hitl.trail import append_only, blanking, sealing, verifying

AGENT = "filing"
PROPOSED = {"to": "ana", "copies": 3}
EDITED = {"to": "ben", "copies": 1}


class Filing:
    """Two gated calls of one thread: one is edited, the other takes two votes."""

    def __init__(self) -> None:
        with append_only.lifted():
            Decision.objects.all().delete()
            Seal.objects.all().delete()
        Park.objects.all().delete()
        Pulse.objects.all().delete()
        Thread.objects.all().delete()
        User.objects.all().delete()
        group, _ = Group.objects.get_or_create(name="finance")
        self.people = [User.objects.create_superuser(name) for name in ("ana", "eve")]
        for user in self.people:
            user.groups.add(group)
        self.ran: list[dict[str, Any]] = []
        self.enrol()
        threads.start(AGENT, "File it")
        run_worker()
        self.edited, self.voted = Park.objects.order_by("id")

    def enrol(self) -> None:
        """Define the agent, as a process that starts does."""
        ran = self.ran

        @requires_confirmation(editable=True, ttl="2h")
        @tool
        def send(to: str, copies: int = 1) -> str:
            """Send a letter."""
            ran.append({"to": to, "copies": copies})
            return "sent"

        @requires_confirmation(approver={"group:finance": 2}, ttl="2h", on_doubt="retry")
        @tool
        def wipe() -> str:
            """Wipe the disk."""
            ran.append({"wiped": True})
            return "wiped"

        script = ScriptedModel(lambda request: self.reply(request))
        Agent(AGENT, model=script, tools=[send, wipe])

    def reply(self, request: Any) -> Any:
        if len(request.messages) > 1:
            return "Done."
        return [call("send", **PROPOSED), call("wipe")]

    def play(self) -> None:
        """Play it from the first act; what is done already is refused or does nothing."""
        for park in (self.edited, self.voted):
            if not Decision.objects.filter(park=park, verb=Verb.EXTENDED).exists():
                hitl.extend(park.id, by="1h", actor="ana")
        clock.advance(minutes=150)
        for park_id in warning.owed(10):
            warning.warn(park_id)
        sealing.seal_loose()
        for user in self.people:
            hitl.decide(self.voted.id, True, actor=user, channel="admin")
        hitl.decide(self.edited.id, True, arguments=EDITED, actor=self.people[0], channel="admin")
        for park in Park.objects.pending().filter(reason="in_doubt"):
            hitl.decide(park.id, True, payload="it happened")
        run_worker()
        sealing.seal_loose()

    def age(self) -> None:
        """Grow old and be blanked."""
        clock.advance(days=91)
        self.blank()

    def blank(self) -> None:
        blanking.blank(timedelta(days=90), actor=audit.system("cli"))

    def restart(self) -> None:
        """Come back as a new process does, in time, once the lease of the dead one has lapsed."""
        self.enrol()
        clock.reset()
        clock.advance(seconds=7)
        sweeping.sweep()

    def judge(self) -> None:
        """See what must hold, whatever crashed."""
        report = verifying.verify()
        assert report.is_sound, report.flaws
        edited, voted = (Park.objects.get(id=park.id) for park in (self.edited, self.voted))
        assert (edited.status, voted.status) == ("approved", "approved")
        assert (edited.arguments, edited.proposed) == (EDITED, PROPOSED)
        made = ToolCall.objects.get(id=edited.key)
        assert (made.arguments, made.digest) == (EDITED, edited.digest)
        assert self.ran.count(EDITED) <= 1
        assert PROPOSED not in self.ran
        trail = [row.verb for row in Decision.objects.filter(park=edited).order_by("id")]
        assert trail.count(Verb.EDITED) == trail.count(Verb.APPROVED) == 1
        assert trail.index(Verb.EDITED) < trail.index(Verb.APPROVED)
        votes = Decision.objects.filter(park=voted, verb=Verb.VOTED).values_list("actor", flat=True)
        assert sorted(votes) == ["ana", "eve"]
        assert voted.votes.count() == 2
        for park in (edited, voted):
            assert Decision.objects.filter(park=park, verb=Verb.EXTENDED).count() == 1
            assert Decision.objects.filter(park=park, verb=Verb.WARNED).count() <= 1
