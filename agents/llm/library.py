"""Models by string, through pydantic-ai. The only module that imports it, and so imported late.

Touches the network, by way of the process's one event loop (`portal`). Clients are built once per
process; a forked child builds its own, since sockets and loop are the parent's. Base URLs and keys
come from each SDK's usual environment variables (`OPENAI_BASE_URL`, `ANTHROPIC_API_KEY`, …).
"""

import asyncio
import dataclasses
import inspect
import json
import os
import re
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

from pydantic_ai import direct, exceptions
from pydantic_ai import messages as theirs
from pydantic_ai.models import Model as TheirModel
from pydantic_ai.models import ModelRequestParameters, infer_model
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from agents.llm import failures, portal
from agents.llm.errors import ModelError, ModelRefused, ModelUnavailable
from agents.llm.messages import (
    AssistantMessage,
    Call,
    Reply,
    Request,
    ToolResults,
    ToolSpec,
    Usage,
    UserMessage,
    check_pairs,
)
from hitl import values
from hitl.errors import BadJson, NotJson, TooLarge

TIMEOUT = timedelta(seconds=120)
TOKENS_MAX = 16_384  # Anthropic wants a number; above about 21,000 its SDK insists on streaming
TEXT_CHARS_MAX = 500_000
NAME_CHARS_MAX = 64
UNREADABLE = "unreadable_arguments"
EMPTY = "(an empty message)"

_KEY_VARIABLE = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD)$")
_NAME_REFUSED = re.compile(r"[^a-zA-Z0-9_-]")


class PydanticAIModel:
    """One model of the library, named as it names them: `openai:gpt-5`, `anthropic:claude-…`.

    `timeout` bounds the whole call; `tokens_max` bounds a reply where the provider demands a
    bound (Anthropic). The SDK's own retries are off: whoever runs the agent retries, with the run's
    lock released.
    """

    def __init__(
        self, name: str, *, timeout: timedelta = TIMEOUT, tokens_max: int = TOKENS_MAX
    ) -> None:
        self.name = name
        self.timeout = timeout
        self.tokens_max = tokens_max

    def request(self, request: Request, *, cancelled: Callable[[], bool]) -> Reply:
        """Ask the provider once; see `Model.request`. The text of errors never holds a key."""
        check_pairs(request.messages)
        return portal.run(self._ask(self._model(), request), cancelled=cancelled)

    def load(self) -> None:
        """Import the SDK and build the client now; `ModelRefused` where that cannot be."""
        self._model()

    # Both raise after the except block, so that the library's own error, whose text may hold what
    # the provider echoed, is neither cause nor context of ours and reaches no log.

    def _model(self) -> TheirModel:
        try:
            return _built(self.name)
        except Exception as error:
            failure = judge(error, model=self.name)
        raise failure

    async def _ask(self, model: TheirModel, request: Request) -> Reply:
        try:
            async with asyncio.timeout(self.timeout.total_seconds()):
                response = await direct.model_request(
                    model,
                    to_messages(request),
                    model_settings=self._settings(model),
                    model_request_parameters=to_parameters(request.tools),
                )
            if response.finish_reason == "content_filter" and not _says_something(response):
                raise exceptions.ContentFilterError("withheld")
            return to_reply(response)
        except Exception as error:
            failure = judge(error, model=self.name)
        raise failure

    def _settings(self, model: TheirModel) -> ModelSettings:
        settings = ModelSettings(timeout=self.timeout.total_seconds())
        if not hasattr(getattr(model, "client", None), "max_retries"):
            settings["max_retries"] = 0
        if model.system == "anthropic":
            settings["max_tokens"] = self.tokens_max
        for name in model.unsupported_settings & settings.keys():
            del settings[name]
        return settings


def close() -> None:
    """Close this process's connections to providers; the next request builds new clients."""
    global _models
    with _building:
        left, _models = _models, {}
    for model in left.values():
        end: Any = getattr(getattr(model, "client", None), "close", None)
        if inspect.iscoroutinefunction(end):
            portal.run(end())


