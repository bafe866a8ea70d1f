"""`approval.tool`: one function behind a gate, for any tool loop."""

from typing import Any

import pytest

import hitl
from hitl import approval
from hitl.models import Park

pytestmark = pytest.mark.django_db

PARAMETERS = {
    "type": "object",
    "properties": {"order_id": {"type": "string"}, "amount": {"type": "number"}},
    "required": ["order_id", "amount"],
    "additionalProperties": False,
}
INPUT = {"order_id": "o1", "amount": 250}


class Shop:
    """What the function did."""

    def __init__(self) -> None:
        self.paid: list[Any] = []

    def pay(self, given: dict[str, Any]) -> dict[str, Any]:
        self.paid.append(given)
        if given["amount"] == 13:
            raise ValueError("no money")
        return {"refund_id": len(self.paid)}

    def tool(self, **more: Any) -> approval.Tool:
        return approval.tool(
            **{
                "name": "issue_refund",
                "description": "Refund an order.",
                "parameters": PARAMETERS,
                "execute": self.pay,
            }
            | more
        )


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.mark.promise("I5")
def test_the_model_is_offered_the_tool(shop: Shop) -> None:
    assert shop.tool().openai_spec() == {
        "type": "function",
        "function": {
            "name": "issue_refund",
            "description": "Refund an order.",
            "parameters": PARAMETERS,
        },
    }


@pytest.mark.promise("I5")
@pytest.mark.parametrize("needed", [None, False, lambda given: given["amount"] > 1000])
def test_an_ungated_call_runs_at_once(shop: Shop, needed: Any) -> None:
    outcome = shop.tool(needs_approval=needed).invoke(INPUT)
    assert (outcome.status, outcome.result) == ("done", {"refund_id": 1})
    assert (outcome.approval_id, shop.paid) == (None, [INPUT])
    assert not Park.objects.exists()


def _raises(given: Any) -> bool:
    raise KeyError("gone")


@pytest.mark.promise("I5", "M2")
@pytest.mark.parametrize(
    "needed", [True, lambda given: given["amount"] > 100, _raises, lambda given: "no", lambda g: 0]
)
def test_a_gated_call_opens_a_request_and_does_not_run(shop: Shop, needed: Any) -> None:
    outcome = shop.tool(needs_approval=needed).invoke('{"order_id": "o1", "amount": 250}')
    assert (outcome.status, outcome.result, shop.paid) == ("pending", None, [])
    entry = approval.get(outcome.approval_id or "")
    assert (entry.topic, entry.payload) == ("issue_refund", INPUT)
    assert outcome.expires_at == entry.expires_at


@pytest.mark.promise("I5")
def test_the_request_is_as_to_request_says_and_runs_once_approved(shop: Shop) -> None:
    refund = shop.tool(
        needs_approval=True,
        to_request=lambda given: {
            "topic": "refund",
            "on_decide": "/decide/",
            "timeout": "4h",
            "metadata": {"order": given["order_id"]},
        },
    )
    outcome = refund.invoke(INPUT)
    assert outcome.approval_id
    entry = approval.get(outcome.approval_id)
    assert (entry.topic, entry.metadata) == ("refund", {"order": "o1"})
    hitl.decide(entry.approval_id, True)
    told = approval.get(entry.approval_id).decision
    assert told is not None
    assert refund.execute(told.payload) == {"refund_id": 1}


@pytest.mark.promise("I5", "M3")
@pytest.mark.parametrize(
    "bad",
    [
        {},
        {"order_id": "o1"},
        {"order_id": 1, "amount": 2},
        INPUT | {"more": 1},
        *("", "no json", "[1]", '{"amount": NaN}', "null"),
        [1],
        None,
    ],
)
def test_a_call_that_breaks_the_schema_neither_runs_nor_asks(shop: Shop, bad: Any) -> None:
    for needed in (True, False):
        with pytest.raises(approval.ApprovalInvalidRequest, match="issue_refund"):
            shop.tool(needs_approval=needed).invoke(bad)
    assert shop.paid == []
    assert not Park.objects.exists()


@pytest.mark.promise("I5")
def test_a_function_that_raises_has_a_code_of_its_own(shop: Shop) -> None:
    with pytest.raises(approval.ApprovalToolExecuteFailed, match="no money") as failed:
        shop.tool().invoke(INPUT | {"amount": 13})
    assert failed.value.code == "approval_tool_execute_failed"
    assert isinstance(failed.value.__cause__, ValueError)


@pytest.mark.promise("I5")
@pytest.mark.parametrize(
    "bad",
    [
        {"name": "a b"},
        {"name": ""},
        {"description": ""},
        {"parameters": {"type": "string"}},
        {"parameters": {"type": "object", "properties": 7}},
        {"execute": None},
        {"needs_approval": "yes"},
        {"to_request": {}},
    ],
)
def test_a_tool_that_could_never_work_is_refused_when_it_is_made(
    shop: Shop, bad: dict[str, Any]
) -> None:
    with pytest.raises(approval.ApprovalInvalidRequest):
        shop.tool(**bad)


@pytest.mark.promise("I5")
def test_what_to_request_may_not_say_is_named(shop: Shop) -> None:
    refund = shop.tool(needs_approval=True, to_request=lambda given: {"callback": "/x/"})
    with pytest.raises(approval.ApprovalInvalidRequest, match="callback"):
        refund.invoke(INPUT)


@pytest.mark.promise("I5", "C5")
def test_a_schema_elsewhere_is_not_fetched(shop: Shop) -> None:
    """A connection from a test fails it, so it would show."""
    elsewhere = {"type": "object", "properties": {"a": {"$ref": "https://example.com/s.json"}}}
    refund = shop.tool(parameters=elsewhere)
    with pytest.raises(approval.ApprovalInvalidRequest):
        refund.invoke({"a": 1})
