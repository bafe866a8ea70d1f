"""What a program does with runs of workflows: start, cancel, retry, check.

The verbs join the caller's transaction (A13). Lock order: the run, then its parks.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import IntegrityError

from agents import closing, runs, stopping
from agents.models import Run, RunKind
from agents.states import ACTIVE, FINAL, RunStatus
from agents.workflows import bodies, journal, reopening
from agents.workflows.authoring import Workflow
from agents.workflows.errors import Diverged, InvalidInput, RunNotFound
from agents.workflows.replay import Raised
from hitl import audit, values
from hitl.errors import HitlError
from hitl.ids import new_id
from hitl.parks import as_uuid
from hitl.transactions import unit_of_work

KEY_CHARS_MAX = 200
CHECK_BATCH = 200


def start(
    workflow: Workflow,
    arguments: dict[str, Any],
    *,
    idempotency_key: str | None = None,
    run_id: UUID | None = None,
    **of_parent: Any,
) -> Run:
    """Start a run with an input that was read, or return the one that this key began (W12)."""
    key = _checked(idempotency_key)
    if key is not None and (known := _begun(workflow, key)) is not None:
        return known
    try:
        with unit_of_work():
            return runs.create_workflow(
                workflow.name,
                arguments=arguments,
                id=run_id or new_id(),
                code_version=workflow.version,
                idempotency_key=key,
                **of_parent,
            )
    except IntegrityError:  # begun at this very moment
        if key is None or (known := _begun(workflow, key)) is None:
            raise
        return known


def cancel(
    run: Run | UUID | str, *, reason: str = "", actor: object = None, channel: str = "python"
) -> bool:
    """Cancel a run; False when it was over already.

    One that no worker holds is CANCELLED at once, with everything it has open; one in the middle of
    a step once that is kept. Raises RunNotFound.
    """
    who = audit.person(actor, channel)
    text = values.clean_text(reason or "cancelled")
    with unit_of_work():
        row = _locked(run)
        if row.status in FINAL:
            return False
        if not stopping.request_stop(row, reason=text, actor=who):
            closing.close_open_work(row, reason=text, actor=who)
            runs.close(row, RunStatus.CANCELLED, [], error=text)
        return True


def retry(run: Run | UUID | str) -> bool:
    """Let a FAILED run go on from its journal, once its code is mended; False for any other run.

    What is done stays done. A step whose failure ended the run is tried anew, and gates that the
    failure withdrew are asked again. Raises RunNotFound.
    """
    with unit_of_work():
        row = _locked(run)
        if row.status != RunStatus.FAILED:
            return False
        return runs.reopen(row, deliveries=reopening.reopen(row))


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a check found of one run: `error` is None when its journal fits the code."""

    run_id: UUID
    workflow: str
    error: str | None = None

    @property
    def fits(self) -> bool:
        return self.error is None


def check(run: Run | UUID | str | None = None) -> Iterator[Verdict]:
    """Replay the journal of one run, or of all that are not over, against the code; write nothing.

    Yields a verdict for each: which would diverge under this code, and where (W8).
    """
    if run is not None:
        yield _check(_found(run))
        return
    last = UUID(int=0)
    active = Run.objects.filter(kind=RunKind.WORKFLOW, status__in=ACTIVE).order_by("id")
    while batch := list(active.filter(id__gt=last)[:CHECK_BATCH]):
        yield from map(_check, batch)
        last = batch[-1].id


def _check(run: Run) -> Verdict:
    held = journal.load(run.id)
    body = bodies.body_of(run)
    if isinstance(body, HitlError):
        return Verdict(run.id, run.target, str(body))
    session = bodies.session_of(held)
    try:
        outcome = bodies.replay(session, body, held)
    finally:
        session.close()
    if isinstance(outcome, Raised) and isinstance(outcome.error, Diverged):
        return Verdict(run.id, run.target, str(outcome.error))
    return Verdict(run.id, run.target)


def _checked(key: object) -> str | None:
    if key is None:
        return None
    if not isinstance(key, str) or not key or len(key) > KEY_CHARS_MAX:
        raise InvalidInput(f"idempotency_key is a text of 1 to {KEY_CHARS_MAX} characters.")
    return values.clean_text(key)


def _begun(workflow: Workflow, key: str) -> Run | None:
    return Run.objects.filter(target=workflow.name, idempotency_key=key).first()


def _found(run: Run | UUID | str) -> Run:
    run_id = as_uuid(run)
    if run_id is not None:
        found = Run.objects.filter(id=run_id, kind=RunKind.WORKFLOW).first()
        if found is not None:
            return found
    raise RunNotFound


def _locked(run: Run | UUID | str) -> Run:
    locked = runs.lock(_found(run).id)
    if locked is None:
        raise RunNotFound
    return locked
