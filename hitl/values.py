"""JSON at the door: what any value becomes before it is stored. Pure.

PostgreSQL cannot hold all that a model, a tool or a webhook can emit. What cannot be kept as it is
gets a clear mark in its place; what has no JSON form, or is too large, raises.
"""

import base64
import hashlib
import json
import math
from typing import Any, NoReturn

from pydantic_core import to_jsonable_python

from hitl.errors import BadJson, NotJson, TooLarge

JSON = None | bool | int | float | str | list["JSON"] | dict[str, "JSON"]

BYTES = 2 * 1024 * 1024
DEPTH = 64
DIGITS = 4000  # Python itself prints no more than 4300

_NUL_SHOWN = "\N{SYMBOL FOR NULL}"
_LARGEST = 10**DIGITS
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def clean(value: object, *, size_max: int = BYTES, depth_max: int = DEPTH) -> JSON:
    """Return the value as plain JSON that can be stored and comes back equal.

    NUL becomes "␀", a lone surrogate U+FFFD, NaN and the infinities their names, a longer integer
    than 4000 digits or a deeper nesting than `depth_max` levels a mark in words; a set is sorted.
    Raises TooLarge over `size_max` bytes of JSON, NotJson for a value that has no JSON form.
    """
    return _clean(value, size_max=size_max, depth_max=depth_max)[0]


def clean_with_digest(value: object) -> tuple[Any, str]:
    """Return the value as `clean` does, and its digest."""
    cleaned, text = _clean(value, size_max=BYTES, depth_max=DEPTH)
    return cleaned, _digest(text)


def _clean(value: object, *, size_max: int, depth_max: int) -> tuple[JSON, str]:
    cleaned = _Cleaner(size_max=size_max, depth_max=depth_max).clean(value, depth=0)
    text = dumps(cleaned)
    if len(text) > size_max:
        raise _too_large(size_max)
    return cleaned, text


def clean_text(text: str, *, chars_max: int | None = None) -> str:
    """Return the text as it can be stored, cut to `chars_max` characters with a mark at the cut."""
    text = text.replace("\0", _NUL_SHOWN)
    if not text.isascii():
        # Joins surrogates that belong together and replaces those that stand alone.
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if chars_max is None or len(text) <= chars_max:
        return text
    mark = f"…(cut, {len(text)} characters in all)"
    if len(mark) > chars_max:
        mark = "…"
    return text[: chars_max - len(mark)] + mark


def dumps(value: object) -> str:
    """Return canonical JSON in ASCII: keys sorted, no spaces. Raises NotJson unless it is JSON."""
    if type(value) in (dict, list) and not value:  # most often, and the encoder takes its time
        return "[]" if type(value) is list else "{}"
    try:
        return _CANONICAL.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise NotJson(f"The value has no JSON form: {error}.") from error


def loads(text: str) -> JSON:
    """Return what `dumps` wrote."""
    value: JSON = json.loads(text)
    return value


def digest(value: object) -> str:
    """Return "sha256:…" over the canonical JSON of the value, in full length whatever is shown."""
    return _digest(dumps(value))


def _digest(text: str) -> str:
    return "sha256:" + hashlib.sha256(text.encode("ascii")).hexdigest()


def parse(text: str, *, size_max: int = BYTES, depth_max: int = DEPTH) -> JSON:
    """Return the JSON that a person or a model wrote, its strings cleaned.

    Raises BadJson, whose message is for the writer: not JSON, a name twice in one object, a number
    that is not finite, or over the bounds of size, depth or digits.
    """
    if len(text) > size_max:
        raise BadJson(f"The JSON is over {size_max} characters; write less.")
    value = _decode(text)
    if _is_deeper(value, depth_max):
        raise BadJson(f"The JSON is nested deeper than {depth_max} levels.")
    try:
        return clean(value, size_max=size_max, depth_max=depth_max)
    except (NotJson, TooLarge) as error:
        raise BadJson(str(error)) from error


def parse_object(text: str, *, size_max: int = BYTES, depth_max: int = DEPTH) -> dict[str, JSON]:
    """Return the JSON object that a model wrote, as `parse` does; blank text is {}.

    Raises BadJson also for JSON that is not an object.
    """
    if not text.strip():
        return {}
    value = parse(text, size_max=size_max, depth_max=depth_max)
    if not isinstance(value, dict):
        raise BadJson("The JSON must be an object with a name for each value.")
    return value


