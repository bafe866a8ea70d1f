"""Resuming a hook from outside, by its token. One verb; it joins the caller's transaction."""

from typing import Any

from pydantic import ValidationError

from agents.workflows.gates import HookDefinition, checked_token
from hitl import parks, states, values
from hitl.models import Park
from hitl.parks import Answer
from hitl.states import Code, Reason


def resume(definition: HookDefinition, token: str, payload: Any, *, actor: object) -> Answer:
    """Deliver a payload to the hook of this definition that holds this token."""
    try:
        name = checked_token(token)
    except ValueError:
        name = None
    park = find(name, definition.name)
    if park is None:
        return Answer(False, Code.NOT_FOUND, states.SENTENCES[Code.NOT_FOUND])
    if definition.model is not None and park.is_pending:
        try:
            definition.model.model_validate(values.clean(payload))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"])) or "the payload"
            said = f"{states.SENTENCES[Code.INVALID_PAYLOAD]} {where}: {first['msg']}"
            return Answer(False, Code.INVALID_PAYLOAD, said, park.id)
    who = actor if actor is not None else f"hook {definition.name}"
    return parks.decide(park.id, True, payload=payload, actor=who, channel="hook")


def find(token: str | None, name: str) -> Park | None:
    """Return the park of a hook with this token, the pending one first; None when there is none."""
    here = Park.objects.filter(token=token, reason=Reason.HOOK, topic=name).order_by("-id")
    return here.pending().first() or here.first()
