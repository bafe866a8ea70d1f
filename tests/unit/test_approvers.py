"""Who may approve: reading a policy, and counting votes against a slow reference."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hitl import approvers
from hitl.approvers import BadApprover, Ballot, Need, Policy


class User:
    pk = 7

    def get_username(self) -> str:
        return "ana"


@pytest.mark.promise("I8")
@pytest.mark.parametrize(
    ("approver", "more", "needs"),
    [
        ("group:finance", {}, (Need(1, ("group:finance",)),)),
        (User(), {}, (Need(1, ("user:ana",)),)),
        (["user:ana", "group:legal"], {}, (Need(1, ("group:legal", "user:ana")),)),
        (["user:ana", "group:legal"], {"quorum": 2}, (Need(2, ("group:legal", "user:ana")),)),
        (None, {"quorum": 2}, (Need(2),)),
        (
            {"group:finance": 2, "group:legal": 1},
            {},
            (Need(2, ("group:finance",)), Need(1, ("group:legal",))),
        ),
    ],
)
def test_a_policy_comes_back_as_it_was_written(
    approver: Any, more: dict[str, Any], needs: tuple[Need, ...]
) -> None:
    assert approvers.read(approvers.policy(approver, **more)).needs == needs


@pytest.mark.promise("I8")
def test_without_approvers_nothing_is_stored_and_one_yes_is_enough() -> None:
    assert approvers.policy() == approvers.policy(None, quorum=1) == {}
    assert approvers.read({}) == Policy((Need(),), veto=True)
    assert not approvers.read({}).takes_several


@pytest.mark.parametrize(
    ("approver", "more"),
    [
        ("finance", {}),
        ("team:finance", {}),
        ("group:", {}),
        ("user:\n", {}),
        ("", {}),
        ([], {}),
        ({}, {}),
        (17, {}),
        (["user:ana", 3], {}),
        ({"group:x": 0}, {}),
        ({"group:x": True}, {}),
        ({"group:x": "2"}, {}),
        ({"group:x": 1}, {"quorum": 2}),
        (None, {"quorum": 0}),
        (None, {"quorum": 1.0}),
        (None, {"quorum": 10**6}),
        ("user:ana", {"veto": "no"}),
        ([f"user:{n}" for n in range(60)], {}),
    ],
)
def test_an_unreadable_approver_is_refused(approver: Any, more: dict[str, Any]) -> None:
    with pytest.raises(BadApprover):
        approvers.policy(approver, **more)


@pytest.mark.promise("I8")
@pytest.mark.parametrize(
    ("policy", "votes", "decided"),
    [
        (Policy((Need(2),)), [(True, [0])], None),
        (Policy((Need(2),)), [(True, [0]), (True, [0])], True),
        (Policy((Need(2),)), [(True, [0]), (False, [0])], False),
        (Policy((Need(2),), veto=False), [(True, [0]), (False, [0])], None),
        (Policy((Need(2),), veto=False), [(False, [0]), (False, [0])], False),
        (Policy((Need(2),), veto=False), [(False, [0]), (True, [0]), (True, [0])], True),
        (Policy((Need(1, ("group:a",)), Need(1, ("group:b",)))), [(True, [0, 1])], None),
        (
            Policy((Need(1, ("group:a",)), Need(1, ("group:b",)))),
            [(True, [0, 1]), (True, [0])],
            True,
        ),
    ],
)
def test_votes_decide_as_the_policy_says(
    policy: Policy, votes: list[tuple[bool, list[int]]], decided: bool | None
) -> None:
    assert approvers.outcome(policy, [Ballot(*vote) for vote in votes]) is decided


@pytest.mark.promise("I8")
@given(
    counts=st.lists(st.integers(1, 2), min_size=1, max_size=3),
    votes=st.lists(st.sets(st.integers(0, 2)), max_size=5),
)
def test_each_person_fills_one_place_and_as_many_are_filled_as_can_be(
    counts: list[int], votes: list[set[int]]
) -> None:
    policy = Policy(tuple(Need(count) for count in counts))
    ballots = [Ballot(True, sorted(vote)) for vote in votes]
    slots = [n for n, count in enumerate(counts) for _ in range(count)]
    found = len(slots) - sum(need.count for need in approvers.missing(policy, ballots))
    assert found == most_filled(votes, slots)


def most_filled(votes: list[set[int]], slots: list[int]) -> int:
    """Try every way to seat these voters."""
    if not votes:
        return 0
    first, *rest = votes
    seated = [
        1 + most_filled(rest, slots[:place] + slots[place + 1 :])
        for place, n in enumerate(slots)
        if n in first
    ]
    return max([most_filled(rest, slots), *seated])
