"""What becomes of a job: who answers it, and until when it is waited for. Follows from its call.

The farm of a run posts to a job's address, or answers by thread and call; people finish some at
the screens; of some nobody ever hears.
"""

import zlib

ADDRESS, IDS, PEOPLE, NOBODY = "address", "ids", "people", "nobody"
WAYS = (ADDRESS, ADDRESS, ADDRESS, IDS, IDS, PEOPLE, PEOPLE, NOBODY)
SHORT, LONG = "4s", "1h"


def way(call: str) -> str:
    """Return who answers the job of this call; everybody agrees on that."""
    return WAYS[zlib.crc32(f"job {call}".encode()) % len(WAYS)]


def ttl(call: str) -> str:
    return SHORT if way(call) == NOBODY else LONG
