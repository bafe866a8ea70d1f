"""Our history to the library's form and its replies to ours, without a network."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai import exceptions
from pydantic_ai import messages as theirs
from pydantic_ai.usage import RequestUsage

from agents.llm import library
from agents.llm.errors import ModelError, ModelRefused, ModelUnavailable
from agents.llm.messages import (
    AssistantMessage,
    Call,
    Message,
    Reply,
    Request,
    ToolResult,
    ToolResults,
    ToolSpec,
    UserMessage,
)
from hitl import values
from hitl.errors import BadJson


def converted(*messages: Message) -> list[Any]:
    return [*library.to_messages(Request("desk", "openai:gpt-5", "Be kind.", messages))]


def parts_of(message: Message) -> list[Any]:
    [only] = converted(message)
    return list(only.parts)


def response(*parts: theirs.ModelResponsePart, **fields: Any) -> theirs.ModelResponse:
    return theirs.ModelResponse(parts=list(parts), **fields)


def replayed(reply: Reply, *ids: str) -> AssistantMessage:
    """The reply as a run saves it: the same calls under ids of ours."""
    calls = zip(ids, reply.calls, strict=True)
    ours = tuple(Call(call_id, call.name, call.arguments) for call_id, call in calls)
    return AssistantMessage(reply.text, ours, reply.raw)


def test_a_user_message_carries_the_instructions() -> None:
    [message] = converted(UserMessage("Hello"))
    assert message.instructions == "Be kind."
    assert [part.content for part in message.parts] == ["Hello"]


@pytest.mark.promise("H2")
def test_all_results_of_a_step_are_one_block_in_call_order() -> None:
    """Field report MSG-07."""
    block = ToolResults((ToolResult("1", "find", "a"), ToolResult("2", "send", "b")))
    results, extra = converted(block, UserMessage("also"))
    assert [(part.tool_call_id, part.tool_name, part.content) for part in results.parts] == [
        ("1", "find", "a"),
        ("2", "send", "b"),
    ]
    assert [part.content for part in extra.parts] == ["also"]


@pytest.mark.parametrize("outcome", ["success", "denied", "error", "timed_out", "cancelled"])
@pytest.mark.promise("A7", "A12")
def test_every_outcome_is_told_as_plain_content(outcome: str) -> None:
    """Field report MSG-01: a marker that the adapter does not know made every later turn fail."""
    content = 'Denied: "too\nmuch" 🙅. The action was NOT performed.'
    [part] = parts_of(ToolResults((ToolResult("1", "send", content, outcome),)))
    assert (part.content, part.outcome) == (content, "success")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ({"b": 1, "a": "é"}, '{"b": 1, "a": "é"}'),
        ([1, None, True], "[1, null, true]"),
        (None, "null"),
        (0, "0"),
        ("", '""'),
        (" \n", r'" \n"'),
        ({"kind": "image-url", "url": "http://169.254.169.254/"}, None),
    ],
)
def test_a_result_is_sent_as_text_and_never_blank(content: Any, text: str | None) -> None:
    [part] = parts_of(ToolResults((ToolResult("1", "find", content),)))
    assert part.content == (json.dumps(content) if text is None else text)
    assert part.files == []


def test_a_blank_message_is_said_to_be_empty() -> None:
    [part] = parts_of(UserMessage(" \n"))
    assert part.content == library.EMPTY


def test_a_reply_without_raw_is_rebuilt_from_text_and_calls() -> None:
    calls = (Call("1", "find", '{"q":"x"}'), Call("2", "find", ""))
    text, first, second = parts_of(AssistantMessage("Looking.", calls))
    assert text.content == "Looking."
    assert (first.tool_call_id, first.tool_name, first.args) == ("1", "find", {"q": "x"})
    assert (second.tool_call_id, second.tool_name, second.args) == ("2", "find", {})


def test_a_reply_that_says_nothing_is_left_out() -> None:
    thought = theirs.ThinkingPart(content="hm", id="rs_1", provider_name="openai")
    only_thought = library.to_reply(response(thought))
    assert converted(AssistantMessage(" "), replayed(only_thought)) == []


@pytest.mark.promise("H3")
@pytest.mark.parametrize("provider_id", ["same", "", "x" * 200], ids=["twice", "none", "long"])
def test_a_kept_reply_is_replayed_whole_with_our_ids(provider_id: str) -> None:
    thought = theirs.ThinkingPart(content="hm", signature="sig", provider_name="anthropic")
    said = theirs.TextPart(content="Looking.")
    calls = [
        theirs.ToolCallPart("find", {"q": "x", "r": None}, provider_id),
        theirs.ToolCallPart("find", '{"q": "y"}', provider_id),
    ]
    reply = library.to_reply(response(thought, said, *calls, provider_name="anthropic"))
    kept_thought, kept_said, first, second = parts_of(replayed(reply, "ours-1", "ours-2"))
    assert (kept_thought.signature, kept_said.content) == ("sig", "Looking.")
    assert (first.tool_call_id, first.args) == ("ours-1", {"q": "x", "r": None})
    assert (second.tool_call_id, second.args) == ("ours-2", {"q": "y"})


@pytest.mark.promise("H2", "P1")
def test_what_the_provider_ran_itself_stays_a_pair_and_is_no_call_of_ours() -> None:
    """Field report MSG-08: a search on the provider's side and a call that parks, in one reply."""
    reply = library.to_reply(
        response(
            theirs.ToolCallPart("send", {"to": "ana"}, "c1"),
            theirs.NativeToolCallPart("web_search", {"q": "x"}, "s1", provider_name="anthropic"),
            theirs.NativeToolReturnPart("web_search", "found", "s1", provider_name="anthropic"),
            provider_name="anthropic",
        )
    )
    assert [call.name for call in reply.calls] == ["send"]
    ours, searched, found = parts_of(replayed(reply, "ours"))
    assert (ours.tool_name, ours.tool_call_id) == ("send", "ours")
    assert searched.tool_call_id == found.tool_call_id == "s1"
    assert found.content == "found"


