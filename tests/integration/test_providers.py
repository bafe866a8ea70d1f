"""The model library against providers that behave as the real ones do, refusals included."""

import itertools
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from agents.llm import library
from agents.llm.errors import ModelError, ModelRefused, ModelUnavailable, RequestCancelled
from agents.llm.library import UNREADABLE, PydanticAIModel
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
from hitl import clock, values
from tests import loopback
from tests.fake_providers import Answer, FakeProvider

MODELS = ("openai:gpt-5", "openai-chat:gpt-4o", "anthropic:claude-haiku-5-5")
PATHS = {
    "openai": "/v1/responses",
    "openai-chat": "/v1/chat/completions",
    "anthropic": "/v1/messages",
}
KEY = "a-secret-that-nobody-may-see"
FIND = ToolSpec(
    "find",
    "Find an order.",
    {
        "type": "object",
        "properties": {"q": {"type": "string"}},
        "required": ["q"],
        "additionalProperties": False,
    },
)
TWO_CALLS = Answer(
    text="Looking.", calls=(Call("c1", "find", '{"q": "x"}'), Call("c2", "find", "{}"))
)


@pytest.fixture(scope="module")
def server() -> Iterator[FakeProvider]:
    loopback.install()
    with FakeProvider() as provider, pytest.MonkeyPatch.context() as environment:
        library.close()  # clients are made for one address
        environment.setenv("OPENAI_BASE_URL", f"{provider.url}/v1")
        environment.setenv("ANTHROPIC_BASE_URL", provider.url)
        environment.setenv("OPENAI_API_KEY", KEY)
        environment.setenv("ANTHROPIC_API_KEY", KEY)
        yield provider
        library.close()


@pytest.fixture
def provider(server: FakeProvider) -> FakeProvider:
    server.forget()
    return server


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest, provider: FakeProvider) -> PydanticAIModel:
    return PydanticAIModel(request.param)


def request_of(*messages: Message) -> Request:
    history = messages or (UserMessage("Where is my order?"),)
    return Request("desk", "", "Be kind.", history, (FIND,))


def ask(model: PydanticAIModel, *messages: Message) -> Reply:
    return model.request(request_of(*messages), cancelled=lambda: False)


def saved(reply: Reply, prefix: str, *, raw: bool = True) -> AssistantMessage:
    """The reply as a run keeps it: stored as JSON, each call under an id of ours."""
    calls = tuple(
        Call(f"{prefix}-{number}", call.name, call.arguments)
        for number, call in enumerate(reply.calls)
    )
    kept: Any = values.loads(values.dumps(reply.raw)) if raw else None
    return AssistantMessage(reply.text, calls, kept)


def answered(message: AssistantMessage, *contents: Any) -> ToolResults:
    pairs = zip(message.calls, contents, strict=True)
    return ToolResults(tuple(ToolResult(call.id, call.name, content) for call, content in pairs))


def sent_messages(provider: FakeProvider, at: int = -1) -> list[Any]:
    body = provider.asked[at].body
    found: list[Any] = body["input"] if "input" in body else body["messages"]
    return found


@pytest.mark.promise("L4")
def test_a_text_comes_back_with_its_usage_and_its_price(
    model: PydanticAIModel, provider: FakeProvider
) -> None:
    provider.answer("On its way.")
    reply = ask(model)
    assert (reply.text, reply.calls) == ("On its way.", ())
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (120, 30)
    assert reply.usage.cost_micros > 0
    [asked] = provider.asked
    assert asked.path == PATHS[model.name.partition(":")[0]]
    assert KEY in str(asked.headers)


@pytest.mark.promise("L4")
def test_instructions_and_tools_are_offered(model: PydanticAIModel, provider: FakeProvider) -> None:
    provider.answer("On its way.")
    ask(model)
    written = json.dumps(provider.asked[0].body)
    assert written.count("Be kind.") == 1
    assert "Find an order." in written
    assert json.dumps(FIND.parameters["properties"]) in written


