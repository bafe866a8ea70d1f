"""From a Python function to what a model may call it with. Pure.

What cannot be offered to a model fails here, when the tool is defined, and not in a worker.
"""

import inspect
import types
import warnings
from collections import abc
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import docstring_parser
from pydantic import BaseModel, ConfigDict, Field, create_model
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema

from agents.arguments import PREFIX, Arguments, InvalidArguments
from agents.context import ToolContext
from hitl import values
from hitl.errors import HitlError

_CONFIG = ConfigDict(extra="forbid", allow_inf_nan=False, validate_default=True)
_REFUSED_KINDS: dict[Any, str] = {
    inspect.Parameter.VAR_POSITIONAL: "takes any number of values; name each one",
    inspect.Parameter.VAR_KEYWORD: "takes any number of values; name each one",
    inspect.Parameter.POSITIONAL_ONLY: "is positional only; remove the / from the signature",
}
_REMEDY = "use plain types, lists, dicts, dates, enums, dataclasses or pydantic models"
_LAZY = (abc.Iterable, abc.Iterator, abc.Generator, abc.AsyncIterable, abc.AsyncIterator)
# Keywords of JSON schema: those that only describe, those that hold named schemas, and those that
# hold plain data.
_WORDS = ("description", "title", "examples")
_NAMED = ("properties", "patternProperties", "$defs")
_LITERAL = ("const", "default", "enum", "required")


class ToolDefinitionError(HitlError):
    """The function cannot be offered to a model as a tool."""

    code = "tool_definition"


class Signature:
    """The arguments of one function, as a model sees them and as the function takes them.

    `parameters` is the JSON schema, `version` a short hash of what it accepts (its descriptions
    left out), `description` the docstring without its section on arguments, `context_name` the
    parameter that takes the ToolContext.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        what: str = "Tool",
        context: type = ToolContext,
        is_typed: bool = True,
    ) -> None:
        """Raises ToolDefinitionError, which names the function, the parameter and the remedy.

        `what` is what messages call the function, `context` the type whose parameter is not offered
        but filled in. Unless `is_typed`, a parameter without a type takes any JSON.
        """
        self.function = function
        self.what, self._context, self._is_typed = what, context, is_typed
        self.context_name: str | None = None
        self.description, documented = _read_docs(inspect.getdoc(function) or "")
        fields = self._fields(documented)
        model, self.parameters = self._build(fields)
        self.arguments = Arguments(function.__name__, model)
        self.version = values.digest(_accepted(self.parameters)).removeprefix("sha256:")[:12]

    def _fields(self, documented: dict[str, str]) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        for parameter in inspect.signature(self.function).parameters.values():
            name = parameter.name
            annotation = self._annotation(parameter)
            if self._takes_context(name, annotation):
                self.context_name = name
            else:
                field = self._field(parameter, annotation, documented.get(name))
                fields[PREFIX + name] = (annotation, field)
        return fields

    def _annotation(self, parameter: inspect.Parameter) -> Any:
        name = parameter.name
        if remedy := _REFUSED_KINDS.get(parameter.kind):
            raise self._refusal(name, remedy)
        if parameter.annotation is parameter.empty:
            if not self._is_typed:
                return Any
            raise self._refusal(name, f"has no type; annotate it, for example {name}: str")
        if isinstance(parameter.default, FieldInfo):
            raise self._refusal(name, "has a Field for a default; write Annotated[…, Field(…)]")
        holder = SimpleNamespace(__annotations__={name: parameter.annotation})
        scope = inspect.unwrap(self.function).__globals__
        try:
            return get_type_hints(holder, globalns=scope, include_extras=True)[name]
        except Exception as error:
            remedy = f"has a type that cannot be read ({error}); import it at the top of the module"
            raise self._refusal(name, remedy) from error

    def _takes_context(self, name: str, annotation: Any) -> bool:
        if self._context not in list(_parts(annotation)):
            return False
        known = self._context.__name__
        if _bare(annotation) is not self._context:
            raise self._refusal(name, f"hides a {known}; annotate it {known}")
        if self.context_name is not None:
            raise self._refusal(name, f"is a second {known}; keep one")
        return True

    def _field(self, parameter: inspect.Parameter, annotation: Any, doc: str | None) -> Any:
        written = FieldInfo.from_annotation(annotation)
        options: dict[str, Any] = {}
        if written.alias is None and written.validation_alias is None:
            options["alias"] = parameter.name
        if written.description is None and doc:
            options["description"] = doc
        if parameter.default is not parameter.empty:
            options["default"] = parameter.default
        return Field(**options)

    def _build(self, fields: dict[str, Any]) -> tuple[type[BaseModel], dict[str, Any]]:
        # All at once, since most are sound, and one by one to name the one that is not.
        if together := _fault(fields):
            for name, field in fields.items():
                if fault := _fault({name: field}):
                    raise self._refusal(name.removeprefix(PREFIX), fault)
            raise ToolDefinitionError(
                f"{self.what} {self.function.__name__}: something {together}."
            )
        return _build_model(fields)

    def _refusal(self, name: str, remedy: str) -> ToolDefinitionError:
        return ToolDefinitionError(
            f"{self.what} {self.function.__name__}: parameter {name!r} {remedy}."
        )


class _Schema(GenerateJsonSchema):
    """Leaves out the titles that pydantic makes up, which tell a model nothing."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def _build_model(fields: dict[str, Any]) -> tuple[type[BaseModel], dict[str, Any]]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of a default without a JSON form pydantic only warns
        model = create_model("Arguments", __config__=_CONFIG, **fields)
        schema = model.model_json_schema(by_alias=True, schema_generator=_Schema)
    schema.pop("title", None)
    return model, schema