def to_messages(request: Request) -> list[theirs.ModelMessage]:
    """The history in the library's form, without empty replies, which providers refuse."""
    converted: list[theirs.ModelMessage] = []
    for message in request.messages:
        if isinstance(message, AssistantMessage):
            response = _response(message)
            if _says_something(response):
                converted.append(response)
        else:
            converted.append(
                theirs.ModelRequest(
                    parts=_parts(message), instructions=request.instructions or None
                )
            )
    return converted


def to_parameters(tools: Sequence[ToolSpec]) -> ModelRequestParameters:
    """The tools in the library's form."""
    return ModelRequestParameters(
        function_tools=[
            ToolDefinition(
                name=tool.name,
                description=tool.description,
                parameters_json_schema=tool.parameters,
            )
            for tool in tools
        ]
    )


def to_reply(response: theirs.ModelResponse) -> Reply:
    """The library's reply in our form: texts storable and bounded, arguments as written."""
    return Reply(
        text=values.clean_text(response.text or "", chars_max=TEXT_CHARS_MAX),
        calls=tuple(
            Call(
                id=values.clean_text(part.tool_call_id or "", chars_max=NAME_CHARS_MAX * 4),
                name=values.clean_text(part.tool_name, chars_max=NAME_CHARS_MAX * 4),
                arguments=_written(part.args),
            )
            for part in response.tool_calls
        ),
        usage=Usage(
            input_tokens=max(0, response.usage.input_tokens),
            output_tokens=max(0, response.usage.output_tokens),
            cost_micros=_cost_micros(response),
        ),
        raw=_raw(response),
    )


def judge(error: Exception, *, model: str) -> ModelError:
    """What an exception of the library, an SDK or the transport means for the run."""
    keys = [value for name, value in os.environ.items() if _KEY_VARIABLE.search(name)]
    detail = failures.detail_of(getattr(error, "body", None), keys=keys)
    first_line = str(error).partition("\n")[0]
    said = detail or failures.detail_of(first_line, keys=keys) or type(error).__name__
    match error:
        case exceptions.ModelQuotaExceededError():
            return ModelRefused(f"The quota of the account behind {model} is used up: {detail}")
        case exceptions.ModelHTTPError():
            return failures.of_status(
                error.status_code, model=model, detail=detail, retry_after_s=error.retry_after
            )
        case exceptions.ModelRequestRejectedError():
            return ModelRefused(f"{model} rejected the request: {said}")
        case exceptions.ModelAPIError():
            return ModelUnavailable(
                f"{model} could not be asked: {said}",
                retry_after=failures.bounded(error.retry_after),
            )
        case exceptions.ContentFilterError():
            return ModelRefused(f"The provider's content filter withheld the reply of {model}.")
        case exceptions.UnexpectedModelBehavior():
            return ModelUnavailable(f"{model} sent a reply that cannot be read: {said}")
        case TimeoutError():
            return ModelUnavailable(f"{model} gave no reply in time.")
        case ConnectionError():
            return ModelUnavailable(f"{model} could not be reached: {type(error).__name__}.")
        case exceptions.UserError() | ImportError():
            return ModelRefused(f"{model} cannot be asked: {said}")
    return ModelRefused(f"{model} failed with {type(error).__name__}: {said}")


def _parts(message: UserMessage | ToolResults) -> list[theirs.ModelRequestPart]:
    if isinstance(message, UserMessage):
        return [theirs.UserPromptPart(content=message.text if message.text.strip() else EMPTY)]
    # Plain text whatever the outcome: providers differ in what they make of an error, and a
    # dictionary that looks like one of the library's media parts would be fetched.
    return [
        theirs.ToolReturnPart(
            tool_name=_acceptable(result.name),
            content=_readable(result.content),
            tool_call_id=result.call_id,
        )
        for result in message.results
    ]


def _response(message: AssistantMessage) -> theirs.ModelResponse:
    kept = _loaded(message.raw)
    if kept is None or len(kept.tool_calls) != len(message.calls):
        text = [theirs.TextPart(content=message.text)] if message.text.strip() else []
        calls = [theirs.ToolCallPart(tool_name="", tool_call_id="") for _ in message.calls]
        kept = theirs.ModelResponse(parts=[*text, *calls])
    ours = iter(message.calls)
    parts = [
        _with_call(part, next(ours)) if isinstance(part, theirs.ToolCallPart) else part
        for part in kept.parts
        if not _is_blank(part)
    ]
    return dataclasses.replace(kept, parts=parts)