def test_anthropic_is_given_a_bound_for_the_reply(provider: FakeProvider) -> None:
    provider.answer("On its way.")
    ask(PydanticAIModel("anthropic:claude-haiku-5-5", tokens_max=1000))
    assert provider.asked[0].body["max_tokens"] == 1000
    assert provider.asked[0].body["stream"] is False


@pytest.mark.promise("H2", "H3")
@pytest.mark.parametrize("raw", [True, False], ids=["raw", "rebuilt"])
@pytest.mark.parametrize(
    "ids",
    [("c1", "c2"), ("same", "same"), ("", ""), ("-", "-")],
    ids=["fine", "twice", "blank", "none"],
)
def test_parallel_calls_are_answered_under_our_ids_whatever_ids_came(
    model: PydanticAIModel, provider: FakeProvider, ids: tuple[str, str], raw: bool
) -> None:
    """The fake provider refuses unpaired, repeated and empty ids, as the real ones do."""
    calls = (Call(ids[0], "find", '{"q": "x"}'), Call(ids[1], "find", '{"q": "y"}'))
    provider.answer(Answer(text="Looking.", calls=calls), "Both found.")
    first = saved(ask(model), "ours", raw=raw)
    assert [json.loads(call.arguments) for call in first.calls] == [{"q": "x"}, {"q": "y"}]
    reply = ask(model, UserMessage("Where?"), first, answered(first, {"at": "sea"}, None))
    assert reply.text == "Both found."
    written = json.dumps(sent_messages(provider))
    assert [written.count(f'"ours-{number}"') for number in (0, 1)] == [2, 2]


@pytest.mark.promise("A7", "A12", "H2")
def test_a_denial_is_a_plain_result_and_the_thread_goes_on(
    model: PydanticAIModel, provider: FakeProvider
) -> None:
    """Field reports MSG-01, MSG-03, MSG-10: later turns failed, or the reason was lost."""
    denial = 'Denied by a person: "no\nway" 🙅‍♀️. The action was NOT performed.'
    provider.answer(TWO_CALLS, "I see.", "Still here.", "And here.")
    first = saved(ask(model), "ours")
    history: list[Message] = [
        UserMessage("Refund it"),
        first,
        ToolResults(
            (
                ToolResult("ours-0", "find", denial, "denied"),
                ToolResult("ours-1", "find", "The tool failed: ValueError", "error"),
            )
        ),
    ]
    for follow_up in ("Why?", "Sure?"):
        reply = ask(model, *history)
        history += [saved(reply, "later"), UserMessage(follow_up)]
    assert ask(model, *history).text == "And here."
    assert json.dumps(sent_messages(provider)).count(json.dumps(denial)[1:-1]) == 1
    # What was sent once is sent the same way again: nothing shifts under the provider's cache.
    turns = [sent_messages(provider, at) for at in (1, 2, 3)]
    for earlier, later in itertools.pairwise(turns):
        assert later[: len(earlier)] == earlier


@pytest.mark.promise("H2", "H4")
@pytest.mark.parametrize("raw", [True, False], ids=["raw", "rebuilt"])
@pytest.mark.parametrize("arguments", ['{"q": ', "[1]", "no JSON", '{"q": NaN}', "9" * 5000])
def test_broken_arguments_come_through_and_go_back_as_json(
    model: PydanticAIModel, provider: FakeProvider, arguments: str, raw: bool
) -> None:
    provider.answer(Answer(calls=(Call("c1", "find", arguments),)), "Sorry.")
    first = saved(ask(model), "ours", raw=raw)
    assert ask(model, UserMessage("?"), first, answered(first, "No JSON.")).text == "Sorry."
    anthropic_parses_it = model.name.startswith("anthropic") and arguments == '{"q": NaN}'
    assert (UNREADABLE in json.dumps(sent_messages(provider))) is not anthropic_parses_it


@pytest.mark.promise("H2", "H4")
@pytest.mark.parametrize("name", ["look up!", "", "x" * 300, "nul\0", "\ud800"])
def test_a_made_up_tool_name_does_not_spoil_the_thread(
    model: PydanticAIModel, provider: FakeProvider, name: str
) -> None:
    provider.answer(Answer(calls=(Call("c1", name, "{}"),)), "Sorry.")
    first = saved(ask(model), "ours")
    assert ask(model, UserMessage("?"), first, answered(first, "No such tool.")).text == "Sorry."


