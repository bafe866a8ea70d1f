"""What must hold of workflows: their journals, the effects of their steps, and what ended a wait.

That journals have no gap, that an entry is open as long as its park, and that an ended run holds
nothing, `tests/journals.py` says for every moment; the verdict asks it as well.
"""

from collections import defaultdict
from collections.abc import Iterator

from agents.models import JournalEntry, Run
from agents.states import FINAL, EntryState, Outcome, RunStatus
from agents.workflows import bodies, journal
from agents.workflows.replay import Returned
from hitl import values
from hitl.errors import HitlError
from hitl.models import Park
from hitl.states import ParkStatus, Reason
from tests.chaos.agent_checks import GIVEN_UP
from tests.chaos.app.workflows import DONE, POLICIES
from tests.chaos.evidence import Check, Evidence
from tests.chaos.scripts import BY_NAME


def every_workflow_has_ended_or_waits(evidence: Evidence) -> Iterator[str]:
    """R4: for a person, or for a run that does; it fails of a step that breaks it, or given up."""
    asking = {
        run.parent_id
        for run in evidence.runs.values()
        if run.status == RunStatus.WAITING_FOR_INPUT and run.parent_id is not None
    }
    for run in evidence.workflows.values():
        waits = run.status == RunStatus.WAITING_FOR_INPUT or (
            run.status == RunStatus.WAITING and run.id in asking
        )
        if run.status not in FINAL and not waits:
            yield f"run {run.id} of {run.target} is {run.status}"
        breaks = run.target == "chaos.brittle" and "StepFailed" in run.error
        if run.status == RunStatus.FAILED and GIVEN_UP not in run.error and not breaks:
            yield f"run {run.id} of {run.target} FAILED: {run.error}"


def a_step_acted_as_often_as_allowed(evidence: Evidence) -> Iterator[str]:
    """A5, A6, W1: once, once more per "run it again"; one that says retry once per attempt."""
    agains: dict[str, int] = defaultdict(int)
    for park in evidence.parks.values():
        if park.reason == Reason.IN_DOUBT and park.status == ParkStatus.APPROVED:
            agains[park.metadata.get("entry", "")] += "payload" not in (park.answer or {})
    for run_id, entries in evidence.journals.items():
        retried = evidence.runs[run_id].target == "chaos.brittle"  # its attempts are counted anew
        for entry in (entry for entry in entries if entry.kind == "step"):
            lines = evidence.acted.get(str(entry.id), [])
            policy = POLICIES[entry.name]
            most = {"ask": 1 + agains[str(entry.id)], "fail": 1}.get(policy, entry.attempts)
            if len(lines) > most and not retried:
                yield f"{entry.name} {entry.id} acted {len(lines)} times, allowed {most}"
            attempts = [line["attempt"] for line in lines]
            if len(attempts) > len(set(attempts)) and not retried:
                yield f"{entry.name} {entry.id} acted twice in one attempt: {attempts}"
            if any((line["run"], line["key"]) != (run_id, f"sayso:{entry.id}") for line in lines):
                yield f"{entry.name} {entry.id} acted for another run, or under another key"


def what_a_step_returned_was_done(evidence: Evidence) -> Iterator[str]:
    """W1: a result in the journal has its effect; a step that was never entered has none."""
    for entry in (entry for entries in evidence.journals.values() for entry in entries):
        if entry.kind != "step":
            continue
        lines = evidence.acted.get(str(entry.id), [])
        if entry.state == EntryState.DONE and entry.error is None and not lines:
            yield f"{entry.name} {entry.id} returned {entry.result} and never acted"
        if entry.state == EntryState.DONE and entry.error is None and entry.result != DONE:
            if not isinstance(entry.result, dict) or "happened" not in entry.result:
                yield f"{entry.name} {entry.id} returned {entry.result}"
        if lines and not entry.claim:
            yield f"{entry.name} {entry.id} acted and was never claimed"
    known = {str(entry.id) for entries in evidence.journals.values() for entry in entries}
    yield from (f"step {key} acted and is in no journal" for key in evidence.acted.keys() - known)


def a_decision_is_the_answer_of_its_request(evidence: Evidence) -> Iterator[str]:
    """W2, W4, W5: what the journal holds of a gate is what the request's row says."""
    for entry in (entry for entries in evidence.journals.values() for entry in entries):
        if entry.kind != "approval" or entry.state not in (EntryState.DONE, EntryState.CLOSED):
            continue
        park = evidence.parks.get(str(entry.id))
        if entry.state == EntryState.CLOSED:
            if park is None or park.status != ParkStatus.CANCELLED:
                yield f"gate {entry.id} was closed, its request is {park and park.status}"
        elif park is None:
            if not entry.result["conflict"] or entry.result["status"] != "rejected":
                yield f"gate {entry.id} was decided without a request: {entry.result}"
        elif _told(entry) != _answered(park):
            yield f"gate {entry.id} gave {entry.result}, its request is {park.status}"


