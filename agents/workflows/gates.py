"""The two waits for the outside that a body can open: a gate with a card, and a hook. Pure.

`request_approval` asks a person; `define_hook` names a wait that a program ends by its token.
"""

import inspect
from collections.abc import Generator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from agents.workflows import replay
from agents.workflows.awaiting import TOKEN, Call, Error
from agents.workflows.errors import HookClosed, HookConflict, WorkflowDefinitionError
from agents.workflows.replay import Session, Wait
from hitl import approvers, durations, schemas, values

APPROVAL, HOOK = "approval", "hook"
TOPIC_CHARS_MAX = 100
TOKEN_CHARS_MAX = 200
DEFAULT_TIMEOUT = "24h"
METADATA_BYTES_MAX = 16_384


@dataclass(frozen=True, slots=True)
class Decision:
    """What became of a gate: `status` is "approved" or "rejected".

    `timed_out` says that nobody answered in time and the fallback applied, `conflict` that the
    token was held elsewhere and nobody was asked. `payload` came with the answer.
    """

    status: str
    payload: Any = None
    timed_out: bool = False
    conflict: bool = False
    reason: str = ""
    actor: str = ""
    decided_at: datetime | None = None

    @property
    def approved(self) -> bool:
        return self.status == "approved"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a card shows and how its wait ends, as it is stored when the gate opens."""

    title: str
    description: str
    ttl: timedelta
    fallback: str
    policy: dict[str, Any]
    metadata: dict[str, Any]


class ApprovalCall(Call[Decision]):
    """One gate. What it asks about must stay the same on replay; its words may be mended."""

    kind = APPROVAL

    def __init__(
        self, topic: str, payload: Any, *, token: str | None, schema: Any, asked: Asked
    ) -> None:
        super().__init__(topic, {"payload": payload, "token": token})
        self.payload = self.input["payload"]
        self.token = token
        self.model: Any = schema if inspect.isclass(schema) else None
        self.schema = schemas.read(schema)
        self.asked = asked

    def __str__(self) -> str:
        return f"request_approval({self.name!r})"

    def read(self, value: Any, error: Error) -> Decision:
        payload, at = value.get("payload"), value.get("decided_at")
        if self.model is not None and value["status"] == "approved" and not value["timed_out"]:
            payload = self.model.model_validate(payload)
        return Decision(
            status=value["status"],
            payload=payload,
            timed_out=value["timed_out"],
            conflict=value["conflict"],
            reason=value["reason"],
            actor=value["actor"],
            decided_at=datetime.fromisoformat(at) if at else None,
        )


def request_approval(
    topic: str,
    payload: Any = None,
    title: str | None = None,
    timeout: str | timedelta | float = DEFAULT_TIMEOUT,
    fallback: str = "reject",
    token: str | None = None,
    *,
    description: str = "",
    approver: Any = None,
    quorum: int | None = None,
    schema: Any = None,
    metadata: dict[str, Any] | None = None,
) -> ApprovalCall:
    """Ask a person and wait: `decision = await request_approval("refund", {"amount": 9.5})`.

    The card shows `title` (default: the topic), `description` and `payload` (JSON). After `timeout`
    ("24h", a timedelta, milliseconds) the `fallback` decides, "reject" or "approve". `schema`, a
    pydantic model or a JSON schema, is what the payload of an approval must fit. `approver` says
    who may approve ("user:ana", "group:finance", a list, {"group:finance": 2}) and `quorum` how
    many of them have to. `token` is a key that one wait at a time may hold: when another holds it,
    the decision is "rejected" with `conflict` and `timed_out` at once, and nobody is asked.
    `metadata` is kept with the request.

    Raises nothing on a timeout. Raises OutsideBody in a step, BadDuration, BadApprover, ValueError.
    """
    replay.current("request_approval")
    if not isinstance(topic, str) or not topic or len(topic) > TOPIC_CHARS_MAX:
        raise ValueError(f"topic={topic!r}; write a text of 1 to {TOPIC_CHARS_MAX} characters.")
    if fallback not in ("reject", "approve"):
        raise ValueError(f'fallback={fallback!r}; write "reject" or "approve".')
    asked = Asked(
        title=str(title or topic),
        description=str(description or ""),
        ttl=durations.parse(timeout),
        fallback=fallback,
        policy=approvers.policy(approver, quorum=quorum),
        metadata=values.clean(dict(metadata or {}), size_max=METADATA_BYTES_MAX),  # type: ignore[arg-type]
    )
    return ApprovalCall(topic, payload, token=checked_token(token), schema=schema, asked=asked)


class Inbox(Wait):
    """What has come to a hook. As a wait it is done with the first delivery."""

    is_complete_once = False

    def __init__(self, hook: "Hook", position: int) -> None:
        super().__init__()
        self.hook, self.position, self.kind, self.name = hook, position, HOOK, hook.name
        self.arrived: list[Wait] = []
        self.expected: list[Wait] = []

    def complete(self, value: Any, error: Error) -> None:
        """Keep a delivery, and give it to whoever iterates."""
        came = Wait()
        try:
            came.settle(self.hook.read(value, error))
        except Exception as raised:
            came.settle(error=raised)
        self.arrived.append(came)
        if error is not None or self.position in self.hook.session.once:
            self.hook.close()
        self.settle(came.value, came.error)
        self.tell()

    def tell(self) -> None:
        """Wake those that wait for a delivery that has come, or for one that never will."""
        waiting, self.expected = self.expected, []
        for wait in waiting:
            wait.settle()


class Hook:
    """A wait that whoever knows its token ends: awaited for one delivery, iterated for several."""

    kind = HOOK

    def __init__(self, definition: "HookDefinition", token: str | None) -> None:
        self.session = replay.current(f"{definition.name}.create")
        self.definition = definition
        self.name = definition.name
        self.token: str = token or str(self.session.record(TOKEN))
        self.schema = definition.schema
        self.digest = values.digest({"token": self.token})
        self._taken = 0
        self._inbox: Inbox = self.session.issue(self)

    def __str__(self) -> str:
        return f"hook {self.name}"

    def __await__(self) -> Generator[Any, Any, Any]:
        return (yield from self.begin(replay.current(str(self))).__await__())

    def begin(self, session: Session) -> Wait:
        """Wait for one delivery, after which the token is free."""
        session.once.add(self._inbox.position)
        if self._inbox.is_done:
            self.close()
        return self._inbox

    def __aiter__(self) -> "Hook":
        return self

    async def __anext__(self) -> Any:
        while self._taken == len(self._inbox.arrived):
            if self.is_closed:
                raise StopAsyncIteration
            wait = Wait()
            self._inbox.expected.append(wait)
            await wait
        self._taken += 1
        return self._inbox.arrived[self._taken - 1].result()

    @property
    def is_closed(self) -> bool:
        return self._inbox.position in self.session.closed

    def close(self) -> None:
        """Take no more deliveries and free the token; what has come can still be read."""
        self.session.closed.add(self._inbox.position)
        self._inbox.tell()

    def wait_at(self, position: int) -> Inbox:
        return Inbox(self, position)

    def read(self, value: Any, error: Error) -> Any:
        """Return a delivery as the body sees it, or raise why there is none."""
        if error is not None:
            raise _HOOK_ERRORS[error["type"]](error.get("text") or None)
        return self.definition.restore(value)


_HOOK_ERRORS = {"HookConflict": HookConflict, "HookClosed": HookClosed}


class HookDefinition:
    """A kind of hook: its name, and what its payloads must fit."""

    def __init__(self, name: str, schema: Any) -> None:
        self.name = name
        self.model: Any = schema if inspect.isclass(schema) else None
        self.schema = schemas.read(schema)

    def create(self, token: str | None = None) -> Hook:
        """Open the wait now, in a body, and return it; without a token it gets a random one.

        The token is held from here until one delivery is awaited, `close()`, or the body's return.
        Another wait that holds it already makes the await raise HookConflict.
        """
        return Hook(self, checked_token(token))

    def restore(self, payload: Any) -> Any:
        """Return a payload as the body sees it: an object of the schema's model, or JSON."""
        return payload if self.model is None else self.model.model_validate(payload)

    def resume(self, token: str, payload: Any = None, *, actor: object = None) -> Any:
        """Deliver a payload to the hook that waits under this token; returns an `Answer`.

        `delivered=False` comes with a code: `not_found`, `already_answered`, `expired`, `moved_on`,
        or `invalid_payload` when the payload does not fit the schema; then nothing is written.
        """
        from agents.workflows import hooks

        return hooks.resume(self, token, payload, actor=actor)


def define_hook(name: str, schema: Any = None) -> HookDefinition:
    """Name a wait that a program ends: `reply = define_hook("await_reply", schema=Reply)`.

    `schema` is a pydantic model or a JSON schema; a payload that does not fit is refused at the
    door. Raises WorkflowDefinitionError.
    """
    if not isinstance(name, str) or not name or len(name) > TOPIC_CHARS_MAX:
        raise WorkflowDefinitionError(
            f"{name!r} cannot be the name of a hook; write 1 to {TOPIC_CHARS_MAX} characters."
        )
    return HookDefinition(name, schema)


def checked_token(token: object) -> str | None:
    """Return a token as it is stored. Raises ValueError for what cannot be one."""
    if token is None:
        return None
    text = values.clean_text(str(token))
    if not text or len(text) > TOKEN_CHARS_MAX:
        raise ValueError(f"A token is a text of 1 to {TOKEN_CHARS_MAX} characters.")
    return text