def _fault(fields: dict[str, Any]) -> str | None:
    """Say why a model could not be asked for one of these parameters; None when it can."""
    annotations = [annotation for annotation, _ in fields.values()]
    if any(get_origin(part) in _LAZY or part in _LAZY for part in _parts(*annotations)):
        return "is an iterator, which can be read only once; annotate it list[…]"
    try:
        _, schema = _build_model(fields)
    except Warning:
        return "has a default that JSON cannot hold; use a plain value or None"
    except Exception:
        return f"has a type that JSON cannot hold, {_shown(annotations[0])}; {_REMEDY}"
    if _is_secret(schema):
        return "is a secret, which is never stored; take the name of the secret instead"
    optional = {name: field for name, field in fields.items() if not field[1].is_required()}
    try:
        Arguments("default", _build_model(optional)[0]).read("{}")
    except InvalidArguments as error:
        return f"has a default that does not fit its type: {error}".rstrip(".")
    return None


def _shown(annotation: Any) -> str:
    return annotation.__qualname__ if isinstance(annotation, type) else str(annotation)


def _parts(*annotations: Any) -> Iterator[Any]:
    """Yield the annotations and every type inside them."""
    for annotation in annotations:
        yield annotation
        yield from _parts(*get_args(annotation))


def _bare(annotation: Any) -> Any:
    """Return the type inside Annotated[…] and `… | None`."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _bare(inner[0])
    if origin in (Union, types.UnionType):
        others = [one for one in inner if one is not type(None)]
        return _bare(others[0]) if len(others) == 1 else annotation
    return annotation


def _is_secret(schema: Any) -> bool:
    if isinstance(schema, dict):
        return schema.get("writeOnly") is True or any(map(_is_secret, schema.values()))
    return isinstance(schema, list) and any(map(_is_secret, schema))


def _accepted(schema: Any) -> Any:
    """Return the schema without the words that only describe, so that a typo may be mended."""
    if isinstance(schema, list):
        return [_accepted(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {}
    for key, item in schema.items():
        if key in _NAMED:
            kept[key] = {name: _accepted(part) for name, part in item.items()}
        elif key in _LITERAL:
            kept[key] = item
        elif key not in _WORDS:
            kept[key] = _accepted(item)
    return kept


def _read_docs(text: str) -> tuple[str, dict[str, str]]:
    """Split a docstring into its description and what it says of each parameter."""
    try:
        read = docstring_parser.parse(text)
    except docstring_parser.ParseError:
        return text.strip(), {}
    documented = {one.arg_name: " ".join((one.description or "").split()) for one in read.params}
    if not documented:
        return text.strip(), {}
    described = [read.short_description, read.long_description]
    if read.returns and read.returns.description:
        described.append(f"Returns: {read.returns.description}")
    return "\n\n".join(part.strip() for part in described if part), documented