def _told(entry: JournalEntry) -> tuple[object, ...]:
    told = entry.result
    assert isinstance(told, dict), "a decision is an object"
    return told["status"], told["payload"], told["reason"], told["conflict"]


def _answered(park: Park) -> tuple[object, ...]:
    said_yes = park.status == ParkStatus.APPROVED
    payload = (park.answer or {}).get("payload")
    return "approved" if said_yes else "rejected", payload, park.answer_reason, False


def a_result_follows_from_its_journal(evidence: Evidence) -> Iterator[str]:
    """W7: a body replayed here over the journal ends as it did there."""
    for run in evidence.workflows.values():
        if run.status == RunStatus.COMPLETED:
            again = _replayed(run)
            if again != run.output:
                yield f"run {run.id} of {run.target} returned {run.output}, replayed {again}"


def _replayed(run: Run) -> object:
    held, body = journal.load(run.id), bodies.body_of(run)
    if isinstance(body, HitlError):
        return str(body)
    session = bodies.session_of(held)
    try:
        outcome = bodies.replay(session, body, held)
    except Exception as error:  # a journal with a gap
        return repr(error)
    finally:
        session.close()
    return values.clean(outcome.value) if isinstance(outcome, Returned) else str(outcome)


def a_key_began_one_run(evidence: Evidence) -> Iterator[str]:
    """W12, P2: whoever gave the same key was told of the same run, which is there."""
    begun: dict[str, set[str]] = defaultdict(set)
    for line in evidence.journal_file.lines("begun"):
        if line.get("key"):
            begun[line["key"]].add(line["run"])
        if "run" in line and line["run"] not in evidence.workflows:
            yield f"run {line['run']} ({line['reference']}) is gone"
    yield from (f"{key} began {runs}" for key, runs in begun.items() if len(runs) > 1)
    held: dict[tuple[str, str], list[str]] = defaultdict(list)
    for key, run in evidence.workflows.items():
        if run.idempotency_key is not None:
            held[run.target, run.idempotency_key].append(key)
    yield from (f"{what} is held by {runs}" for what, runs in held.items() if len(runs) > 1)


def a_hook_takes_one_payload(evidence: Evidence) -> Iterator[str]:
    """K1: who was told that it was taken finds it in one journal, and nobody else does."""
    words: dict[str, int] = defaultdict(int)
    for entry in (entry for entries in evidence.journals.values() for entry in entries):
        if entry.kind == "hook" and isinstance(entry.result, dict) and "word" in entry.result:
            words[entry.result["word"]] += 1
    for line in evidence.journal_file.lines("resumed"):
        times = words.get(line["word"], 0)
        if times != bool(line["delivered"]):
            heard = line["code"] or "taken"
            yield f"payload {line['word']} was told {heard}, and is there {times} times"
    known = {line["word"] for line in evidence.journal_file.lines("resuming")}
    yield from (f"payload {word} came from nobody" for word in words.keys() - known)


def an_agent_and_its_workflow_tell_the_same(evidence: Evidence) -> Iterator[str]:
    """W11: a child began once, and whoever waited for it was told how it ended."""
    entries = {str(one.id): one for several in evidence.journals.values() for one in several}
    for child in (run for run in evidence.runs.values() if run.parent_id is not None):
        waited = entries.get(child.parent_key)
        call = evidence.calls.get(child.parent_key)
        done = child.status == RunStatus.COMPLETED
        if child.status in FINAL and child.reported_at is None:
            yield f"run {child.id} is {child.status}, and nobody was told"
        if waited is not None and waited.state == EntryState.DONE:
            said = (waited.result or {}).get("text") if waited.error is None else None  # type: ignore[union-attr]
            if said != ((child.output or {}).get("text") if done else None):
                yield f"run {child.id} said {child.output}, its workflow heard {waited.result}"
        if call is not None and call.outcome in (Outcome.OK, Outcome.ERROR):
            if (call.outcome == Outcome.OK) != done or (done and call.result != child.output):
                told = f"{call.outcome} {call.result}"
                yield f"run {child.id} is {child.status}, its tool gave {told}"
    for call in evidence.calls.values():
        kind = BY_NAME.get(call.tool_name)
        if kind is not None and kind.is_workflow and call.outcome == Outcome.OK:
            if not any(run.parent_key == str(call.id) for run in evidence.workflows.values()):
                yield f"call {call.id} gave {call.result}, and began no run"


CHECKS: tuple[Check, ...] = (
    every_workflow_has_ended_or_waits,
    a_step_acted_as_often_as_allowed,
    what_a_step_returned_was_done,
    a_decision_is_the_answer_of_its_request,
    a_result_follows_from_its_journal,
    a_key_began_one_run,
    a_hook_takes_one_payload,
    an_agent_and_its_workflow_tell_the_same,
)
