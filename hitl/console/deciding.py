"""`manage.py hitl approve|reject|cancel|extend`: one request or several, each with its own result.

Without `--yes` it says what would be done and does nothing. Several are named by their ids, never
by a filter, and each is a transaction of its own (I11).
"""

from collections.abc import Mapping
from typing import Any

from hitl import clock, states
from hitl.console import addresses, decisions, documents, login
from hitl.console.documents import Document
from hitl.console.exits import Exit, Refusal
from hitl.console.outcomes import Outcome
from hitl.console.screen import line
from hitl.models import Park
from hitl.states import TOO_LATE, Code

Options = Mapping[str, Any]
IDS_MAX = 100


def decide(options: Options) -> Outcome:
    """Do one verb to one request, or to several."""
    ids = list(dict.fromkeys(options["ids"]))
    if len(ids) == 1:
        return _one(options, ids[0])
    if len(ids) > IDS_MAX:
        raise Refusal(Exit.USAGE, "usage", f"At most {IDS_MAX} requests are decided at once.")
    if options.get("payload") is not None or options.get("arguments") is not None:
        raise Refusal(Exit.USAGE, "usage", "A payload or arguments are for one request alone.")
    outcomes = {one: _attempt(options, one) for one in ids}
    return _together(options, outcomes)


def _one(options: Options, address: str) -> Outcome:
    plan = decisions.Plan(
        verb=options["verb"],
        park=addresses.find(address),
        reason=options["reason"],
        payload=decisions.read_payload(options.get("payload")),
        arguments=decisions.read_arguments(options.get("arguments")),
        more=decisions.read_extension(options),
    )
    if options["yes"]:
        return _decided(plan)
    if (code := plan.too_late()) is not None:
        return _refused(plan, code, states.SENTENCES[code])
    message = f"Nothing was decided. With --yes: {plan.effect}"
    return Outcome(
        document=documents.failure("unconfirmed", message, **_told(plan, decided=False)),
        view=lambda: _tables().plan(plan),
        exit_code=Exit.UNCONFIRMED,
        complaint=message,
    )


def _attempt(options: Options, address: str) -> Outcome:
    """Return what came of one of several; one that is not found does not hold up the others."""
    try:
        return _one(options, address)
    except Refusal as refusal:
        return Outcome(
            document=documents.failure(refusal.error_code, str(refusal)),
            view=tuple,
            exit_code=refusal.exit_code,
            complaint=str(refusal),
        )


def _together(options: Options, outcomes: dict[str, Outcome]) -> Outcome:
    """Return one outcome for several: a result for each, and the code that says the worst."""
    codes = {outcome.exit_code for outcome in outcomes.values()}
    done = sum(outcome.exit_code == Exit.DONE for outcome in outcomes.values())
    results = [{"id": one, **outcome.document} for one, outcome in outcomes.items()]
    document: Document = {"done": done, "results": results}
    worst, complaint = Exit.DONE, ""
    if codes != {Exit.DONE}:
        waits = Exit.UNCONFIRMED in codes and not options["yes"]
        worst = Exit.UNCONFIRMED if waits else Exit.FAILED
        worst = codes.pop() if len(codes) == 1 else worst
        complaint = (
            "Nothing was decided; add --yes."
            if waits
            else f"{len(outcomes) - done} of {len(outcomes)} were not done."
        )
        document = documents.failure("unconfirmed" if waits else "not_all", complaint, **document)
    lines = [
        f"{line(one)}  {line(outcome.complaint) or DONE_WORDS[options['verb']]}"
        for one, outcome in outcomes.items()
    ]
    return Outcome(document=document, view=lambda: lines, exit_code=worst, complaint=complaint)


def _decided(plan: decisions.Plan) -> Outcome:
    """Carry it out and tell what came of it."""
    answer = plan.carry_out()
    if not answer.delivered:
        assert answer.code is not None and answer.error is not None, "a loser is told why"
        return _refused(plan, Code(answer.code), answer.error)
    if answer.code == Code.COUNTED:
        done = f"Counted as {login.actor()}. Still needed: {answer.outstanding}."
        told = _told(plan, decided=False, counted=True, outstanding=answer.outstanding)
        return Outcome(document=told, view=lambda: _tables().done(plan, done))
    done = f"{DONE_WORDS[plan.verb]} as {login.actor()}. {plan.effect}"
    return Outcome(document=_told(plan, decided=True), view=lambda: _tables().done(plan, done))


def _refused(plan: decisions.Plan, code: Code, sentence: str) -> Outcome:
    """Tell that nothing was done. The code says whether there is anything left to decide."""
    message = f"{'Too late' if code in TOO_LATE else 'Refused'}, nothing was done. {sentence}"
    if code in (Code.NOT_ALLOWED, Code.NOT_AN_APPROVER):
        message += f" Here you are the user {login.user_name()} of this project, if there is one."
    return Outcome(
        document=documents.failure(code, message, **_told(plan, decided=False, effect=None)),
        view=tuple,
        exit_code=Exit.NOT_FOUND if code == Code.NOT_FOUND else Exit.FAILED,
        complaint=message,
    )


def _told(plan: decisions.Plan, *, decided: bool, **more: Any) -> Document:
    """Return what all verbs say in any case, with the request as it now is."""
    fresh = Park.objects.filter(id=plan.park.id).first()
    return {
        "decided": decided,
        "verb": plan.verb,
        "effect": plan.effect,
        **more,
        "request": documents.request(fresh or plan.park),
    }


def left_to_settle() -> str:
    """Return how far a long sweep has to go."""
    return f"{Park.objects.due(clock.now()).count()} requests still to settle"


def _tables() -> Any:
    """Import the readable forms, and rich with them, only when somebody reads."""
    from hitl.console import tables

    return tables


DONE_WORDS = {
    "approve": "Approved",
    "reject": "Rejected",
    "cancel": "Cancelled",
    "extend": "Extended",
}
ERRANDS = dict.fromkeys(DONE_WORDS, decide)
