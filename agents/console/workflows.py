"""What `manage.py workflows` does, one function per word of its command line.

Each returns an Outcome; what cannot be done raises Refusal. What changes something asks for `--yes`
and calls the verbs of `agents/workflows/verbs.py`, in a transaction of its own.
"""

from collections.abc import Callable
from typing import Any

from django.db import transaction

import hitl
from agents.console import documents
from agents.models import Run, RunKind
from agents.states import FINAL, RunStatus
from agents.workflows import authoring, timeline, verbs
from agents.workflows.authoring import Workflow
from agents.workflows.errors import InvalidInput, WorkflowNotFound
from hitl import parks, values
from hitl.console import documents as shared
from hitl.console import login, progress
from hitl.console.command import Options
from hitl.console.exits import Exit, Refusal
from hitl.console.outcomes import Outcome
from hitl.console.screen import line
from hitl.errors import BadJson

CHANNEL = "cli"


def show_list(options: Options) -> Outcome:
    """List one page of runs, newest first, and name the workflows that the code has."""
    rows = _runs().defer("input", "output", "error").order_by("-id")
    if options["workflow"] is not None:
        rows = rows.filter(target=values.clean_text(options["workflow"]))
    if options["status"] is not None:
        rows = rows.filter(status=options["status"])
    if options["cursor"] is not None:
        if (last := parks.as_uuid(options["cursor"])) is None:
            raise Refusal(Exit.USAGE, "invalid_cursor", "--cursor is not of this list.")
        rows = rows.filter(id__lt=last)
    found = list(rows[: options["limit"] + 1])
    page = found[: options["limit"]]
    cursor = str(page[-1].id) if len(found) > len(page) else None
    names = [each.name for each in authoring.every()]
    brief = ("run_id", "workflow", "status", "correlation_key", "created_at", "finished_at")
    told = [{name: documents.run(row)[name] for name in brief} for row in page]
    return Outcome(
        document={"runs": told, "next_cursor": cursor, "workflows": names},
        view=lambda: _tables().runs(page, cursor, names),
    )


def show(options: Options) -> Outcome:
    """Show one run with its journal, or a workflow by its name."""
    name = options["id"]
    if parks.as_uuid(name) is None:
        workflow = _workflow(name)
        return Outcome(
            document=documents.workflow(workflow), view=lambda: _tables().workflow(workflow)
        )
    run = _find(name)
    journal, open_here = timeline.read(run), hitl.pending(run)
    document = {
        "run": documents.run(run),
        "journal": [documents.entry(shown) for shown in journal.items],
        "journal_is_cut": journal.is_cut,
        "pending": [str(one.request_id) for one in open_here],
    }
    return Outcome(document=document, view=lambda: _tables().run(run, journal, open_here))


def start(options: Options) -> Outcome:
    """Start a run; without `--yes`, check the input and start nothing."""
    workflow = _workflow(options["name"])
    try:
        given = values.parse_object(options["input"])
        kept = workflow.read(**given)
    except BadJson as error:
        raise Refusal(Exit.USAGE, error.code, f"--input: {error}") from None
    except InvalidInput as error:
        raise Refusal(Exit.USAGE, error.code, str(error)) from None
    if not options["yes"]:
        effect = f"a run of {line(workflow.name)} starts with this input."
        return _unconfirmed(effect, {"input": kept}, lambda: _tables().input_of(kept))
    key = options["key"]
    of_this = _runs().filter(target=workflow.name, idempotency_key__isnull=False)
    is_known = of_this.filter(idempotency_key=key).exists()
    with transaction.atomic(durable=True):
        run = workflow.start(**given, idempotency_key=key)
    return _done(run, "This key began it before." if is_known else "Started.")


