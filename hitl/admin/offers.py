"""What a person may do with a request, in words. Touches nothing.

The words depend on what waits: a call to allow, a call in doubt, a tool that reads the answer, what
a guardrail holds (G3), a job that finishes by itself (J6). They say plainly whether the tool will
run (A8).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hitl.forms import ExtensionForm, ReasonForm, ResultForm
from hitl.inbox import Act
from hitl.models import Park
from hitl.states import Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One act on the request page: who may do it, its form and its words.

    `needs` are the permissions, all of them. `at_once` offers a button that does it, where the
    others first open a form. `said` confirms it once it counted.
    """

    name: str
    needs: tuple[Act, ...]
    form: type[ReasonForm]
    button: str
    tone: str
    help: str
    said: str
    result_label: str = ""
    at_once: bool = False


APPROVE = Offer(
    name="approve",
    needs=(Act.DECIDE,),
    form=ReasonForm,
    button="Approve",
    tone="go",
    help="The tool runs once, with exactly these arguments.",
    said="Approved. The tool will run, with exactly these arguments.",
    at_once=True,
)
DENY = Offer(
    name="deny",
    needs=(Act.DECIDE,),
    form=ReasonForm,
    button="Deny",
    tone="stop",
    help="The tool does not run. The agent is told so, with your reason, and goes on.",
    said="Denied. The tool does not run.",
)
ANSWER = Offer(
    name="answer",
    needs=(Act.ANSWER,),
    form=ResultForm,
    button="Answer with a result",
    tone="plain",
    help="The tool will NOT run: the agent takes what you write here for the tool's result.",
    said="Answered with a result. The tool does not run.",
    result_label="Result",
)
CANCEL = Offer(
    name="cancel",
    needs=(Act.CANCEL,),
    form=ReasonForm,
    button="Withdraw the request",
    tone="plain",
    help="Nobody decides. The tool does not run, and the agent is told that it was withdrawn.",
    said="Withdrawn. The tool does not run.",
)
INFORM = replace(
    ANSWER,
    # The tool runs, so this is a yes as well.
    needs=(Act.ANSWER, Act.DECIDE),
    button="Approve with information",
    help="The tool runs once, with these arguments, and reads what you write here.",
    said="Approved. The tool will run and read your information.",
    result_label="Information for the tool",
)

EXTEND = Offer(
    name="extend",
    needs=(Act.EXTEND,),
    form=ExtensionForm,
    button="Give more time",
    tone="plain",
    help="The request stays open longer. Nothing else changes.",
    said="Extended. The new deadline is shown.",
)

GATE = (APPROVE, DENY, ANSWER, CANCEL)
GATE_FOR_CONTEXT = (APPROVE, DENY, INFORM, CANCEL)
IN_DOUBT = (
    replace(
        ANSWER,
        button="It happened, with this result",
        tone="go",
        help="The tool will NOT run again: the agent takes what you write here for its result.",
        said="Noted as done. The tool does not run again.",
    ),
    replace(
        APPROVE,
        button="Run it again",
        tone="stop",
        help="The tool runs once more. If it did happen before, it happens twice.",
        said="The tool will run again.",
        at_once=False,
    ),
    replace(
        DENY,
        button="Give it up",
        tone="plain",
        help="The tool does not run again. The agent is told that nobody knows if it happened.",
        said="Given up. The tool does not run again.",
    ),
    replace(
        CANCEL,
        help="Nobody decides. The tool does not run again, and the agent is told so.",
        said="Withdrawn. The tool does not run again.",
    ),
)

JOB = (
    replace(
        INFORM,
        button="Finish with a result",
        tone="plain",
        help="The job counts as done: the tool goes on with what you write here as its result.",
        said="Finished. The tool goes on with this result.",
        result_label="Result of the job",
    ),
    replace(
        DENY,
        button="Give it up",
        tone="plain",
        help="The tool does not go on. The agent is told so, with your reason. Should the job "
        "finish after all, it comes too late.",
        said="Given up. The tool does not go on.",
    ),
    replace(
        CANCEL,
        help="The tool does not go on, and the agent is told that it was withdrawn.",
        said="Withdrawn. The tool does not go on.",
    ),
)
QUESTION_OF_A_TOOL = (
    replace(
        APPROVE,
        help="The tool goes on from where it asked, once.",
        said="Approved. The tool will go on.",
    ),
    replace(
        DENY,
        help="The tool does not go on. The agent is told so, with your reason.",
        said="Denied. The tool does not go on.",
    ),
    replace(
        INFORM,
        help="The tool goes on from where it asked, once, and reads what you write here.",
        said="Approved. The tool will go on and read your information.",
    ),
    replace(
        CANCEL,
        help="Nobody decides. The tool does not go on, and the agent is told so.",
        said="Withdrawn. The tool does not go on.",
    ),
)

