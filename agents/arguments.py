"""Arguments of a tool call, from the model's text to stored JSON to typed values and back. Pure.

What was stored is what a person approves, so what was read must read back the same: a validator
that changes its own result is found out here, before anybody is asked.
"""

import logging
from collections.abc import Collection
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from hitl import values
from hitl.errors import BadJson, HitlError, NotJson, TooLarge
from hitl.values import JSON

logger = logging.getLogger(__name__)

# Prefixed field names keep parameters such as `json`, `copy` or `schema` apart from what pydantic's
# own base class is made of.
PREFIX = "arg_"

ERRORS_SHOWN = 5
SHOWN_CHARS_MAX = 80
MESSAGE_CHARS_MAX = 200


class InvalidArguments(HitlError):
    """The arguments do not fit the tool; read its parameters and call it again."""

    code = "invalid_arguments"


class Arguments:
    """Reads and restores the arguments of one tool, whose pydantic model it holds."""

    def __init__(self, tool_name: str, model: type[BaseModel]) -> None:
        self.tool_name = tool_name
        self.model = model
        self.names = [name.removeprefix(PREFIX) for name in model.model_fields]
        self.offered = [
            field.validation_alias if isinstance(field.validation_alias, str) else name
            for name, field in zip(self.names, model.model_fields.values(), strict=True)
        ]

    def read(self, text: str, *, hidden: Collection[str] = ()) -> dict[str, JSON]:
        """Return what a model wrote as plain JSON, checked and complete with defaults.

        Raises InvalidArguments with one short sentence for the model, in which the values of those
        named in `hidden` do not stand.
        """
        try:
            given = values.dumps(values.parse_object(text))
            arguments = self._dump(self._check(given, by_alias=True, hidden=hidden))
            again = self._dump(self._load(arguments))
        except (BadJson, NotJson, TooLarge) as error:
            raise InvalidArguments(str(error)) from error
        if not _is_same(arguments, again):
            logger.error("Tool %s: a validator does not keep its own result", self.tool_name)
            raise InvalidArguments("The tool cannot keep these arguments as they are.")
        return arguments

    def review(self, arguments: dict[str, JSON]) -> dict[str, JSON]:
        """Return arguments that a person edited, by our names, checked and complete with defaults.

        Raises InvalidArguments.
        """
        try:
            cleaned = values.clean(arguments)
            assert isinstance(cleaned, dict), "an object stays one"
            reviewed = self._dump(self._load(cleaned))
            again = self._dump(self._load(reviewed))
        except (NotJson, TooLarge) as error:
            raise InvalidArguments(str(error)) from error
        if not _is_same(reviewed, again):
            raise InvalidArguments("The tool cannot keep these arguments as they are.")
        return reviewed

    def restore(self, arguments: dict[str, JSON]) -> dict[str, Any]:
        """Return the typed values of what `read` returned, in this or another process.

        Raises InvalidArguments when the tool, as it is now, would get other values than those.
        """
        model = self._load(arguments)
        if not _is_same(arguments, self._dump(model)):
            raise InvalidArguments("The tool would now run with other arguments than those kept.")
        return {name: getattr(model, PREFIX + name) for name in self.names}

    def _load(self, arguments: dict[str, JSON]) -> BaseModel:
        by_field = {PREFIX + name: value for name, value in arguments.items()}
        return self._check(values.dumps(by_field), by_alias=False)

    def _check(self, text: str, *, by_alias: bool, hidden: Collection[str] = ()) -> BaseModel:
        try:
            return self.model.model_validate_json(text, by_alias=by_alias, by_name=not by_alias)
        except ValidationError as error:
            raise InvalidArguments(
                _sentence(
                    error, self.offered, self._hides(hidden), prefix="" if by_alias else PREFIX
                )
            ) from error
        except Exception as error:  # a validator of the tool's own may raise anything
            logger.exception("Tool %s: its arguments could not be checked", self.tool_name)
            raise InvalidArguments("The tool could not check these arguments.") from error

    def _hides(self, hidden: Collection[str]) -> set[str]:
        """Return the names, ours and those the model sees, whose values are not told."""
        shown = dict(zip(self.names, self.offered, strict=True))
        return {*hidden, *(shown[name] for name in hidden)}

    def _dump(self, model: BaseModel) -> dict[str, JSON]:
        try:
            dumped = model.model_dump(mode="json", by_alias=False, round_trip=True)
            # A nested model of the project's own may let "NaN" through as a number; a limit that
            # is compared with NaN never holds.
            values.dumps(dumped)
        except Exception as error:
            raise NotJson("The tool cannot keep these arguments.") from error
        cleaned = values.clean({name.removeprefix(PREFIX): one for name, one in dumped.items()})
        assert isinstance(cleaned, dict)
        return cleaned


def _sentence(error: ValidationError, offered: list[str], hidden: set[str], *, prefix: str) -> str:
    details = error.errors(include_url=False, include_context=False)
    told = [_told(detail, offered, hidden, prefix) for detail in details[:ERRORS_SHOWN]]
    if len(details) > ERRORS_SHOWN:
        told.append(f"and {len(details) - ERRORS_SHOWN} more")
    return f"Invalid arguments: {'; '.join(told)}."


def _told(detail: ErrorDetails, offered: list[str], hidden: set[str], prefix: str) -> str:
    path = [str(part) for part in detail["loc"]]
    if detail["type"] == "extra_forbidden" and len(path) == 1:
        known = ", ".join(offered) or "none at all"
        name = _cut(path[0].removeprefix(prefix), SHOWN_CHARS_MAX)
        return f"there is no argument {name}, only {known}"
    where = _cut(".".join(part.removeprefix(PREFIX) for part in path), SHOWN_CHARS_MAX)
    if detail["type"] == "missing":
        return f"{where} is missing"
    if hidden and (not path or path[0].removeprefix(PREFIX) in hidden):
        return f"{where or 'a value'} is not valid"
    message = _cut(detail["msg"].removeprefix("Value error, ").rstrip("."), MESSAGE_CHARS_MAX)
    return f"{where}: {message} (got {_shown(detail['input'])})"


def _shown(value: object) -> str:
    try:
        return _cut(values.dumps(values.clean(value)), SHOWN_CHARS_MAX)
    except HitlError:
        return f"a {type(value).__name__}"


def _cut(text: str, chars_max: int) -> str:
    return text if len(text) <= chars_max else text[:chars_max] + "…"


def _is_same(one: JSON, other: JSON) -> bool:
    # A set comes out in another order in another process.
    return one == other or values.dumps(_ordered(one)) == values.dumps(_ordered(other))


def _ordered(value: JSON) -> JSON:
    if isinstance(value, dict):
        return {name: _ordered(item) for name, item in value.items()}
    if isinstance(value, list):
        return sorted((_ordered(item) for item in value), key=values.dumps)
    return value