def _says_something(response: theirs.ModelResponse) -> bool:
    return any(isinstance(part, theirs.TextPart | theirs.ToolCallPart) for part in response.parts)


def _is_blank(part: theirs.ModelResponsePart) -> bool:
    """A text that says nothing, which some refuse; one with an id belongs to its reasoning."""
    return isinstance(part, theirs.TextPart) and not part.content.strip() and part.id is None


def _with_call(part: theirs.ToolCallPart, call: Call) -> theirs.ToolCallPart:
    return dataclasses.replace(
        part,
        tool_name=_acceptable(call.name),
        args=_sendable(call.arguments),
        tool_call_id=call.id,
    )


def _loaded(raw: dict[str, Any] | None) -> theirs.ModelResponse | None:
    if raw is None:
        return None
    try:
        [message] = theirs.ModelMessagesTypeAdapter.validate_python([raw])
    except ValueError:
        return None  # written by another release of the library: text and calls still say it all
    return message if isinstance(message, theirs.ModelResponse) else None


def _sendable(arguments: str) -> dict[str, Any]:
    """Arguments as a provider takes them back: an object; broken ones are kept as text in it."""
    try:
        return values.parse_object(arguments)
    except BadJson:
        return {UNREADABLE: values.clean_text(arguments)}


def _acceptable(name: str) -> str:
    """A tool name as providers take it back; a model may have made one up that they refuse."""
    return _NAME_REFUSED.sub("_", name)[:NAME_CHARS_MAX] or "unnamed"


def _readable(content: Any) -> str:
    if isinstance(content, str) and content.strip():
        return content
    # A blank text as JSON, too: its quotes show that it is all there is, and no provider refuses
    # it.
    return json.dumps(content, ensure_ascii=False, default=str)


def _written(args: Any) -> str:
    """The arguments as text; a provider that sends them as JSON may send what is no object."""
    if args is None:
        return ""
    text = args if isinstance(args, str) else json.dumps(args, ensure_ascii=False)
    # One character over the bound is kept, so that whoever parses it finds it too long, not broken.
    return values.clean_text(text, chars_max=values.BYTES + 1)


def _raw(response: theirs.ModelResponse) -> dict[str, Any] | None:
    try:
        [raw] = theirs.ModelMessagesTypeAdapter.dump_python(
            [response], mode="json", exclude_none=True, warnings=False
        )
        cleaned = values.clean(raw)
    except (NotJson, TooLarge, ValueError):
        return None
    assert isinstance(cleaned, dict)
    return cleaned


def _cost_micros(response: theirs.ModelResponse) -> int:
    try:
        price: Decimal = response.cost().total_price
    except Exception:
        return 0  # a model that the offline price table does not know, or no usage told
    return max(0, round(price * 1_000_000))


_models: dict[str, TheirModel] = {}
_of_parents: list[dict[str, TheirModel]] = []
_building = threading.Lock()


def _built(name: str) -> TheirModel:
    with _building:
        if name not in _models:
            model: Any = infer_model(name)
            if hasattr(getattr(model, "client", None), "max_retries"):
                model.client.max_retries = 0
            if hasattr(model, "_validate_completion"):
                model._validate_completion = _tolerant_of_no_id(model._validate_completion)
            _models[name] = model
        return _models[name]


def _tolerant_of_no_id(validate: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The library's hook on a chat completion, which takes calls that a server gave no id."""

    def tolerant(completion: Any) -> Any:
        for choice in completion.choices or ():
            for call in choice.message.tool_calls or ():
                if call.id is None:
                    call.id = ""
        return validate(completion)

    return tolerant


def _start_anew() -> None:
    """In a forked child: the parent's clients are kept, so that no finaliser closes them."""
    global _models, _building
    _of_parents.append(_models)
    _models = {}
    _building = threading.Lock()


os.register_at_fork(after_in_child=_start_anew)
