"""What must hold of agents: their rows, the effects of their tools, and the results of jobs."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import datetime

from agents.agent import DELEGATION
from agents.models import Frame
from agents.states import FINAL, Outcome, RunStatus
from hitl.models import EarlyAnswer
from hitl.states import ParkStatus
from tests.chaos import scripts
from tests.chaos.evidence import Check, Evidence
from tests.chaos.scripts import BY_NAME

# Whether a call that ended so acted: never, at least once, or perhaps.
NEVER = {Outcome.DENIED, Outcome.TIMED_OUT, Outcome.CANCELLED, Outcome.STOPPED}
SURELY = {Outcome.OK}
GIVEN_UP = "Given up after"
GONE = "ModelRefused"
HELD_BACK = "was held by the guardrail"


def no_gated_tool_ran_without_a_yes(evidence: Evidence) -> Iterator[str]:
    """A2, A8: approved, without a result given in its place, and before it ran."""
    for call, lines in evidence.effects.items():
        kind = evidence.kind(call)
        gate = evidence.gate(call)
        if kind is None or not (kind.gated or gate is not None):  # a guardrail may gate any call
            continue
        if gate is None or gate.status != ParkStatus.APPROVED:
            yield f"{kind.name} {call} ran; its request is {gate.status if gate else 'missing'}"
        elif gate.was_answered_with_result:
            yield f"{kind.name} {call} ran although a person gave its result"
        elif gate.settled_at is None or datetime.fromisoformat(lines[0]["at"]) < gate.settled_at:
            yield f"{kind.name} {call} ran at {lines[0]['at']}, approved at {gate.settled_at}"


def nothing_was_done_more_often_than_allowed(evidence: Evidence) -> Iterator[str]:
    """A5, A6: once, once more per "run it again"; a tool that says retry once per lease."""
    for call, lines in evidence.effects.items():
        kind = evidence.kind(call)
        if kind is None:
            continue
        run = evidence.runs.get(lines[0]["run"])
        row = evidence.calls.get(call)
        on_doubt = row.on_doubt if row is not None else kind.on_doubt
        most = {"ask": 1 + evidence.agains(call), "fail": 1}.get(on_doubt)
        if most is None:
            most = run.lease_token if run is not None else len(lines)
        if len(lines) > most:
            times = [line["at"] for line in lines]
            yield f"{kind.name} {call} acted {len(lines)} times, allowed {most}: {times}"


def a_repeated_effect_has_the_same_key(evidence: Evidence) -> Iterator[str]:
    """A6: and no two calls share one."""
    owners: dict[str, set[str]] = defaultdict(set)
    for call, lines in evidence.effects.items():
        keys = {line["key"] for line in lines}
        if len(keys) != 1:
            yield f"call {call} had the keys {keys}"
        for key in keys:
            owners[key].add(call)
    yield from (f"{key} was given to {calls}" for key, calls in owners.items() if len(calls) > 1)


def effects_are_what_the_rows_say(evidence: Evidence) -> Iterator[str]:
    """A7, A8: what was refused did not act, what is told as done did, in the same run."""
    for call, row in evidence.calls.items():
        lines = evidence.effects.get(call, [])
        kind = BY_NAME.get(row.tool_name)
        if kind is None:
            if not row.tool_id.startswith(DELEGATION) or lines:
                yield f"{row.tool_name} {call} is no tool of ours, or acted itself"
            continue
        if kind.is_workflow:
            continue  # it is told by what its run returns
        outcome = Outcome(row.outcome) if row.outcome else None
        acted = bool(lines)
        has_begun = kind.is_job and evidence.job(call) is not None  # what it was denied is its end
        if acted and ((outcome in NEVER and not has_begun) or not kind.fits):
            yield f"{kind.name} {call} ended as {outcome} and acted {len(lines)} times"
        if outcome == Outcome.ANSWERED and acted and not evidence.doubts(call):
            yield f"{kind.name} {call} was answered by a person and acted"
        surely = outcome in SURELY or (outcome == Outcome.ERROR and kind.raises)
        if surely and not acted and "NOT performed" not in str(row.result):
            yield f"{kind.name} {call} ended as {outcome} and never acted"
        if any(line["run"] != str(row.run_id) for line in lines):
            yield f"{kind.name} {call} acted for another run"
        gate = evidence.gate(call)
        informed = gate is not None and bool(gate.answer) and "payload" in (gate.answer or {})
        if kind.name == "brief" and any(line["informed"] != informed for line in lines):
            yield f"{kind.name} {call}: the answer's information did not reach the tool"


def every_run_has_ended_or_waits_for_a_person(evidence: Evidence) -> Iterator[str]:
    """R4: and ended for a reason that its script, a stop or a poisoned worker explains."""
    for run in evidence.agent_runs.values():
        script = scripts.parse(run.input["message"])
        if run.status not in (*FINAL, RunStatus.WAITING_FOR_INPUT):
            yield f"run {run.id} is {run.status}"
        if run.status == RunStatus.FAILED and GIVEN_UP not in run.error:
            gone = scripts.GONE in script.words and GONE in run.error
            if not gone and not _was_held(evidence, str(run.id), "", run.error):
                yield f"run {run.id} FAILED: {run.error}"
        if run.status == RunStatus.COMPLETED:
            said, steps = (run.output or {}).get("text"), len(evidence.said[str(run.id), ""])
            if said != scripts.GOODBYE or steps != len(script.words) + 1:
                yield f"run {run.id} ended after {steps} of {len(script.words)} steps: {said}"


def nothing_was_lost(evidence: Evidence) -> Iterator[str]:
    """P2: a conversation that was begun is there, unless its author deleted it."""
    deleted = {
        line["thread"] for line in evidence.journal_file.lines("doing") if line["act"] == "delete"
    }
    there = {str(run.thread_id) for run in evidence.runs.values()}
    for line in evidence.journal_file.lines("started"):
        if line["thread"] not in there | deleted:
            yield f"thread {line['thread']} ({line['message']}) is gone"


def a_job_takes_one_result(evidence: Evidence) -> Iterator[str]:
    """J2, J3: who was told that a result counted finds it in the row, though it came early."""
    winners: Counter[str] = Counter()
    for line in evidence.finished:
        call, word = line["call"], line["word"]
        park, run = evidence.job(call), evidence.runs.get(_run_of(evidence, call))
        winners[call] += line["delivered"] is True
        given = ((park.answer or {}).get("payload") or {}) if park is not None else {}
        if line["delivered"] is True and given.get("word") != word:
            # The call may have ended before it parked: then nothing was there to take it.
            if park is not None and park.status != ParkStatus.CANCELLED:
                yield f"result {word} of {call} counted, but its row has {given}, {park.status}"
            elif run is not None and run.status not in (RunStatus.CANCELLED, RunStatus.FAILED):
                if _kept_a_result(evidence, call):
                    yield f"result {word} of {call} counted and was dropped"
        elif line["delivered"] is False and given.get("word") == word:
            yield f"result {word} of {call} was told {line['code']}, and stands"
        elif line["delivered"] is None and line["code"].startswith("status 4"):
            yield f"result {word} of {call} was refused: {line['code']}"
    yield from (f"job {call} took {times} results" for call, times in winners.items() if times > 1)


def _run_of(evidence: Evidence, call: str) -> str:
    row = evidence.calls.get(call)
    return str(row.run_id) if row is not None else ""


def _kept_a_result(evidence: Evidence, call: str) -> bool:
    """Tell whether this call ended as one that went on from its job."""
    row = evidence.calls.get(call)
    return row is not None and row.outcome in (Outcome.OK, Outcome.ERROR)


def a_job_goes_on_with_the_answer_of_its_row(evidence: Evidence) -> Iterator[str]:
    """J1, J2, J5: once it is settled, with what was given, or with nothing at its deadline."""
    for call, lines in evidence.resumed.items():
        park = evidence.job(call)
        if park is None or park.status not in (ParkStatus.APPROVED, ParkStatus.TIMED_OUT):
            yield f"job {call} went on; what it waited for is {park.status if park else 'missing'}"
            continue
        expected = (park.answer or {}).get("payload")
        for line in lines:
            if line["late"] != (park.status == ParkStatus.TIMED_OUT) or line["payload"] != expected:
                yield f"job {call} went on with {line}, and its row says {park.answer}"
            if park.settled_at is None or datetime.fromisoformat(line["at"]) < park.settled_at:
                yield f"job {call} went on before it was settled"
    for line in evidence.effects_file.lines("begun"):
        # By when the tool was entered: a worker that was frozen inside may act long after another
        # has gone on in its place.
        call, park = line["call"], evidence.job(line["call"])
        if park is not None and datetime.fromisoformat(line["at"]) > park.opened_at:
            yield f"job {call} was begun once more after it had parked"


def a_subagent_ends_as_its_script_says(evidence: Evidence) -> Iterator[str]:
    """N2, N3, N4: after all its replies, each once; or failed, by its model or with those above."""
    for frame in evidence.frames:
        script, call = scripts.parse(frame.message), frame.call
        steps = len(evidence.said[str(frame.run_id), str(frame.id)])
        if call.outcome == Outcome.OK:
            if call.result != scripts.GOODBYE or steps != len(script.words) + 1:
                yield f"{frame} ended after {steps} of {len(script.words)} steps: {call.result}"
        elif call.outcome == Outcome.ERROR:
            gone = scripts.GONE in script.words and GONE in str(call.result)
            run, result = str(frame.run_id), str(call.result)
            if not gone and not _was_held(evidence, run, str(frame.id), result):
                yield f"{frame} failed: {call.result}"
        elif call.outcome == Outcome.STOPPED:
            if frame.run.status == RunStatus.COMPLETED and not _above_failed(evidence, frame):
                yield f"{frame} was stopped, and its run went on"
        elif call.outcome or frame.run.status in FINAL:
            yield f"{frame} ended as {call.outcome}"


def _was_held(evidence: Evidence, run: str, frame: str, said: str) -> bool:
    """Tell whether a turn ended since a guardrail held its last reply and nobody released it."""
    last = evidence.said[run, frame][-1:]
    refused = {ParkStatus.REJECTED, ParkStatus.TIMED_OUT, ParkStatus.CANCELLED}
    return HELD_BACK in said and any(
        park.is_held and park.status in refused
        for step in last
        for park in evidence.about[str(step.id)]
    )


def _above_failed(evidence: Evidence, frame: Frame) -> bool:
    by_id = {each.id: each for each in evidence.frames}
    above = by_id.get(frame.call.step.frame_id) if frame.call.step.frame_id else None
    return above is not None and (
        above.call.outcome == Outcome.ERROR or _above_failed(evidence, above)
    )


def nothing_is_kept_for_nobody(_: Evidence) -> Iterator[str]:
    """J3: at rest, an answer that came early was applied or dropped."""
    for early in EarlyAnswer.objects.order_by("id"):
        yield f"an answer to call {early.key} is still kept"


CHECKS: tuple[Check, ...] = (
    no_gated_tool_ran_without_a_yes,
    nothing_was_done_more_often_than_allowed,
    a_repeated_effect_has_the_same_key,
    effects_are_what_the_rows_say,
    every_run_has_ended_or_waits_for_a_person,
    nothing_was_lost,
    a_job_takes_one_result,
    a_job_goes_on_with_the_answer_of_its_row,
    a_subagent_ends_as_its_script_says,
    nothing_is_kept_for_nobody,
)
