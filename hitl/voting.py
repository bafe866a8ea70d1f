"""The one policy that every channel asks before somebody decides, and the votes it may take.

A program that names no user is trusted code and is not judged; a user is, whoever passes it on.
Only writer of `Vote`. `refusal` reads alone; `cast` runs in the settling transaction, with the
waiter locked, and locks the park.
"""

from typing import Any

from hitl import approvers, audit, clock, edits, inbox
from hitl.answers import Given
from hitl.approvers import Ballot, Policy
from hitl.models import Park, Verb, Vote
from hitl.rows import lock_row
from hitl.states import SENTENCES, Code, ParkStatus

Refusal = tuple[Code, str]


def refusal(park: Park, given: Given, *, stands_in: bool) -> Refusal | None:
    """Tell why this answer may not be given to a pending park; None when it may.

    `stands_in` says that the payload replaces the run of the tool.
    """
    if given.arguments is not None and not edits.may_be_edited(park):
        return Code.NOT_EDITABLE, SENTENCES[Code.NOT_EDITABLE]
    if has_voted(park, given):
        return Code.ALREADY_VOTED, SENTENCES[Code.ALREADY_VOTED]
    policy = approvers.read(park.policy)
    changes = given.approves and (given.has_payload or given.arguments is not None)
    if policy.takes_several and changes:
        return Code.NEEDS_SEVERAL, (
            "Several people approve this request, each the same thing: it can be approved or "
            "denied as it is, and not be changed or answered by one of them."
        )
    user = given.who.user
    return None if user is None else _refusal_of_user(user, policy, given, stands_in=stands_in)


def judge(user: Any, park: Park, *, approves: bool) -> Refusal | None:
    """Tell why a plain yes or no of this user would not count; None when it would."""
    status = ParkStatus.APPROVED if approves else ParkStatus.REJECTED
    given = Given(status, {}, "", audit.person(user, ""))
    return _refusal_of_user(user, approvers.read(park.policy), given, stands_in=False)


def cast(park: Park, given: Given) -> tuple[bool | None, str]:
    """Count a vote, and return what all of them decide and what they lack, in words.

    True and False settle the park; None is a vote that does not decide yet. A program's word needs
    no votes. A park that is settled, overdue or edited since takes no vote; the caller's
    settling then tells.
    """
    policy, user = approvers.read(park.policy), given.who.user
    if user is None or not policy.takes_several or _is_own_no(user, policy, given):
        return given.approves, ""
    fresh = lock_row(Park, park.id)
    now = clock.now()
    if fresh is None or not fresh.is_pending or fresh.is_overdue(now):
        return given.approves, ""
    if given.seen not in ("", fresh.digest):
        return given.approves, ""
    Vote.objects.update_or_create(
        park=park,
        voter=str(user.pk),
        defaults={
            "name": given.who.name,
            "approved": given.approves,
            "counts_for": policy.places(_names(user, policy)),
            "digest": fresh.digest,
            "at": now,
        },
    )
    ballots = ballots_of(fresh)
    decided = approvers.outcome(policy, ballots)
    detail = {"vote": "approve" if given.approves else "deny", "digest": fresh.digest}
    audit.append(
        [audit.row(park, Verb.VOTED, given.who, at=now, reason=given.reason, detail=detail)]
    )
    return decided, outstanding(policy, ballots)


def has_voted(park: Park, given: Given) -> bool:
    """Tell whether the same person has said the same already."""
    user = given.who.user
    if user is None or not approvers.read(park.policy).takes_several:
        return False
    same = Vote.objects.filter(park=park, voter=str(user.pk), digest=park.digest)
    return same.filter(approved=given.approves).exists()


def ballots_of(park: Park) -> list[Ballot]:
    """Return the votes that count: those for what the park asks now."""
    votes = Vote.objects.filter(park=park, digest=park.digest)
    return [Ballot(vote.approved, vote.counts_for) for vote in votes]


def outstanding(policy: Policy, ballots: list[Ballot]) -> str:
    """Return in words what is still needed: "1 of group legal"."""
    return " and ".join(str(need) for need in approvers.missing(policy, ballots))


def _refusal_of_user(user: Any, policy: Policy, given: Given, *, stands_in: bool) -> Refusal | None:
    needed = [inbox.Act.ANSWER] if given.has_payload else []
    if not stands_in:
        needed.append(inbox.Act.DECIDE)
    if given.arguments is not None:
        needed.append(inbox.Act.EDIT)
    if not all(inbox.may(user, act) for act in needed):
        return Code.NOT_ALLOWED, "You do not have the permission to decide this request like this."
    if _is_own_no(user, policy, given):
        return None  # whoever asked may always take it back
    if policy.requester and str(user.pk) == policy.requester:
        return Code.OWN_REQUEST, (
            "You asked for this yourself, so somebody else has to approve it. You may deny it."
        )
    if policy.is_named and not policy.places(_names(user, policy)):
        whom = " or ".join(name.replace(":", " ", 1) for name in policy.names)
        return Code.NOT_AN_APPROVER, f"Only {whom} may decide this request."
    return None


def _is_own_no(user: Any, policy: Policy, given: Given) -> bool:
    return not given.approves and bool(policy.requester) and str(user.pk) == policy.requester


def _names(user: Any, policy: Policy) -> set[str]:
    """Return by which of the policy's names this user goes now."""
    groups = [name.partition(":")[2] for name in policy.names if name.startswith("group:")]
    mine = {f"user:{user.get_username()}"}
    if groups:
        found = user.groups.filter(name__in=groups).values_list("name", flat=True)
        mine |= {f"group:{name}" for name in found}
    return mine
