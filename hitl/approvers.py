"""Who may approve a request: the policy that is stored with it, and counting votes. Pure.

    "user:ana"                                one person
    "group:finance"                           anyone of a group
    ["user:ana", "group:finance"]             any of these
    {"group:finance": 2, "group:legal": 1}    so many of each

A Django user or group stands for its name. Whoever is named needs the permission as well. Each
person counts once, wherever several of their groups are named.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hitl.errors import HitlError

KINDS = ("user", "group")
COUNT_MAX = 100
NAMES_MAX = 50


class BadApprover(HitlError):
    """The approver is unreadable; write "user:ana", "group:finance", a list or {"group:x": 2}."""

    code = "invalid_approver"


@dataclass(frozen=True, slots=True)
class Need:
    """So many approvals by any of these; by anyone with the permission when none is named."""

    count: int = 1
    of: tuple[str, ...] = ()

    def __str__(self) -> str:
        whom = " or ".join(name.replace(":", " ", 1) for name in self.of) or "anyone permitted"
        return f"{self.count} of {whom}"


@dataclass(frozen=True, slots=True)
class Policy:
    """Who has to approve. `requester` is the key of the user who asked, when barred from it.

    With `veto` one "no" of an approver rejects; without, it takes as many as would approve.
    """

    needs: tuple[Need, ...] = (Need(),)
    veto: bool = True
    requester: str = ""

    @property
    def takes_several(self) -> bool:
        """Tell whether one approval is not enough."""
        return sum(need.count for need in self.needs) > 1

    @property
    def is_named(self) -> bool:
        """Tell whether the permission alone is not enough."""
        return any(need.of for need in self.needs)

    @property
    def names(self) -> tuple[str, ...]:
        """All that are named, such as `group:finance`."""
        return tuple(dict.fromkeys(name for need in self.needs for name in need.of))

    def places(self, names: Iterable[str]) -> list[int]:
        """Return which needs someone with these names may fill."""
        mine = set(names)
        return [n for n, need in enumerate(self.needs) if not need.of or mine & set(need.of)]


@dataclass(frozen=True, slots=True)
class Ballot:
    """One person's word: yes or no, and which needs it may fill."""

    approved: bool
    places: Sequence[int]


def policy(
    approver: object = None, *, quorum: int | None = None, veto: bool = True
) -> dict[str, Any]:
    """Return the policy to store with a request, as JSON; empty when the permission is enough.

    `quorum` is how many approvals it takes in all (default 1), and not for a mapping, which says so
    itself. Raises BadApprover.
    """
    if not isinstance(veto, bool):
        raise BadApprover(f"veto={veto!r}; write True or False.")
    if isinstance(approver, Mapping):
        if quorum is not None:
            raise BadApprover("A quorum beside counts of their own says two things; write one.")
        needs = [Need(_count(count), (_name(one),)) for one, count in approver.items()]
        if not needs:
            raise BadApprover
    else:
        needs = [Need(_count(1 if quorum is None else quorum), _names(approver))]
    if len(needs) > NAMES_MAX or any(len(need.of) > NAMES_MAX for need in needs):
        raise BadApprover(f"More than {NAMES_MAX} approvers are named; make a group of them.")
    if needs == [Need()] and veto:
        return {}
    written: dict[str, Any] = {"needs": [[need.count, list(need.of)] for need in needs]}
    return written if veto else {**written, "veto": False}


def read(stored: Mapping[str, Any]) -> Policy:
    """Return a policy as it was stored."""
    needs = tuple(Need(count, tuple(of)) for count, of in stored.get("needs", ()))
    return Policy(needs or (Need(),), stored.get("veto", True), stored.get("requester", ""))


def outcome(policy: Policy, ballots: Iterable[Ballot]) -> bool | None:
    """Return what these votes decide: True approves, False rejects, None is still open."""
    cast = list(ballots)
    against = [ballot for ballot in cast if not ballot.approved]
    if policy.veto and against:
        return False
    for n, need in enumerate(policy.needs):
        if sum(n in ballot.places for ballot in against) >= need.count:
            return False
    return True if not missing(policy, cast) else None


def missing(policy: Policy, ballots: Iterable[Ballot]) -> list[Need]:
    """Return what is still needed when each approval fills one place, so that most are filled."""
    slots = [n for n, need in enumerate(policy.needs) for _ in range(need.count)]
    filled: dict[int, int] = {}
    yes = [set(ballot.places) for ballot in ballots if ballot.approved]
    for voter in range(len(yes)):
        _seat(voter, yes, slots, filled, set())
    open_count = [0] * len(policy.needs)
    for slot, n in enumerate(slots):
        open_count[n] += slot not in filled
    return [
        Need(count, need.of) for count, need in zip(open_count, policy.needs, strict=True) if count
    ]


def _seat(
    voter: int, yes: list[set[int]], slots: list[int], filled: dict[int, int], tried: set[int]
) -> bool:
    """Give a voter a slot, moving others on where they can go elsewhere (Kuhn's matching)."""
    for slot, n in enumerate(slots):
        if n not in yes[voter] or slot in tried:
            continue
        tried.add(slot)
        if slot not in filled or _seat(filled[slot], yes, slots, filled, tried):
            filled[slot] = voter
            return True
    return False


def _names(approver: object) -> tuple[str, ...]:
    if approver is None:
        return ()
    if isinstance(approver, list | tuple | set | frozenset):
        if not approver:
            raise BadApprover
        return tuple(sorted({_name(one) for one in approver}))
    return (_name(approver),)


def _name(one: object) -> str:
    """Return the written form of one approver."""
    if isinstance(one, str):
        kind, colon, name = one.partition(":")
        if colon and kind in KINDS and name.strip() and name.isprintable():
            return one
        raise BadApprover(f'{one[:60]!r} names nobody; write "user:ana" or "group:finance".')
    if hasattr(one, "get_username"):
        return f"user:{one.get_username()}"
    if hasattr(one, "name") and hasattr(one, "permissions"):
        return f"group:{one.name}"
    raise BadApprover


def _count(count: object) -> int:
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= COUNT_MAX:
        raise BadApprover(f"{count!r} approvals; write a whole number from 1 to {COUNT_MAX}.")
    return count
