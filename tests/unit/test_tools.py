"""Tools: what makes one, what is refused at definition, and what the mark does."""

import asyncio
import functools
import io
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from datetime import timedelta
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, SecretStr

from agents.arguments import InvalidArguments
from agents.context import Approval, ToolContext
from agents.llm.messages import ToolSpec
from agents.tools import Tool, ToolDefinitionError, requires_confirmation, tool
from hitl.errors import BadDuration, HitlError

CTX = ToolContext(agent="desk")


@tool
def send_email(to: str, subject: str = "Hi", copies: int = 1) -> str:
    """Send an e-mail (cannot be undone).

    Args:
        to: The address,
            one only.
        subject (str): What it is about.

    Returns:
        The id of the message.
    """
    return f"{to}|{subject}|{copies}"


@tool
async def fetch(url: str) -> str:
    """Fetch a page."""
    await asyncio.sleep(0)
    return f"page {url}"


class TestATool:
    @pytest.mark.promise("M1")
    def test_is_described_by_its_signature_and_docstring(self) -> None:
        assert send_email.spec == ToolSpec(
            name="send_email",
            description="Send an e-mail (cannot be undone).\n\nReturns: The id of the message.",
            parameters={
                "type": "object",
                "additionalProperties": False,
                "required": ["to"],
                "properties": {
                    "to": {"type": "string", "description": "The address, one only."},
                    "subject": {
                        "type": "string",
                        "description": "What it is about.",
                        "default": "Hi",
                    },
                    "copies": {"type": "integer", "default": 1},
                },
            },
        )

    @pytest.mark.promise("M1")
    def test_keeps_a_docstring_without_a_section_on_arguments_as_it_is(self) -> None:
        @tool
        def look(order_id: str) -> None:
            """Look.

            Note: only open orders are found.
            """

        assert look.description == "Look.\n\nNote: only open orders are found."

    @pytest.mark.promise("M1")
    def test_shows_the_model_what_pydantic_knows_of_a_parameter(self) -> None:
        @tool
        def rate(stars: Annotated[int, Field(ge=1, le=5, description="How many.")]) -> None:
            """Rate it.

            Args:
                stars: Said less well.
            """

        assert rate.parameters["properties"]["stars"] == {
            "type": "integer",
            "minimum": 1,
            "maximum": 5,
            "description": "How many.",
        }

    @pytest.mark.promise("M1")
    def test_without_parameters_takes_an_empty_object(self) -> None:
        @tool
        def ping() -> str:
            """Ping."""
            return "pong"

        assert ping.parameters == {
            "type": "object",
            "additionalProperties": False,
            "properties": {},
        }
        assert ping.invoke(ping.validate(""), CTX) == "pong"

    def test_has_its_dotted_path_for_an_id(self) -> None:
        assert send_email.id == f"{__name__}.send_email"

    def test_takes_an_id_a_name_and_a_description(self) -> None:
        @tool(id="refund.v1", name="refund", description="Pay back.", on_doubt="fail")
        def issue_refund(amount: float) -> None: ...

        assert issue_refund.id == "refund.v1"
        assert (issue_refund.name, issue_refund.description) == ("refund", "Pay back.")
        assert issue_refund.on_doubt == "fail"

    def test_is_called_in_a_unit_test_like_the_function_it_is(self) -> None:
        assert send_email("a@example.com", copies=2) == "a@example.com|Hi|2"
        assert asyncio.run(fetch(url="x")) == "page x"
        assert send_email.__name__ == "send_email"
        assert send_email.__doc__ is not None

    def test_that_is_asynchronous_runs_from_ordinary_code(self) -> None:
        assert fetch.invoke(fetch.validate('{"url": "x"}'), CTX) == "page x"

    def test_behind_a_decorator_of_ones_own_keeps_its_signature(self) -> None:
        def counted(function: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(function)
            def wrapper(*args: Any, **kwargs: Any) -> Any:
                return function(*args, **kwargs) * 2

            return wrapper

        @tool
        @counted
        def double(n: int) -> int:
            """Double it."""
            return n

        assert double.invoke(double.validate('{"n": 2}'), CTX) == 4

    def test_may_name_its_types_in_quotes(self) -> None:
        @tool
        def quoted(n: "int", ctx: "ToolContext") -> str:
            """Quote."""
            return f"{n} {ctx.agent}"

        assert quoted.invoke(quoted.validate('{"n": 2}'), CTX) == "2 desk"

    @pytest.mark.parametrize("place", ["first", "middle", "last", "optional"])
    def test_finds_its_context_by_the_type_wherever_it_stands(self, place: str) -> None:
        def first(call: ToolContext, a: str, b: str = "b") -> tuple[object, ...]:
            """Do."""
            return call, a, b

        def middle(a: str, call: ToolContext, b: str = "b") -> tuple[object, ...]:
            """Do."""
            return call, a, b

        def last(a: str, b: str = "b", *, call: ToolContext) -> tuple[object, ...]:
            """Do."""
            return call, a, b

        def optional(a: str, b: str = "b", call: ToolContext | None = None) -> tuple[object, ...]:
            """Do."""
            return call, a, b

        places: dict[str, Callable[..., Any]] = {
            "first": first,
            "middle": middle,
            "last": last,
            "optional": optional,
        }
        made = tool(places[place])
        assert list(made.parameters["properties"]) == ["a", "b"]
        assert made.invoke(made.validate('{"a": "1"}'), CTX) == (CTX, "1", "b")
        with pytest.raises(InvalidArguments, match="no argument call"):
            made.validate('{"a": "1", "call": {}}')

    @pytest.mark.promise("A8")
    def test_reads_the_approval_from_its_context(self) -> None:
        @requires_confirmation(payload="context")
        @tool
        def paint(ctx: ToolContext, wall: str) -> str:
            """Paint."""
            return f"{wall} {ctx.approval and ctx.approval.payload}"

        assert paint.gate is not None
        assert paint.gate.payload == "context"
        approved = ToolContext(approval=Approval(payload="red"))
        assert paint.invoke(paint.validate('{"wall": "north"}'), approved) == "north red"

    def test_that_raises_lets_the_exception_through(self) -> None:
        """Field report MSG-02."""

        @tool
        def fails() -> None:
            """Fail."""
            raise ValueError("bad field")

        with pytest.raises(ValueError, match="bad field"):
            fails.invoke({}, CTX)

    @pytest.mark.promise("M4")
    def test_changes_its_schema_version_with_what_it_accepts_only(self) -> None:
        def version(function: Callable[..., Any]) -> str:
            return tool(function).schema_version

        def one(description: Literal["a", "b"] = "a") -> None:
            """Do."""

        def reworded(description: Annotated[Literal["a", "b"], Field(title="T")] = "a") -> None:
            """Do it.

            Args:
                description: What.
            """

        def renamed(title: Literal["a", "b"] = "a") -> None:
            """Do."""

        def widened(description: Literal["a", "b", "c"] = "a") -> None:
            """Do."""

        def defaulted(description: Literal["a", "b"] = "b") -> None:
            """Do."""

        assert version(one) == version(reworded)
        assert re.fullmatch("[0-9a-f]{12}", version(one))
        assert len({version(each) for each in (one, renamed, widened, defaulted)}) == 4

    @pytest.mark.promise("M4", "M5")
    def test_keeps_id_mark_and_digest_when_the_model_sees_another_name(self) -> None:
        marked = requires_confirmation(send_email)
        other = marked.renamed("mail", description="Post it.")
        arguments = other.validate('{"to": "a"}')
        assert (other.name, other.description) == ("mail", "Post it.")
        assert other.id == send_email.id
        assert other.gate is not None
        assert other.digest(arguments) == marked.digest(arguments)
        assert (marked.name, send_email.name) == ("send_email", "send_email")

    @pytest.mark.promise("M4")
    def test_gives_different_digests_to_different_calls_and_tools(self) -> None:
        """Field report DEC-04: a yes covers one call, also of a tool without arguments."""

        @tool(id="one")
        def first() -> None:
            """Do."""

        @tool(id="two")
        def second() -> None:
            """Do."""

        base = send_email.validate('{"to": "a"}')
        assert send_email.digest(base) == send_email.digest(
            send_email.validate('{"copies": 1, "to": "a", "subject": "Hi"}')
        )
        others = ('{"to": "b"}', '{"to": "a "}', '{"to": "a", "copies": 2}')
        digests = {send_email.digest(send_email.validate(text)) for text in others}
        assert len(digests | {send_email.digest(base), first.digest({}), second.digest({})}) == 6


def no_type(x) -> None:
    """Do."""


def any_number(*x: int) -> None:
    """Do."""


def any_names(**x: int) -> None:
    """Do."""


def positional(x: int, /) -> None:
    """Do."""


def a_handle(x: io.StringIO) -> None:
    """Do."""


def a_function(x: Callable[[], int]) -> None:
    """Do."""


def handles(x: "list[io.StringIO] | None" = None) -> None:
    """Do."""


def an_iterator(x: Iterable[int]) -> None:
    """Do."""


def a_secret(x: SecretStr) -> None:
    """Do."""


def wrong_default(x: int = None) -> None:  # type: ignore[assignment]  # noqa: RUF013
    """Do."""


def endless_default(x: float = float("inf")) -> None:
    """Do."""


def opaque_default(x: Any = object()) -> None:  # noqa: B008
    """Do."""


def field_default(x: int = Field(ge=1)) -> None:
    """Do."""


def unknown_type(x: "Nope") -> None:  # type: ignore[name-defined]  # noqa: F821
    """Do."""


def hidden_context(x: list[ToolContext]) -> None:
    """Do."""


def second_context(ctx: ToolContext, x: ToolContext) -> None:
    """Do."""


@pytest.mark.promise("M1")
@pytest.mark.parametrize(
    ("function", "remedy"),
    [
        (no_type, "has no type; annotate it, for example x: str"),
        (any_number, "name each one"),
        (any_names, "name each one"),
        (positional, "remove the /"),
        (a_handle, "StringIO; use plain types"),
        (a_function, "use plain types"),
        (handles, "use plain types"),
        (an_iterator, "annotate it list"),
        (a_secret, "take the name of the secret"),
        (wrong_default, "has a default that does not fit its type"),
        (endless_default, "has a default that does not fit its type"),
        (opaque_default, "default that JSON cannot hold"),
        (field_default, "write Annotated"),
        (unknown_type, "import it at the top of the module"),
        (hidden_context, "annotate it ToolContext"),
        (second_context, "keep one"),
    ],
)
def test_a_bad_parameter_fails_at_definition_with_its_name_and_the_remedy(
    function: Callable[..., Any], remedy: str
) -> None:
    with pytest.raises(ToolDefinitionError) as caught:
        tool(function)
    assert str(caught.value).startswith(f"Tool {function.__name__}: parameter 'x' ")
    assert remedy in str(caught.value)
    assert isinstance(caught.value, HitlError)
    assert caught.value.code == "tool_definition"


def silent(x: int) -> None:
    pass


def yields(x: int) -> Iterator[int]:
    """Do."""
    yield x


async def yields_later(x: int) -> AsyncIterator[int]:
    """Do."""
    yield x


class Holder:
    def method(self, x: int) -> None:
        """Do."""


@pytest.mark.promise("M1")
@pytest.mark.parametrize(
    ("made", "remedy"),
    [
        (silent, "has no docstring"),
        (yields, "return one value"),
        (yields_later, "return one value"),
        (Holder, "write @tool above a def"),
        (Holder().method, "write @tool above a def"),
        (print, "write @tool above a def"),
        (lambda: 1, "name="),
        (send_email, "is a tool already"),
    ],
)
def test_what_is_no_function_with_a_docstring_fails_at_definition(made: Any, remedy: str) -> None:
    with pytest.raises(ToolDefinitionError, match=remedy):
        tool(made)


@pytest.mark.promise("M1")
@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        ({"name": "send mail"}, "plain letters"),
        ({"name": "größe"}, "plain letters"),
        ({"name": "x" * 65}, "up to 64"),
        ({"name": "x\n"}, "plain letters"),
        ({"id": "x" * 201}, "at most 200"),
        ({"id": "a\nb"}, "printable"),
        ({"description": "  "}, "no docstring"),
        ({"on_doubt": "maybe"}, '"ask", "fail" or "retry"'),
    ],
)
def test_a_bad_option_fails_at_definition(options: dict[str, str], remedy: str) -> None:
    def work(x: int) -> None:
        """Do."""

    with pytest.raises(ToolDefinitionError, match=remedy):
        tool(**options)(work)


