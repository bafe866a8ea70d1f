"""What the payload of an answer must fit: a JSON schema, checked at the door. Pure.

A schema is stored with its park, so an answer is judged by what was asked for, whatever the code
says by then.
"""

import inspect
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from pydantic import BaseModel
from referencing import Registry
from referencing.exceptions import Unresolvable

from hitl import values
from hitl.errors import HitlError
from hitl.states import SENTENCES, Code

SHOWN_CHARS_MAX = 200


class InvalidSchema(HitlError):
    """A schema is a pydantic model or a JSON schema (a dict)."""

    code = "invalid_schema"


def read(schema: object) -> dict[str, Any] | None:
    """Return the JSON schema that a pydantic model or a dict stands for; None for None.

    Raises InvalidSchema.
    """
    if schema is None:
        return None
    if inspect.isclass(schema) and issubclass(schema, BaseModel):
        return schema.model_json_schema(by_alias=True)
    if not isinstance(schema, dict):
        raise InvalidSchema
    cleaned = values.clean(schema)
    try:
        Draft202012Validator.check_schema(cleaned)  # type: ignore[arg-type]
    except SchemaError as error:
        raise InvalidSchema(f"This is no JSON schema: {error.message}.") from error
    return cleaned  # type: ignore[return-value]


def fault(schema: dict[str, Any], payload: Any) -> str | None:
    """Say in one sentence why a payload does not fit; None when it does.

    A schema that refers to what is not in itself lets nothing pass: nothing is fetched.
    """
    errors = Draft202012Validator(schema, registry=Registry()).iter_errors(payload)
    try:
        first = min(errors, key=lambda error: list(map(str, error.absolute_path)), default=None)
    except Unresolvable as error:
        missing = values.clean_text(str(error), chars_max=SHOWN_CHARS_MAX)
        said = f"Its schema refers to what it does not hold: {missing}"
        return f"{SENTENCES[Code.INVALID_PAYLOAD]} {said}"
    if first is None:
        return None
    where = ".".join(map(str, first.absolute_path)) or "the payload"
    found = values.clean_text(f"{where}: {first.message}", chars_max=SHOWN_CHARS_MAX)
    return f"{SENTENCES[Code.INVALID_PAYLOAD]} {found}"