OF_A_BODY = (
    replace(
        APPROVE,
        help="The workflow goes on with a yes.",
        said="Approved. The workflow goes on.",
    ),
    replace(
        DENY,
        help="The workflow goes on with a no, and is told your reason.",
        said="Denied. The workflow goes on with that.",
    ),
    replace(
        INFORM,
        help="The workflow goes on with a yes, and reads what you write here.",
        said="Approved. The workflow goes on and reads your information.",
        result_label="Information for the workflow",
    ),
    replace(
        CANCEL,
        help="Nobody decides. The workflow goes on as after a no.",
        said="Withdrawn. The workflow goes on as after a no.",
    ),
)
OF_A_BODY_WITH_SCHEMA = (
    # A bare yes would be refused: it has to say what the workflow asks for.
    replace(OF_A_BODY[2], tone="go", button="Approve with an answer", result_label="Answer"),
    OF_A_BODY[1],
    OF_A_BODY[3],
)
HOOK = (
    replace(
        INFORM,
        button="Deliver by hand",
        tone="plain",
        help="The workflow goes on with what you write here, as if it had come from outside.",
        said="Delivered. The workflow goes on with it.",
        result_label="What came",
    ),
    replace(
        CANCEL,
        help="Nothing is delivered. The workflow is told that its hook was closed.",
        said="Withdrawn. The workflow is told so.",
    ),
)
STEP_IN_DOUBT = tuple(
    replace(
        offer,
        help=offer.help.replace("The agent", "The workflow")
        .replace("the agent", "the workflow")
        .replace("The tool", "The step"),
        said=offer.said.replace("The tool", "The step"),
    )
    for offer in IN_DOUBT
)

STANDALONE = (
    replace(
        APPROVE,
        help="Whoever asked is told yes, and gets exactly this payload.",
        said="Approved. Whoever asked is told so.",
    ),
    replace(
        DENY,
        help="Whoever asked is told no, with your reason.",
        said="Denied. Whoever asked is told so.",
    ),
    replace(
        CANCEL,
        help="Nobody decides. Whoever asked is told that the request was withdrawn.",
        said="Withdrawn. Whoever asked is told so.",
    ),
)

HELD = (
    replace(
        APPROVE,
        button="Let it go on",
        help="Exactly what is shown here goes on, and it is not judged again.",
        said="Released. It goes on exactly as it was shown.",
    ),
    replace(
        DENY,
        button="Refuse it",
        help="It goes no further: the turn ends and names the rule.",
        said="Refused. The turn ends.",
    ),
    replace(
        CANCEL,
        help="Nobody decides. It goes no further, and the turn ends.",
        said="Withdrawn. The turn ends.",
    ),
)

BY_NAME: Mapping[str, Act] = {offer.name: offer.needs[0] for offer in (*GATE, EXTEND)}
"""The acts and the permission that each needs at least."""


def on(park: Park) -> tuple[Offer, ...]:
    """Return what can be done with this request while it is pending, the likeliest first."""
    return (*_decisions(park), EXTEND) if park.expires_at is not None else _decisions(park)


def _decisions(park: Park) -> tuple[Offer, ...]:
    if park.is_standalone:
        return STANDALONE
    if park.is_own_scope:
        return _of_workflow(park)
    if park.reason == Reason.IN_DOUBT:
        return IN_DOUBT
    if park.reason == Reason.GUARDRAIL:
        return HELD
    if park.is_job:
        return QUESTION_OF_A_TOOL if park.is_for_people else JOB
    return GATE_FOR_CONTEXT if park.takes_payload == "context" else GATE


def _of_workflow(park: Park) -> tuple[Offer, ...]:
    if park.reason == Reason.IN_DOUBT:
        return STEP_IN_DOUBT
    if park.reason == Reason.HOOK:
        return HOOK
    return OF_A_BODY if park.schema is None else OF_A_BODY_WITH_SCHEMA