@pytest.mark.promise("H2")
@pytest.mark.parametrize("blank", ["", " ", "\n\n"])
def test_blank_texts_do_not_spoil_the_thread(
    model: PydanticAIModel, provider: FakeProvider, blank: str
) -> None:
    provider.answer(Answer(text=" ", calls=(Call("c1", "find", "{}"),)), " ", "Here.")
    first = saved(ask(model, UserMessage(blank)), "ours")
    history: tuple[Message, ...] = (UserMessage(blank), first, answered(first, blank))
    second = saved(ask(model, *history), "later")
    assert ask(model, *history, second, UserMessage("Hello?")).text == "Here."


@pytest.mark.promise("H4")
def test_nul_and_lone_surrogates_can_be_stored(
    model: PydanticAIModel, provider: FakeProvider
) -> None:
    call = Call("c\0", "find", r'{"q": "\u0000 \ud800"}')
    provider.answer(Answer(text="a\0b \ud800 c", calls=(call,)), "Fine.")
    reply = ask(model)
    assert reply.text == "a␀b \N{REPLACEMENT CHARACTER} c"
    kept = [reply.text, reply.raw, *(part for call in reply.calls for part in (call.id, call.name))]
    assert values.clean(kept) == kept
    first = saved(reply, "ours")
    assert ask(model, UserMessage("?"), first, answered(first, "done")).text == "Fine."


@pytest.mark.promise("H4")
def test_a_very_long_reply_is_cut(model: PydanticAIModel, provider: FakeProvider) -> None:
    provider.answer("x" * 3_000_000)
    reply = ask(model)
    assert len(reply.text) == 500_000
    assert reply.text.endswith("3000000 characters in all)")


@pytest.mark.promise("L4")
@pytest.mark.parametrize("other", MODELS)
def test_a_thread_goes_on_with_another_model(
    model: PydanticAIModel, provider: FakeProvider, other: str
) -> None:
    provider.answer(TWO_CALLS, "Found.")
    first = saved(ask(model), "ours")
    reply = ask(PydanticAIModel(other), UserMessage("?"), first, answered(first, "a", "b"))
    assert reply.text == "Found."


FAILURES = [
    (Answer(status=408), ModelUnavailable),
    (Answer(status=409), ModelUnavailable),
    (Answer(status=425), ModelUnavailable),
    (Answer(status=429), ModelUnavailable),
    (Answer(status=500), ModelUnavailable),
    (Answer(status=503), ModelUnavailable),
    (Answer(status=529, code="overloaded_error"), ModelUnavailable),
    (Answer(text="half a reply", cut=True), ModelUnavailable),
    (Answer(body="<html>Bad gateway</html>"), ModelUnavailable),
    (Answer(body=""), ModelUnavailable),
    (Answer(status=400), ModelRefused),
    (Answer(status=401), ModelRefused),
    (Answer(status=403), ModelRefused),
    (Answer(status=404), ModelRefused),
    (Answer(status=413), ModelRefused),
    (Answer(status=422), ModelRefused),
    (Answer(body="[" * 5000), ModelRefused),
]


@pytest.mark.promise("H6")
@pytest.mark.parametrize(("answer", "kind"), FAILURES)
def test_each_failure_is_told_apart_and_tried_only_once(
    model: PydanticAIModel, provider: FakeProvider, answer: Answer, kind: type[ModelError]
) -> None:
    answer.error = f"No: {KEY} or sk-proj-1234567890 is wrong"
    provider.answer(answer)
    with pytest.raises(ModelError) as raised:
        ask(model)
    assert type(raised.value) is kind
    assert len(provider.asked) == 1
    error: BaseException | None = raised.value
    assert error is not None
    for secret in (KEY, "sk-proj"):
        assert secret not in str(error)
    assert (error.__cause__, error.__context__) == (None, None)


