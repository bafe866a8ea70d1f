"""What the model is told when a call did not simply run. Pure.

Each ending has a wording of its own; none reads as success or as "still pending" (A7, A12).
"""

from typing import Any

from agents.states import Outcome

NO_RESPONSE = "user had no response, action cancelled"

_NOT_DONE = {
    Outcome.DENIED: "A person denied this call. The action was NOT performed.",
    Outcome.TIMED_OUT: f"{NO_RESPONSE}. The action was NOT performed.",
    Outcome.CANCELLED: "This request was withdrawn before anyone decided. "
    "The action was NOT performed.",
    Outcome.STOPPED: "The run was stopped before this call was made. The action was NOT performed.",
}


def not_done(outcome: Outcome, reason: str = "") -> dict[str, Any]:
    """Return the result of a call that did not run, with the person's reason as data."""
    result: dict[str, Any] = {"status": str(outcome), "message": _NOT_DONE[outcome]}
    if reason:
        result["reason"] = reason
    return result


def broken_off(reason: str = "") -> dict[str, Any]:
    """Return the result of a delegation whose agent was stopped while it was at work."""
    result: dict[str, Any] = {
        "status": str(Outcome.STOPPED),
        "message": "The work was stopped while this agent was at it. Part of it may have been "
        "performed; the agent did not say.",
    }
    if reason:
        result["reason"] = reason
    return result


def job_ended(outcome: Outcome, reason: str = "") -> dict[str, Any]:
    """Return the result of a call whose job nobody waits for any more; its work had begun."""
    result: dict[str, Any] = {
        "status": str(outcome),
        "message": "Nobody waits for this job any more. It had been started elsewhere; its outcome "
        "is unknown and it gave no result.",
    }
    if reason:
        result["reason"] = reason
    return result


def unknown(detail: str) -> dict[str, Any]:
    """Return the result of a call of which nobody knows whether it happened."""
    return {
        "status": str(Outcome.UNKNOWN),
        "message": "The outcome of this call is unknown: it may or may not have been performed. "
        f"{detail}",
    }


def blocked(rule: str) -> dict[str, Any]:
    """Return the result of a call that a guardrail does not let through."""
    return error(
        f"The guardrail {rule!r} does not allow this call. The action was NOT performed. Do not "
        "try to get around it; do something else or tell the user."
    )


def withheld(what: str, rule: str) -> str:
    """Return what stands in the place of a message or a reply that a guardrail keeps back."""
    return f"[This {what} was withheld by the guardrail {rule!r}.]"


def held_back(what: str, rule: str, status: str) -> str:
    """Return why a turn ended whose message or reply was held and not released."""
    said = {
        "rejected": "a person refused it",
        "timed_out": "nobody decided about it in time",
        "cancelled": "the question about it was withdrawn",
    }[status]
    return f"The {what} was held by the guardrail {rule!r}, and {said}."


def error(sentence: str) -> dict[str, Any]:
    """Return a tool error."""
    return {"status": str(Outcome.ERROR), "error": sentence}


def edited(result: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a call that ran with arguments which a person had changed (A9)."""
    return {
        "message": "A person changed the arguments of this call before approving it. It ran with "
        "the arguments shown here, not with yours.",
        "arguments": arguments,
        "result": result,
    }


def refused_again(times: int) -> dict[str, Any]:
    """Return the result of a call that was denied so often that nobody is asked any more."""
    return {
        "status": str(Outcome.DENIED),
        "message": f"This exact call was already denied {times} times in this run, so nobody was "
        "asked again. The action was NOT performed. Do something else or tell the user.",
    }
