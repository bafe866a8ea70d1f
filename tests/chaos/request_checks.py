"""What must hold of standalone requests, of votes, edits and callbacks, and of the whole trail."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator

from hitl import approvers
from hitl.models import Park
from hitl.states import CallbackStatus, Code, ParkStatus
from hitl.trail import verifying
from tests.chaos.evidence import Check, Evidence, Line
from tests.chaos.people import USERS


def a_decision_is_told(evidence: Evidence) -> Iterator[str]:
    """C1, C2: at least once, under one id, as the row has it; and never before it is made."""
    for park in _standalone(evidence):
        lines = evidence.told[str(park.id)]
        callback = evidence.callbacks[str(park.id)]
        if park.is_pending and lines:
            yield f"{park.id} is pending, and was told as {lines[0]['body']}"
        if park.is_pending:
            continue
        if not lines or callback.status != CallbackStatus.DELIVERED:
            yield f"{park.id} is {park.status}; told {len(lines)} times, {callback.status}"
        if len({line["id"] for line in lines}) > 1:
            yield f"{park.id} was told under several ids: {[line['id'] for line in lines]}"
        for line in lines:
            if (said := _said(line)) != (expected := _expected(park)):
                yield f"{park.id} was told as {said}, its row says {expected}"


def what_is_told_is_signed(evidence: Evidence) -> Iterator[str]:
    """C2: the public library verifies each call, and each is about a request that is there."""
    for line in evidence.journal_file.lines("told"):
        if not line["trusted"]:
            yield f"call {line['id']} is not trusted: {line['why']}"
        elif json.loads(line["body"])["approval_id"] not in evidence.callbacks:
            yield f"call {line['id']} is about no request: {line['body']}"


def a_key_asks_once(evidence: Evidence) -> Iterator[str]:
    """I7, P2: whoever asked with one key was told of one request, which is there."""
    opened: dict[str, set[str]] = defaultdict(set)
    for line in evidence.journal_file.lines("asked"):
        opened[line["key"]].add(line["request"])
        if line["request"] not in evidence.callbacks:
            yield f"request {line['request']} ({line['key']}) is gone"
    yield from (f"{key} opened {ids}" for key, ids in opened.items() if len(ids) > 1)


def several_people_said_yes(evidence: Evidence) -> Iterator[str]:
    """I8: a yes of people takes as many as the request asks for, and each counted vote is there."""
    votes: dict[str, list[str]] = defaultdict(list)
    for vote in evidence.votes:
        votes[str(vote.park_id)].append(vote.name)
    for park in evidence.parks.values():
        word = evidence.wanted.get(park.answer_reason)
        if word is None or not approvers.read(park.policy).takes_several:
            continue
        mine = [vote for vote in evidence.votes if vote.park_id == park.id]
        yes = {vote.voter for vote in mine if vote.approved and vote.digest == park.digest}
        if park.status == ParkStatus.APPROVED and len(yes) < 2:
            yield f"{park.id} was approved with {len(yes)} votes of {votes[str(park.id)]}"
    for line in evidence.answered:
        name = USERS.get(line["word"].rpartition("-")[0].rpartition("-")[0], "")
        if line["delivered"] and line["code"] == Code.COUNTED:
            if not any(name in voter for voter in votes[line["request"]]):
                yield f"vote {line['word']} of {name} counted, and {line['request']} has none"


def edits_are_what_was_written(evidence: Evidence) -> Iterator[str]:
    """I6, A9: a request asks for what was asked first or for an edit, and its call ran with it."""
    written: dict[str, list[object]] = defaultdict(list)
    unsure: Counter[str] = Counter()
    for line in evidence.journal_file.lines("edited"):
        unsure[line["request"]] += line["delivered"] is None
        if line["delivered"] is not False:
            written[line["request"]].append(line["payload"])
        elif (park := evidence.parks.get(line["request"])) and park.arguments == line["payload"]:
            yield f"an edit of {park.id} was told {line['code']}, and stands"
    asked = {line["key"]: line["payload"] for line in evidence.journal_file.lines("asking")}
    for park in _standalone(evidence):
        first = asked.get(evidence.callbacks[str(park.id)].idempotency_key or "")
        sure = [one for one in written[str(park.id)] if not unsure[str(park.id)]]
        if park.arguments not in [first, *written[str(park.id)]]:
            yield f"{park.id} asks for {park.arguments}, which nobody wrote"
        if park.proposed not in (None, first) or (sure and park.proposed is None):
            yield f"{park.id} was edited to {sure}, and was asked as {park.proposed} first"
    for call, lines in evidence.effects.items():
        gate = evidence.gate(call)
        for line in lines:
            did = {"before": line.get("before"), "after": line.get("after")}
            if gate is not None and gate.arguments != did:
                yield f"call {call} ran with {did}, allowed was {gate.arguments}"


def the_trail_is_sound(_: Evidence) -> Iterator[str]:
    """I12: as `hitl audit verify` finds it."""
    report = verifying.verify()
    yield from (f"{flaw.kind}: {flaw.sentence}" for flaw in report.flaws)


def _standalone(evidence: Evidence) -> list[Park]:
    return [park for park in evidence.parks.values() if park.is_standalone]


def _said(line: Line) -> tuple[object, ...]:
    told = json.loads(line["body"])
    return told["status"], told.get("payload"), told.get("reason"), line["id"]


def _expected(park: Park) -> tuple[object, ...]:
    decided = park.status in (ParkStatus.APPROVED, ParkStatus.REJECTED)
    payload = (park.answer or {}).get("payload", park.arguments) if decided else None
    reason = (park.answer_reason or None) if decided else None
    return str(park.status), payload, reason, f"msg_{park.waiter_id.hex}"


CHECKS: tuple[Check, ...] = (
    a_decision_is_told,
    what_is_told_is_signed,
    a_key_asks_once,
    several_people_said_yes,
    edits_are_what_was_written,
    the_trail_is_sound,
)
