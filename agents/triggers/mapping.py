"""What an event says, by the expressions of its trigger: which delivery, which key, which input.

Pure: the row of a trigger is only read.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agents.triggers import expressions
from agents.triggers.expressions import TEXT_CHARS_MAX, NoResult
from agents.triggers.verification import STANDARD, STANDARD_ID
from hitl import values
from hitl.values import JSON

if TYPE_CHECKING:
    from agents.models import Trigger

KEY, INPUT, PAYLOAD, DELIVERY_ID = "correlation key", "input", "payload", "delivery id"


@dataclass(frozen=True, slots=True)
class Meaning:
    """What an event is for: the run with this key, or a new one with this input.

    `key` is "" for a trigger that correlates nothing. A waiting hook is given `payload`.
    """

    key: str
    payload: JSON
    expression: str
    event: JSON

    def input(self) -> dict[str, Any]:
        """Return the input of a new run. Raises NoResult when the event gives no object.

        Read only when a run is to start: a reply need not look like the event that begins one.
        """
        found = self.event
        if self.expression:
            found = expressions.value(self.expression, self.event, what=INPUT)
        if not isinstance(found, dict):
            raise NoResult(
                f"The input ({self.expression or 'the whole event'}) is no object with a name for "
                f"each argument; write for example {{order_id: data.id}}."
            )
        return found


def read(trigger: "Trigger", event: JSON) -> Meaning:
    """Return what an event is for. Raises NoResult or BadExpression."""
    key, payload = "", event
    if trigger.correlation_key:
        key = expressions.text(trigger.correlation_key, event, what=KEY)
    if trigger.payload:
        payload = expressions.value(trigger.payload, event, what=PAYLOAD)
    return Meaning(key, payload, trigger.input, event)


def delivery_id(trigger: "Trigger", event: JSON, headers: Mapping[str, str]) -> str | None:
    """Return what tells a redelivery from a new event; None where the trigger names nothing.

    The trigger's expression, else its header, else the id that Standard Webhooks signs. Raises
    NoResult when what it names is not there.
    """
    if trigger.delivery_id:
        return expressions.text(trigger.delivery_id, event, what=DELIVERY_ID)
    signed = STANDARD_ID if trigger.verification == STANDARD else ""
    header = trigger.delivery_header or signed
    if not header:
        return None
    found = values.clean_text(headers.get(header, "").strip())
    if not found or len(found) > TEXT_CHARS_MAX:
        raise NoResult(
            f"The header {header} holds no delivery id of 1 to {TEXT_CHARS_MAX} characters."
        )
    return found