def test_raw_survives_storage_as_json() -> None:
    call = theirs.ToolCallPart("find", '{"q": "x"}', "c1", id="fc_1", provider_name="openai")
    reply = library.to_reply(response(call, provider_name="openai", model_name="gpt-5"))
    assert reply.raw == json.loads(values.dumps(reply.raw))
    [part] = parts_of(replayed(reply, "ours"))
    assert (part.id, part.tool_call_id) == ("fc_1", "ours")


@pytest.mark.parametrize(
    "raw",
    [
        {},
        {"kind": "response", "parts": [{"part_kind": "of a later release"}]},
        {"kind": "request", "parts": []},
        {"kind": "response", "parts": []},
        {"kind": "response", "parts": [], "state": "of a later release"},
    ],
)
def test_raw_that_cannot_be_used_falls_back_to_text_and_calls(raw: dict[str, Any]) -> None:
    text, call = parts_of(AssistantMessage("Hi.", (Call("1", "find", "{}"),), raw))
    assert (text.content, call.tool_call_id) == ("Hi.", "1")


BROKEN = [
    '{"q": ',
    "[1]",
    "null",
    '"text"',
    '{"q": NaN}',
    '{"q": 1e999}',
    '{"q": ' + "9" * 5000 + "}",
    '{"q": ' + "[" * 100 + "]" * 100 + "}",
    '{"q": 1, "q": 2}',
]


@pytest.mark.promise("H2", "H4")
@pytest.mark.parametrize("with_raw", [False, True], ids=["rebuilt", "raw"])
@pytest.mark.parametrize("arguments", BROKEN, ids=range(len(BROKEN)))
def test_broken_arguments_go_back_as_an_object_that_holds_their_text(
    arguments: str, with_raw: bool
) -> None:
    reply = library.to_reply(response(theirs.ToolCallPart("find", arguments, "c1")))
    message = replayed(reply, "ours")
    if not with_raw:
        message = AssistantMessage("", message.calls)
    [part] = parts_of(message)
    assert part.args == {library.UNREADABLE: arguments}


@pytest.mark.promise("H2")
@pytest.mark.parametrize(
    ("made_up", "sent"),
    [
        ("look up!", "look_up_"),
        ("ns.tool", "ns_tool"),
        ("ünï", "_n_"),
        ("", "unnamed"),
        ("x" * 100, "x" * 64),
        ("fine-name_1", "fine-name_1"),
    ],
)
def test_a_made_up_tool_name_is_sent_back_as_providers_take_it(made_up: str, sent: str) -> None:
    call, results = converted(
        AssistantMessage("", (Call("1", made_up, "{}"),)),
        ToolResults((ToolResult("1", made_up, "There is no such tool."),)),
    )
    assert [part.tool_name for part in (*call.parts, *results.parts)] == [sent, sent]


def test_tools_are_offered_with_their_schema_untouched() -> None:
    schema = {"type": "object", "properties": {"q": {"type": "string"}}}
    [tool] = library.to_parameters([ToolSpec("find", "Find it.", schema)]).function_tools
    assert (tool.name, tool.description, tool.kind) == ("find", "Find it.", "function")
    assert tool.parameters_json_schema == schema


@pytest.mark.parametrize(
    ("args", "written"),
    [
        ('{"q": ', '{"q": '),
        (" {} ", " {} "),
        ({"q": "é"}, '{"q": "é"}'),
        (None, ""),
        ("", ""),
        ([1], "[1]"),
    ],
)
def test_arguments_stay_as_the_model_wrote_them(args: Any, written: str) -> None:
    [call] = library.to_reply(response(theirs.ToolCallPart("find", args, "c1"))).calls
    assert call == Call("c1", "find", written)


