"""One function behind a gate, for any tool loop: described for the model, asked about when it must.

refund = approval.tool(name="issue_refund", …, execute=pay_back)
tools = [refund.openai_spec()]                  # what the model is offered
outcome = refund.invoke(call.arguments)         # runs, or asks a person and comes back pending
"""

import inspect
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import jsonschema
import referencing
import referencing.exceptions
from jsonschema.protocols import Validator

from hitl import conf, values
from hitl.approval import requests
from hitl.errors import (
    ApprovalInvalidRequest,
    ApprovalToolExecuteFailed,
    BadJson,
    NotJson,
    TooLarge,
)

logger = logging.getLogger(__name__)

KEYWORDS = set(inspect.signature(requests.request).parameters)
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")

Input = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a call: `done` with its `result`, or `pending` with what was opened."""

    status: str
    result: Any = None
    approval_id: str | None = None
    expires_at: datetime | None = None


class Tool:
    """A function that may need a person's say-so before it runs. Made by `approval.tool`."""

    def __init__(
        self,
        *,
        name: str,
        description: str,
        parameters: Mapping[str, Any],
        needs_approval: bool | Callable[[Input], Any] | None,
        to_request: Callable[[Input], Mapping[str, Any]] | None,
        execute: Callable[[Input], Any],
    ) -> None:
        self.name = name
        self.description = description
        self.parameters = dict(parameters)
        self._needs_approval = needs_approval
        self._to_request = to_request
        self._function = execute
        self._validator = _validator(self.parameters)

    def openai_spec(self) -> dict[str, Any]:
        """Return the tool as an OpenAI-compatible list of tools takes it."""
        function = {
            "name": self.name,
            "description": self.description,
            "parameters": self.parameters,
        }
        return {"type": "function", "function": function}

    def invoke(self, input: Mapping[str, Any] | str) -> Outcome:  # noqa: A002
        """Run the function, or open a request and come back pending, the function not run.

        `input` is what the model wrote: an object, or its JSON text. Raises ApprovalInvalidRequest
        unless it is as `parameters` says, and ApprovalToolExecuteFailed when the function raises.
        """
        given = self._read(input)
        if not self._is_gated(given):
            return Outcome(status="done", result=self._run(given))
        asked: dict[str, Any] = {"topic": self.name, "payload": given}
        asked |= self._to_request(given) if self._to_request is not None else {}
        if unknown := set(asked) - KEYWORDS:
            names = ", ".join(sorted(map(str, unknown)))
            raise ApprovalInvalidRequest(f"to_request of {self.name}: nobody knows {names}.")
        entry = requests.request(**asked)
        return Outcome(status="pending", approval_id=entry.approval_id, expires_at=entry.expires_at)

    def execute(self, input: Mapping[str, Any] | str) -> Any:  # noqa: A002
        """Run the function without asking: what to do with a decision's payload once approved.

        The input is judged again, since a reviewer may have edited it. Raises as `invoke` does.
        """
        return self._run(self._read(input))

    def _read(self, given: Any) -> Input:
        try:
            if isinstance(given, str):
                read: Any = values.parse(given or "{}", size_max=conf.payload_bytes_max())
            else:
                read = values.clean(given, size_max=conf.payload_bytes_max())
        except (BadJson, NotJson, TooLarge) as error:
            raise ApprovalInvalidRequest(f"{self.name}: {error}") from error
        try:
            found = jsonschema.exceptions.best_match(self._validator.iter_errors(read))
        except referencing.exceptions.Unresolvable as error:
            raise ApprovalInvalidRequest(
                f"{self.name}: its schema is not whole: {error}"
            ) from error
        if found is not None:
            raise ApprovalInvalidRequest(f"{self.name}: {found.json_path}: {found.message[:500]}")
        return dict(read)  # the schema says that it is an object

    def _is_gated(self, given: Input) -> bool:
        """Tell whether to ask. What cannot be told is asked about."""
        if self._needs_approval is None or isinstance(self._needs_approval, bool):
            return bool(self._needs_approval)
        try:
            needed = self._needs_approval(given)
        except Exception:
            logger.exception("needs_approval of %s raised: a person is asked", self.name)
            return True
        if not isinstance(needed, bool):
            logger.error("needs_approval of %s gave %.80r: a person is asked", self.name, needed)
            return True
        return needed

    def _run(self, given: Input) -> Any:
        try:
            return self._function(given)
        except Exception as error:
            raise ApprovalToolExecuteFailed(f"{self.name}: {error}") from error


def tool(
    *,
    name: str,
    description: str,
    parameters: Mapping[str, Any],
    execute: Callable[[Input], Any],
    needs_approval: bool | Callable[[Input], Any] | None = None,
    to_request: Callable[[Input], Mapping[str, Any]] | None = None,
) -> Tool:
    """Wrap one function so that a person is asked before it runs, whenever `needs_approval` says.

    `parameters` is a JSON schema of an object. `needs_approval` is a bool, or a function of the
    input; without it the tool never asks; one that raises, or gives no bool, asks. `to_request`
    returns the keywords of `approval.request` for an input; topic and payload default to the tool's
    name and the input. `execute` takes the input as one dictionary.

    Raises ApprovalInvalidRequest for what could never work.
    """
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise ApprovalInvalidRequest("name: up to 64 letters, digits, _ and - are needed.")
    if not str(description or "").strip():
        raise ApprovalInvalidRequest(f"{name}: the model needs a description.")
    if not callable(execute) or not (to_request is None or callable(to_request)):
        raise ApprovalInvalidRequest(f"{name}: execute and to_request are functions.")
    if not (needs_approval is None or isinstance(needs_approval, bool) or callable(needs_approval)):
        raise ApprovalInvalidRequest(f"{name}: needs_approval is a bool or a function.")
    return Tool(
        name=name,
        description=description,
        parameters=parameters,
        needs_approval=needs_approval,
        to_request=to_request,
        execute=execute,
    )


def _validator(parameters: dict[str, Any]) -> Validator:
    """Return a validator that fetches nothing. Raises ApprovalInvalidRequest for a bad schema."""
    if parameters.get("type") != "object":
        raise ApprovalInvalidRequest('parameters: a JSON schema with "type": "object" is needed.')
    try:
        jsonschema.Draft202012Validator.check_schema(parameters)
    except jsonschema.SchemaError as error:
        raise ApprovalInvalidRequest(f"parameters: no JSON schema: {error.message}") from error
    return jsonschema.Draft202012Validator(parameters, registry=referencing.Registry())