class _Cleaner:
    """One pass over a value, with a budget so that shared or circular parts cannot blow it up."""

    def __init__(self, *, size_max: int, depth_max: int) -> None:
        self.size_max = size_max
        self.depth_max = depth_max
        self.spent = 0

    def clean(self, value: object, *, depth: int) -> JSON:
        self._spend(1)
        kind = type(value)
        if value is None or kind is bool:
            return value  # type: ignore[return-value]
        if kind is str:
            return self._text(value)  # type: ignore[arg-type]
        if kind is int:
            return _number(value)  # type: ignore[arg-type]
        if kind is float:
            return _finite(value)  # type: ignore[arg-type]
        if kind in (bytes, bytearray):
            return self._text(_decoded(value))
        if isinstance(value, dict | list | tuple | set | frozenset):
            if depth >= self.depth_max:
                return f"…(nested deeper than {self.depth_max} levels)"
            return self._container(value, depth=depth + 1)
        return self._clean_plain(_jsonable(value), depth=depth)

    def _container(self, value: Any, *, depth: int) -> JSON:
        if isinstance(value, dict):
            return self._object(value, depth=depth)
        items = [self.clean(item, depth=depth) for item in value]
        if isinstance(value, set | frozenset):
            items.sort(key=dumps)  # a set has no order, its digest needs one
        return items

    def _object(self, value: dict[Any, Any], *, depth: int) -> dict[str, JSON]:
        cleaned: dict[str, JSON] = {}
        for key, item in value.items():
            name = self._text(_name(key))
            if name in cleaned:
                raise NotJson(f"Two keys of one object become the same name: {name[:60]!r}.")
            cleaned[name] = self.clean(item, depth=depth)
        return cleaned

    def _text(self, text: str) -> str:
        self._spend(len(text))
        return clean_text(text)

    def _clean_plain(self, value: object, *, depth: int) -> JSON:
        if type(value) not in (type(None), bool, str, int, float, list, dict):
            raise NotJson(f"A {type(value).__name__} has no JSON form.")
        return self.clean(value, depth=depth)

    def _spend(self, size: int) -> None:
        self.spent += size
        if self.spent > self.size_max:
            raise _too_large(self.size_max)


def _too_large(size_max: int) -> TooLarge:
    return TooLarge(f"The value is over {size_max} bytes of JSON.")


def _number(value: int) -> int | str:
    if -_LARGEST < value < _LARGEST:
        return value
    return f"…(integer of more than {DIGITS} digits)"


def _finite(value: float) -> float | str:
    if math.isfinite(value):
        return value
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _decoded(value: Any) -> str:
    try:
        return bytes(value).decode()
    except UnicodeDecodeError:
        return base64.b64encode(value).decode("ascii")


def _name(key: object) -> str:
    if type(key) is str:
        return key
    if type(key) is int:
        return str(_number(key))
    [name] = _jsonable({key: None})
    return str(name)


def _jsonable(value: object) -> Any:
    """Convert dates, UUIDs, decimals, enums, dataclasses, pydantic models and the like."""
    try:
        return to_jsonable_python(value, inf_nan_mode="constants")
    except Exception as error:  # a serializer of the value's own may raise anything
        if isinstance(error, UnicodeDecodeError) and hasattr(value, "model_dump"):
            return value.model_dump()  # bytes inside that are no text
        raise NotJson(f"A {type(value).__name__} has no JSON form.") from error


def _decode(text: str) -> object:
    try:
        return json.loads(
            text,
            parse_int=_bounded_int,
            parse_float=_bounded_float,
            parse_constant=_no_constant,
            object_pairs_hook=_object_once,
        )
    except json.JSONDecodeError as error:
        raise BadJson(
            f"The text is not valid JSON: {error.msg} at line {error.lineno} column {error.colno}."
        ) from error
    except RecursionError as error:
        raise BadJson("The JSON is nested too deep.") from error


def _bounded_int(digits: str) -> int:
    if len(digits.lstrip("-")) > DIGITS:
        raise BadJson(f"A number in the JSON has more than {DIGITS} digits.")
    return int(digits)


def _bounded_float(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise BadJson("A number in the JSON is too large.")
    return value


def _no_constant(name: str) -> NoReturn:
    raise BadJson(f"{name} is not valid JSON; write a finite number or null.")


def _object_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise BadJson("A name stands twice in one object of the JSON; write it once.")
    return value


def _is_deeper(value: object, depth_max: int) -> bool:
    layer: list[Any] = [value] if isinstance(value, dict | list) else []
    for _ in range(depth_max):
        layer = [
            item
            for holder in layer
            for item in (holder.values() if isinstance(holder, dict) else holder)
            if isinstance(item, dict | list)
        ]
        if not layer:
            return False
    return bool(layer)