async def decide_later(args: dict[str, Any], ctx: ToolContext) -> bool:
    return False


class TestTheMark:
    @pytest.mark.promise("M2")
    def test_stands_above_tool_bare_or_with_options(self) -> None:
        @requires_confirmation
        @tool
        def bare() -> None:
            """Do."""

        @requires_confirmation(ttl="5m", payload="context", on_doubt="fail")
        @tool
        def full() -> None:
            """Do."""

        @requires_confirmation()
        @tool
        def called() -> None:
            """Do."""

        assert bare.gate == called.gate
        assert bare.needs_approval({}, CTX)
        assert full.gate is not None
        assert (full.gate.ttl, full.gate.payload) == (timedelta(minutes=5), "context")
        assert full.on_doubt == "fail"

    def test_on_a_tool_made_elsewhere_leaves_that_tool_as_it_was(self) -> None:
        marked = requires_confirmation(send_email)
        assert isinstance(marked, Tool)
        assert marked.needs_approval(marked.validate('{"to": "a"}'), CTX)
        assert send_email.gate is None
        assert not send_email.needs_approval(send_email.validate('{"to": "a"}'), CTX)
        assert marked("a") == send_email("a")

    @pytest.mark.parametrize(
        "mark", [requires_confirmation, requires_confirmation(ttl="5m")], ids=["bare", "options"]
    )
    def test_below_tool_is_refused_with_the_right_order(self, mark: Any) -> None:
        with pytest.raises(ToolDefinitionError, match="write @requires_confirmation above @tool"):

            @tool
            @mark
            def wrong() -> None:
                """Do."""

    def test_cannot_be_put_on_twice_and_so_weakened(self) -> None:
        marked = requires_confirmation(send_email)
        with pytest.raises(ToolDefinitionError, match="requires confirmation already"):
            requires_confirmation(when=lambda args, ctx: False)(marked)

    def test_refuses_options_that_are_not_known(self) -> None:
        with pytest.raises(TypeError, match="colour"):
            requires_confirmation(colour="red")  # type: ignore[call-overload]

    @pytest.mark.promise("A6")
    def test_makes_a_call_in_doubt_be_asked_about_unless_the_tool_says_otherwise(self) -> None:
        @tool(on_doubt="retry")
        def safe() -> None:
            """Do."""

        assert send_email.on_doubt == "retry"
        assert requires_confirmation(send_email).on_doubt == "ask"
        assert requires_confirmation(safe).on_doubt == "retry"
        assert requires_confirmation(on_doubt="fail")(safe).on_doubt == "fail"

    @pytest.mark.promise("E9")
    @pytest.mark.parametrize("ttl", [0, -1, "0s", "soon", float("nan"), True, "99999d"])
    def test_refuses_a_time_to_live_that_is_no_duration(self, ttl: Any) -> None:
        with pytest.raises(BadDuration):
            requires_confirmation(ttl=ttl)

    @pytest.mark.parametrize(
        ("options", "remedy"),
        [
            ({"payload": "both"}, '"result" or "context"'),
            ({"on_doubt": "maybe"}, '"ask", "fail" or "retry"'),
            ({"when": "amount > 100"}, "when must be a plain function"),
            ({"when": lambda args: True}, "when must be a plain function"),
            ({"summary": lambda args, ctx: ""}, "summary must be a plain function"),
            ({"when": decide_later}, "when must be a plain function"),
        ],
    )
    def test_refuses_options_that_would_fail_in_a_worker(
        self, options: dict[str, Any], remedy: str
    ) -> None:
        with pytest.raises(ToolDefinitionError, match=remedy):
            requires_confirmation(**options)
