"""The lease of a run: one worker at a time, told apart by a fencing token. Pure.

Losing a lease is learnt in two ways: the heartbeat finds the row changed (`agents/keeper.py`), or a
write that names the token matches nothing. The second is what correctness rests on (P6).
"""

from dataclasses import dataclass, field
from uuid import UUID


class LeaseLost(BaseException):
    """Another worker holds this run now. Not an `Exception`: a tool must not swallow it."""


class StopLanded(BaseException):
    """A stop was asked for before this write. Not an `Exception`, as for `LeaseLost`."""


class Overtaken(BaseException):
    """Something was delivered since the segment looked: it goes on in place of letting go."""


@dataclass(slots=True)
class Lease:
    """The right to write a run, named by its token in every write."""

    run_id: UUID
    token: int
    lost: bool = field(default=False)
    stop_seen: bool = field(default=False)

    def is_over(self) -> bool:
        """Tell whether work under this lease is in vain, as far as the heartbeat knows."""
        return self.lost or self.stop_seen
