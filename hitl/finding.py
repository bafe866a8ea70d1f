"""Finding the park that someone means, by its id or by where it was asked. Reads only."""

from uuid import UUID

from hitl import values
from hitl.models import Park
from hitl.reads import Select, fields_of

HERE = Select(
    fields_of(Park),
    "FROM hitl_park WHERE (scope = %s OR waiter_id = %s) AND key = %s",
    given=fields_of(Park, "scope", "waiter_id", "key"),
)
ONE = Select(fields_of(Park), "FROM hitl_park WHERE id = %s", given=fields_of(Park, "id"))


def find(scope: object, key: object) -> Park | None:
    """Return the park that a thread, run or the id of either has for this key; the open one first.

    Timers are not found: nobody answers them.
    """
    scope_id = as_uuid(scope)
    if scope_id is None or not isinstance(key, str | UUID):
        return None
    key = values.clean_text(str(key))  # a database refuses to look for what it cannot store
    cards = [park for park in HERE.instances(HERE(scope_id, scope_id, key)) if not park.is_timer]
    return min(
        cards, key=lambda park: (not park.is_pending, -park.opened_at.timestamp()), default=None
    )


def by_id(request_id: object) -> Park | None:
    """Return the park of this id; None when there is none, or when it is no id at all."""
    found = as_uuid(request_id)
    return None if found is None else next(iter(ONE.instances(ONE(found))), None)


def as_uuid(value: object) -> UUID | None:
    """Return the id that a row, a UUID or its text stands for; None when it is none of these."""
    value = getattr(value, "pk", value)
    if isinstance(value, UUID):
        return value
    try:
        return UUID(str(value))
    except ValueError:
        return None