@pytest.mark.promise("H6")
def test_a_used_up_quota_does_not_pass(provider: FakeProvider) -> None:
    provider.answer(Answer(status=429, code="insufficient_quota", error="Check your billing."))
    with pytest.raises(ModelRefused, match=r"quota .* used up: Check your billing"):
        ask(PydanticAIModel("openai:gpt-5"))


@pytest.mark.promise("H6")
@pytest.mark.parametrize(
    ("header", "wait"),
    [
        ("7", timedelta(seconds=7)),
        ("0", timedelta(0)),
        ("86400", timedelta(hours=1)),
        ("-5", None),
        ("soon", None),
        ("9" * 400, None),
    ],
)
def test_retry_after_in_seconds_is_kept_within_bounds(
    model: PydanticAIModel, provider: FakeProvider, header: str, wait: timedelta | None
) -> None:
    provider.answer(Answer(status=429, headers={"Retry-After": header}))
    with pytest.raises(ModelUnavailable) as raised:
        ask(model)
    assert raised.value.retry_after == wait


@pytest.mark.promise("H6")
def test_retry_after_as_a_date_is_a_wait_from_now(
    model: PydanticAIModel, provider: FakeProvider
) -> None:
    date = format_datetime(clock.now() + timedelta(minutes=10), usegmt=True)
    provider.answer(Answer(status=503, headers={"Retry-After": date}))
    with pytest.raises(ModelUnavailable) as raised:
        ask(model)
    assert raised.value.retry_after is not None
    assert timedelta(minutes=9) < raised.value.retry_after <= timedelta(minutes=10)


@pytest.mark.promise("H6")
@pytest.mark.parametrize("trickle", [False, True], ids=["silent", "byte by byte"])
def test_a_provider_that_does_not_finish_is_left(
    model: PydanticAIModel, provider: FakeProvider, trickle: bool
) -> None:
    """A read timeout alone would wait for ever on a provider that sends a byte now and then."""
    provider.answer(Answer(hold=threading.Event(), trickle=trickle))
    model.timeout = timedelta(seconds=0.4)
    with pytest.raises(ModelUnavailable):
        ask(model)
    assert provider.hung_up.wait(30)
    assert len(provider.asked) == 1


@pytest.mark.promise("H6")
def test_a_provider_that_is_not_there_may_be_there_later(
    provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.close()
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    with pytest.raises(ModelUnavailable, match="could not be asked"):
        ask(PydanticAIModel("openai:gpt-5"))
    library.close()


@pytest.mark.promise("H8")
def test_a_stop_ends_the_call_and_hangs_up(model: PydanticAIModel, provider: FakeProvider) -> None:
    provider.answer(Answer(hold=threading.Event()))
    with pytest.raises(RequestCancelled):
        model.request(request_of(), cancelled=provider.arrived.is_set)
    assert provider.hung_up.wait(30)
    assert len(provider.asked) == 1


def test_many_threads_ask_at_once(model: PydanticAIModel, provider: FakeProvider) -> None:
    provider.answer(*(str(number) for number in range(80)))
    with ThreadPoolExecutor(8) as pool:
        heard = list(pool.map(lambda _: ask(model).text, range(80)))
    assert sorted(heard, key=int) == [str(number) for number in range(80)]


PREFORK = """
import os, sys
from agents.llm.library import PydanticAIModel
from agents.llm.messages import Request, UserMessage

def ask():
    request = Request("desk", "", "", (UserMessage("hello"),))
    return PydanticAIModel(sys.argv[1]).request(request, cancelled=lambda: False).text

assert ask() == "yes"
children = []
for _ in range(3):
    child = os.fork()
    if child == 0:
        os._exit(0 if [ask() for _ in range(5)] == ["yes"] * 5 else 1)
    children.append(child)
assert ask() == "yes"
codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
assert codes == [0, 0, 0], codes
assert ask() == "yes"
print("fine")
"""


def test_forked_workers_ask_on_connections_of_their_own(provider: FakeProvider) -> None:
    """The parent of a prefork pool has asked before, and goes on asking."""
    provider.answer(*["yes"] * 18)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PREFORK, "openai-chat:gpt-4o"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr
    assert len(provider.asked) == 18