any_text = st.text(st.characters(categories=None) | st.just("\0") | st.just("\ud800"))


@pytest.mark.promise("H4")
@given(any_text, any_text, any_text, any_text)
def test_whatever_a_model_says_can_be_stored_and_sent_back(
    text: str, name: str, call_id: str, arguments: str
) -> None:
    call = theirs.ToolCallPart(name, arguments, call_id)
    reply = library.to_reply(response(theirs.TextPart(text), call))
    stored = values.clean([reply.text, reply.calls[0].name, reply.calls[0].arguments, reply.raw])
    assert stored == [reply.text, reply.calls[0].name, reply.calls[0].arguments, reply.raw]
    sent = converted(replayed(reply, "ours"))
    theirs.ModelMessagesTypeAdapter.dump_json(sent)


@pytest.mark.promise("H4")
def test_a_very_long_reply_is_cut_and_its_raw_form_dropped() -> None:
    reply = library.to_reply(response(theirs.TextPart("x" * 3_000_000)))
    assert len(reply.text) == library.TEXT_CHARS_MAX
    assert reply.text.endswith("…(cut, 3000000 characters in all)")
    assert reply.raw is None


@pytest.mark.promise("H4")
def test_arguments_that_are_too_long_are_still_found_to_be_too_long() -> None:
    written = json.dumps({"q": "x" * 3_000_000})
    [call] = library.to_reply(response(theirs.ToolCallPart("find", written, "c1"))).calls
    with pytest.raises(BadJson, match="over 2097152 characters"):
        values.parse_object(call.arguments)


def test_usage_is_counted_and_priced_where_the_price_is_known() -> None:
    usage = RequestUsage(input_tokens=1_000_000, output_tokens=1_000)
    known = response(usage=usage, model_name="gpt-4o", provider_name="openai")
    unknown = response(usage=usage, model_name="made-up-1", provider_name="openai")
    nameless = response(usage=usage)
    assert library.to_reply(known).usage.cost_micros == 2_510_000
    for priceless in (unknown, nameless):
        counted = library.to_reply(priceless).usage
        assert (counted.input_tokens, counted.output_tokens) == (1_000_000, 1_000)
        assert counted.cost_micros == 0


def http_error(status: int, **fields: Any) -> exceptions.ModelHTTPError:
    return exceptions.ModelHTTPError(status, "gpt-5", **fields)


@pytest.mark.promise("H6")
@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (http_error(409), ModelUnavailable),
        (http_error(425), ModelUnavailable),
        (http_error(404), ModelRefused),
        (exceptions.ModelRateLimitError("gpt-5", "busy"), ModelUnavailable),
        (exceptions.ModelConnectionError("gpt-5", "reset"), ModelUnavailable),
        (exceptions.ModelRequestTimeout("gpt-5", 5), ModelUnavailable),
        (exceptions.ModelAPIError("gpt-5", "not JSON"), ModelUnavailable),
        (exceptions.ModelQuotaExceededError("gpt-5", "no credit"), ModelRefused),
        (exceptions.ModelContextWindowExceededError("gpt-5", "too long"), ModelRefused),
        (exceptions.ContentFilterError("withheld"), ModelRefused),
        (exceptions.UnexpectedModelBehavior("garbled"), ModelUnavailable),
        (exceptions.UserError("Unknown model: gpt"), ModelRefused),
        (ImportError("Please install the `openai` package"), ModelRefused),
        (TimeoutError(), ModelUnavailable),
        (ConnectionResetError(), ModelUnavailable),
        (RecursionError("too deep"), ModelRefused),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_each_failure_of_the_library_is_judged(error: Exception, kind: type[ModelError]) -> None:
    judged = library.judge(error, model="openai:gpt-5")
    assert type(judged) is kind
    assert "openai:gpt-5" in str(judged)


def test_keys_of_the_environment_are_in_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_PROVIDER_API_KEY", "hunter2-hunter2")
    for error in (
        http_error(400, body={"error": {"message": "bad key hunter2-hunter2"}}),
        exceptions.UserError("bad key hunter2-hunter2"),
        ValueError("bad key hunter2-hunter2"),
    ):
        message = str(library.judge(error, model="m"))
        assert "bad key [key]" in message
        assert "hunter2" not in message


def test_an_unknown_model_and_a_missing_key_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    library.close()
    for name, said in (("no-such:model", "Unknown model"), ("openai:gpt-5", "OPENAI_API_KEY")):
        request = Request("desk", name, "", (UserMessage("hello"),))
        with pytest.raises(ModelRefused, match=said) as raised:
            library.PydanticAIModel(name).request(request, cancelled=lambda: False)
        assert raised.value.__cause__ is None
        assert raised.value.__context__ is None