def cancel(options: Options) -> Outcome:
    """Cancel a run that is not over."""
    run = _find(options["id"])
    if run.status in FINAL:
        raise _too_late(run, "it is over")
    if not options["yes"]:
        effect = "the run ends, and whatever it has open is withdrawn."
        return _about(run, effect)
    with transaction.atomic(durable=True):
        won = verbs.cancel(run, reason=options["reason"], actor=login.actor(), channel=CHANNEL)
    if not won:
        raise _too_late(run, "it is over")
    run.refresh_from_db()
    done = "Cancelled." if run.status == RunStatus.CANCELLED else "It ends after its present step."
    return _done(run, done)


def retry(options: Options) -> Outcome:
    """Let a failed run go on from its journal."""
    run = _find(options["id"])
    if run.status != RunStatus.FAILED:
        raise _too_late(run, "it has not failed")
    if not options["yes"]:
        return _about(run, "the run goes on from its journal, with the code as it is now.")
    with transaction.atomic(durable=True):
        won = verbs.retry(run)
    if not won:
        raise _too_late(run, "it has not failed")
    return _done(run, "It goes on from its journal.")


def check(options: Options) -> Outcome:
    """Replay open journals against the code; writes nothing. Fails when some would diverge."""
    only = None if options["id"] is None else _find(options["id"])
    checked = 0
    diverged: list[verbs.Verdict] = []
    with progress.told(options["say"], lambda: f"{checked} runs checked, {len(diverged)} diverge"):
        for verdict in verbs.check(only):
            checked += 1
            if not verdict.fits:
                diverged.append(verdict)
    told = {"checked": checked, "diverged": [documents.verdict(one) for one in diverged]}
    if not diverged:
        fit = {0: "No run is under way.", 1: "1 run checked: it fits the code."}
        words = fit.get(checked, f"{checked} runs checked: all fit the code.")
        return Outcome(document=told, view=lambda: [words])
    of_all = f"{checked} run" if checked == 1 else f"{checked} runs"
    message = f"{len(diverged)} of {of_all} would diverge under this code."
    return Outcome(
        document=shared.failure("diverged", message, **told),
        view=lambda: _tables().verdicts(diverged),
        exit_code=Exit.FAILED,
        complaint=message,
    )


def _runs() -> Any:
    return Run.objects.filter(kind=RunKind.WORKFLOW)


def _find(address: str) -> Run:
    run_id = parks.as_uuid(address)
    run: Run | None = None if run_id is None else _runs().filter(id=run_id).first()
    if run is None:
        shown = line(address[:60])
        raise Refusal(Exit.NOT_FOUND, "not_found", f"There is no run “{shown}” of a workflow.")
    return run


def _workflow(name: str) -> Workflow:
    try:
        return authoring.get(name)
    except WorkflowNotFound as error:
        raise Refusal(Exit.NOT_FOUND, error.code, line(str(error))) from None


def _too_late(run: Run, why: str) -> Refusal:
    status = Run.objects.values_list("status", flat=True).get(id=run.id)
    return Refusal(Exit.FAILED, "too_late", f"Nothing was done: {why} ({status}).")


def _about(run: Run, effect: str) -> Outcome:
    return _unconfirmed(effect, {"run": documents.run(run)}, lambda: [*_tables().brief(run), ""])


def _unconfirmed(effect: str, more: dict[str, Any], view: Callable[[], Any]) -> Outcome:
    message = f"Nothing was done. With --yes: {effect}"
    return Outcome(
        document=shared.failure("unconfirmed", message, **more),
        view=view,
        exit_code=Exit.UNCONFIRMED,
        complaint=message,
    )


def _done(run: Run, sentence: str) -> Outcome:
    run.refresh_from_db()
    return Outcome(
        document={"done": sentence, "run": documents.run(run)},
        view=lambda: [*_tables().brief(run), "", sentence],
    )


def _tables() -> Any:
    """Import the readable forms, and rich with them, only when somebody reads."""
    from agents.console import tables

    return tables


ERRANDS: dict[str, Callable[[Options], Outcome]] = {
    "list": show_list,
    "show": show,
    "start": start,
    "cancel": cancel,
    "retry": retry,
    "check": check,
}
