"""`manage.py workflows` for a person and a script: shapes, exit codes, nothing without --yes."""

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from django.core.management import CommandError

import hitl
from agents.models import JournalEntry, Run
from agents.testing import run_worker
from agents.workflows import authoring, request_approval, sleep, step, workflow
from agents.workflows.verbs import check
from hitl.console import login
from hitl.models import Decision
from tests import console
from tests.console import NASTY, Ended, raw_escapes

pytestmark = pytest.mark.django_db

effects: list[Any] = []
run: Any = partial(console.run, command="workflows")


@pytest.fixture(autouse=True)
def _workflows() -> Iterator[None]:
    before = dict(authoring._workflows)
    effects.clear()
    define()
    yield
    authoring._workflows.clear()
    authoring._workflows.update(before)


def define(*, works: bool = True, other: bool = False) -> None:
    @step(name="pay", retries=0)
    def pay(order_id: str) -> str:
        if not works:
            raise RuntimeError("the bank is closed" + NASTY)
        effects.append(order_id)
        return f"paid {order_id}"

    @workflow
    async def refund(order_id: str, amount: float = 1.0) -> str:
        """Pay a customer back."""
        if other:
            await sleep("1h")
        decision = await request_approval("refund", {"order_id": order_id, "amount": amount})
        return await pay(order_id) if decision.approved else "no"


def begun(order_id: str = "17") -> Run:
    made = authoring.get("refund").start(order_id=order_id)
    run_worker()
    return fresh(made)


def fresh(made: Run) -> Run:
    return Run.objects.get(id=made.id)


def answered(made: Run, approved: bool = True) -> Run:
    [pending] = hitl.pending(made)
    assert hitl.respond(made, pending.tool_call_id, approved).delivered
    run_worker()
    return fresh(made)


def failed() -> Run:
    define(works=False)
    made = answered(begun())
    assert made.status == "FAILED"
    return made


def as_json(*words: str) -> tuple[int, Any]:
    ended: Ended = run(*words, "--json")
    assert ended.document["schema_version"] == 1
    return ended.code, ended.document


@pytest.mark.promise("L2", "W12")
def test_start_says_what_it_would_do_and_does_it_with_yes() -> None:
    given = json.dumps({"order_id": "17", "amount": 9.5})
    code, said = as_json("start", "refund", "--input", given)
    assert (code, said["error"]["code"]) == (5, "unconfirmed")
    assert said["input"] == {"order_id": "17", "amount": 9.5}
    assert not Run.objects.exists()
    code, said = as_json("start", "refund", "--input", given, "--key", "k1", "--yes")
    assert (code, said["run"]["status"], said["run"]["idempotency_key"]) == (0, "QUEUED", "k1")
    again = as_json("start", "refund", "--input", given, "--key", "k1", "--yes")[1]
    assert (again["run"], again["done"]) == (said["run"], "This key began it before.")
    assert said["done"] == "Started."
    run_worker()
    assert fresh(Run.objects.get()).status == "WAITING_FOR_INPUT"


@pytest.mark.promise("L2")
def test_show_says_what_a_run_waits_for_until_it_is_answered() -> None:
    made = begun()
    [pending] = hitl.pending(made)
    waits = f"Waits for {pending.tool_name}: request {pending.request_id}"
    assert waits in run("show", str(made.id)).out
    assert as_json("show", str(made.id))[1]["pending"] == [str(pending.request_id)]
    assert answered(made).status == "COMPLETED"
    assert "Waits for" not in run("show", str(made.id)).out
    assert as_json("show", str(made.id))[1]["pending"] == []
    assert run("check").out == "No run is under way.\n"


@pytest.mark.promise("L2", "W12")
@pytest.mark.parametrize(
    ("given", "error"),
    [
        ("{", "bad_json"),
        ("[1]", "bad_json"),
        ("{}", "workflow_invalid_input"),
        ('{"order_id": "1", "amount": "much"}', "workflow_invalid_input"),
        ('{"order_id": "1", "more": 1}', "workflow_invalid_input"),
    ],
)
def test_input_that_does_not_fit_is_a_usage_error(given: str, error: str) -> None:
    code, said = as_json("start", "refund", "--input", given, "--yes")
    assert (code, said["error"]["code"]) == (2, error)
    assert not Run.objects.exists()


@pytest.mark.promise("L2")
@pytest.mark.parametrize(
    "words",
    [
        *(["start", "nobody", "--yes"], ["show", "nobody"], ["check", "nobody"]),
        *([verb, "01a22f24-c9ac-7ecc-8e5e-f0d722f120c3"] for verb in ("show", "cancel", "retry")),
    ],
)
def test_what_is_not_there_ends_with_four(words: list[str]) -> None:
    assert run(*words).code == 4
    code, said = as_json(*words)
    assert (code, said["error"]["code"] in ("not_found", "workflow_not_found")) == (4, True)


