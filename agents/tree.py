"""The state of a run in memory: a tree of frames with their steps and calls. Pure.

What the engine decides on and the effects keep up. `agents/snapshot.py` builds it from the rows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from agents.states import OnDoubt, Phase


@dataclass(frozen=True, slots=True)
class Settlement:
    """How a park about a call stands. `status` is a park's; `claim` the lease it doubts."""

    status: str
    reason: str = ""
    actor: str = ""
    decided_at: datetime | None = None
    has_payload: bool = False
    payload: Any = None
    takes_payload: str = "result"
    claim: int = 0

    @property
    def is_open(self) -> bool:
        return self.status == "pending"


@dataclass(slots=True)
class Hold:
    """That a guardrail keeps the message of a run, or a frame's newest reply, back.

    `key` is the id of what is held, under which a person is asked, and `verdict` says which rule it
    broke. `what` is what is held, as it is shown and released: `{"text": …}`, for a reply with its
    `raw`. `number` is the reply's place in the run. `answer` is None until the question is open.
    """

    key: UUID
    verdict: dict[str, Any]
    what: dict[str, Any]
    number: int = 0
    answer: Settlement | None = None

    @property
    def is_message(self) -> bool:
        return self.number == 0

    @property
    def is_open(self) -> bool:
        return self.answer is not None and self.answer.is_open


@dataclass(slots=True)
class SavedStep:
    """One saved reply with its calls. `raw` is the model library's own form of it.

    `messages` is the step as a model is sent it, kept once nothing of it changes any more.
    """

    text: str
    raw: dict[str, Any] | None = None
    calls: "list[CallState]" = field(default_factory=list)
    messages: Sequence[Any] = field(default=(), repr=False, compare=False)


@dataclass(slots=True)
class Frame:
    """One agent's place in a run. `id` is None for the root, whose `message` is the user's.

    `parent` is the call that delegated to it; its depth is the root's plus one for each level.
    `finished_with` is its last word, once it has said it; `is_gone` says that the agent has left
    the code. While something of it is held, nothing that its newest reply asks for is begun.
    """

    agent: str
    message: str = ""
    steps_max: int = 25
    id: UUID | None = None
    depth: int = 0
    path: tuple[str, ...] = ()
    parent: "CallState | None" = field(default=None, repr=False, compare=False)
    steps: list[SavedStep] = field(default_factory=list)
    finished_with: str | None = None
    hold: Hold | None = None
    is_gone: bool = False

    @property
    def calls(self) -> "list[CallState]":
        """The calls of the newest step."""
        return self.steps[-1].calls if self.steps else []

    @property
    def undone(self) -> "list[CallState]":
        return [call for call in self.calls if call.phase != Phase.DONE]


@dataclass(slots=True)
class CallState:
    """One tool call, with what the engine, the effects and the history need to know of it.

    `gate`, `job` and `doubt` are how its parks stand: the decision before it runs, the wait that
    the tool asked for itself, and the question whether it happened. `child` is the frame of a
    delegation. `asked` is what the tool said when it parked itself. `proposed` are the model's own
    arguments where a person changed them, `redacted` the names of those that few may see, `verdict`
    names the guardrail that the call broke.
    """

    id: UUID
    index: int
    tool_name: str
    tool_id: str = ""
    arguments_text: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)
    proposed: dict[str, Any] | None = None
    redacted: Sequence[str] = ()
    digest: str = ""
    gated: bool = False
    verdict: dict[str, Any] | None = None
    parallel: bool = False
    on_doubt: str = OnDoubt.RETRY
    phase: str = Phase.OPEN
    claimed_by: int = 0
    outcome: str = ""
    result: Any = None
    asked: dict[str, Any] | None = None
    gate: Settlement | None = None
    job: Settlement | None = None
    doubt: Settlement | None = None
    frame: Frame | None = field(default=None, repr=False, compare=False)
    child: Frame | None = field(default=None, repr=False, compare=False)

    @property
    def approval(self) -> Settlement | None:
        """The answer the tool runs with: that of its own wait, or else that of its gate."""
        return self.job or self.gate


@dataclass(slots=True)
class Snapshot:
    """The state of a run as its rows tell it. `token` is the lease of the segment that reads it.

    The limits are the root agent's and span the whole tree (N6); None is no limit.
    """

    token: int
    root: Frame
    steps: int
    steps_max: int
    stop_requested: bool = False
    tokens: int = 0
    tokens_max: int | None = None
    cost_micros: int = 0
    cost_micros_max: int | None = None


def open_frames(frame: Frame) -> Iterator[Frame]:
    """Yield this frame and the open ones below it, in call order, each before its children.

    What a reply that is held delegates has not begun.
    """
    yield frame
    for call in frame.undone if frame.hold is None else ():
        if call.child is not None:
            yield from open_frames(call.child)
