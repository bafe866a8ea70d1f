"""Holding a message back, and letting go on what a person has released. Effects of guardrails.

Each is one transaction. What is held is nowhere to be seen but on the card of the one who decides;
what was released goes on as it is and is not judged again (G3).
"""

from typing import Any

from django.db import transaction

from agents import following, guarding, releases, replies, results, runs
from agents.guardrails.judging import redacted
from agents.guardrails.subjects import Action
from agents.models import Step
from agents.outages import insist
from agents.snapshot import Work
from agents.tree import Frame, Hold
from hitl import faults


def admit(work: Work, frame: Frame) -> bool:
    """Judge the user's message before the model is given it for the first time.

    False when the run has been let go of: the message is refused, which ends the run, or held.
    """
    if frame.parent is not None or frame.steps or "verdict" in work.run.input:
        return True
    judgement = guarding.judge_message(work, frame)
    verdict, rule = judgement.verdict, judgement.rule
    if verdict is None or rule is None:
        return True
    # Whatever becomes of this run, no later turn shows the model what is not released.
    kept = {
        **work.run.input,
        "verdict": verdict.as_data(),
        "given": results.withheld("message", verdict.rule),
    }
    match verdict.action:
        case Action.REDACT:
            kept["given"] = frame.message = redacted(rule, frame.message)
            _keep(work, kept)
            return True
        case Action.BLOCK:
            error = guarding.REFUSED_MESSAGE.format(rule=verdict.rule)
            releases.fail(work, error, entries=guarding.take_notes(work), input=kept)
        case _:
            frame.hold = Hold(work.run.id, verdict.as_data(), {"text": frame.message})
            _hold(work, kept)
    return False


def release(work: Work, frame: Frame) -> None:
    """Let go on what a person has released, exactly as it was held."""
    hold, frame.hold = frame.hold, None
    assert hold is not None
    if hold.is_message:
        frame.message = hold.what["text"]
        kept = {name: value for name, value in work.run.input.items() if name != "given"}
        _keep(work, {**kept, "released": True})
        return
    step = frame.steps[-1]
    step.text, step.raw = hold.what["text"], hold.what["raw"]
    frame.finished_with = None if step.calls else step.text
    entries = replies.shown(frame, hold.number)

    def store() -> None:
        Step.objects.filter(id=hold.key).update(text=step.text, raw=step.raw, held=None)
        faults.point("hold:releasing")

    work.released = insist(lambda: following.keep(work, entries, also=store, add={"holds": -1}))
    faults.point("hold:released")


def _keep(work: Work, kept: dict[str, Any]) -> None:
    """Keep the message as it may be given; the model is asked next."""
    entries = guarding.take_notes(work)
    with transaction.atomic(durable=True):
        runs.write(work.lease, entries, heed_stop=True, input=kept)
        faults.point("message:keeping")
    work.run.input = kept
    faults.point("message:kept")


def _hold(work: Work, kept: dict[str, Any]) -> None:
    """Keep that the message is held, with the question about it, and let go of the run."""
    entries = guarding.take_notes(work)
    work.released = insist(lambda: following.keep(work, entries, input=kept))
    assert work.released, "a held message is asked about"
    faults.point("message:held")