@pytest.mark.promise("L2")
@pytest.mark.parametrize("words", [[], ["lst"], ["list", "--limit", "0"], ["list", "--lim", "3"]])
def test_a_command_line_that_is_not_understood_is_refused(words: list[str]) -> None:
    with pytest.raises(CommandError):
        run(*words)


@pytest.mark.promise("L2")
def test_a_person_finds_a_run_and_reads_its_journal() -> None:
    made = begun()
    listed = run("list")
    assert listed.code == 0
    assert str(made.id) in listed.out
    assert "WAITING_FOR_INPUT" in listed.out
    assert "Workflows: " in listed.out
    shown = run("show", str(made.id))
    assert '"order_id": "17"' in shown.out
    assert "approval" in shown.out
    about = run("show", "refund").out
    assert "Pay a customer back." in about
    assert '"required"' in about
    answered(made)
    assert "paid 17" in run("show", str(made.id)).out


@pytest.mark.promise("L2")
def test_a_script_pages_through_the_list_and_reads_all_of_a_run() -> None:
    made = [begun(str(number)) for number in range(3)]
    answered(made[0])
    code, first = as_json("list", "--limit", "2")
    assert code == 0
    assert [one["run_id"] for one in first["runs"]] == [str(made[2].id), str(made[1].id)]
    _, rest = as_json("list", "--limit", "2", "--cursor", first["next_cursor"])
    assert [one["run_id"] for one in rest["runs"]] == [str(made[0].id)]
    assert rest["next_cursor"] is None
    assert len(as_json("list", "--status", "COMPLETED")[1]["runs"]) == 1
    assert as_json("list", "--workflow", "nobody")[1]["runs"] == []
    assert as_json("list", "--cursor", "x")[0] == 2
    _, said = as_json("show", str(made[0].id))
    assert said["run"]["output"] == "paid 0"
    kinds = [(one["kind"], one["state"], one["delivered"]) for one in said["journal"]]
    assert kinds == [("approval", "done", 1), ("step", "done", 2)]
    assert said["journal"][0]["request_id"]


@pytest.mark.promise("L2", "I2")
def test_cancel_ends_a_run_in_the_name_of_the_login_and_only_once() -> None:
    made = begun()
    assert run("cancel", str(made.id)).code == 5
    assert fresh(made).status == "WAITING_FOR_INPUT"
    code, said = as_json("cancel", str(made.id), "--reason", "not needed", "--yes")
    assert (code, said["run"]["status"], said["done"]) == (0, "CANCELLED", "Cancelled.")
    row = Decision.objects.get(verb="cancelled")
    assert (row.actor, row.channel, row.reason) == (login.actor(), "cli", "not needed")
    code, said = as_json("cancel", str(made.id), "--yes")
    assert (code, said["error"]["code"]) == (1, "too_late")


@pytest.mark.promise("L2", "W8")
def test_retry_goes_on_with_a_failed_run_once_its_code_is_mended() -> None:
    made = failed()
    assert run("retry", str(made.id)).code == 5
    assert fresh(made).status == "FAILED"
    define(works=True)
    code, said = as_json("retry", str(made.id), "--yes")
    assert (code, said["run"]["status"]) == (0, "QUEUED")
    run_worker()
    assert (fresh(made).output, effects) == ("paid 17", ["17"])
    assert as_json("retry", str(made.id), "--yes")[0] == 1


@pytest.mark.promise("L2", "W8")
def test_check_tells_which_open_runs_would_diverge_and_writes_nothing() -> None:
    fits, done = begun("1"), answered(begun("2"))
    assert run("check").out == "1 run checked: it fits the code.\n"
    define(other=True)
    before = list(Run.objects.values()), list(JournalEntry.objects.values())
    code, said = as_json("check")
    assert (code, said["error"]["code"], said["checked"]) == (1, "diverged", 1)
    [one] = said["diverged"]
    assert one["run_id"] == str(fits.id)
    assert "position 0" in one["error"]
    assert "sleep" in one["error"]
    told = run("check", str(fits.id))
    assert told.code == 1
    assert "1 of 1 run would diverge" in told.err
    assert str(fits.id) in told.out
    assert (list(Run.objects.values()), list(JournalEntry.objects.values())) == before
    define()
    assert run("check", str(fits.id)).code == 0
    assert [found.fits for found in check()] == [True]
    assert fresh(done).status == "COMPLETED"


@pytest.mark.promise("L2", "U5")
def test_nothing_that_is_shown_controls_the_terminal() -> None:
    made = failed()
    evil = begun(NASTY)
    for words in (["list"], ["show", str(made.id)], ["show", str(evil.id)]):
        ended = run(*words)
        assert raw_escapes(ended.out + ended.err) == []
        assert "\nFake  approved" not in ended.out
