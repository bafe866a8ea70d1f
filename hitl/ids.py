"""Ids of rows: UUIDs that sort by the time they were made (version 7 of RFC 9562).

Holds one number per process, so that ids made in the same moment keep their order too.
"""

import secrets
import threading
import uuid
from datetime import UTC, datetime, timedelta

from hitl import clock

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

_lock = threading.Lock()
_last_tick = 0


def new_id() -> uuid.UUID:
    """Return a new id, greater than every id this process made before."""
    tick = _next_tick()
    number = (tick >> 12) << 80  # milliseconds since 1970, 48 bits
    number |= 0x7 << 76  # version
    number |= (tick & 0xFFF) << 64  # fraction of the millisecond, 12 bits
    number |= 0b10 << 62  # variant
    number |= secrets.randbits(62)
    return uuid.UUID(int=number)


def _next_tick() -> int:
    """Return the time in 1/4096 ms, always later than before, whatever the clock does."""
    global _last_tick
    milliseconds, rest = divmod((clock.now() - _EPOCH) // _MICROSECOND, 1000)
    with _lock:
        _last_tick = max((milliseconds << 12) + (rest << 12) // 1000, _last_tick + 1)
        return _last_tick
