"""The scripted model: what a turn may be, what is recorded, what is refused."""

import json
import threading
from datetime import timedelta
from decimal import Decimal

import pytest

from agents.llm import models
from agents.llm.errors import (
    ModelRefused,
    ModelUnavailable,
    RequestCancelled,
    UnpairedCalls,
)
from agents.llm.messages import AssistantMessage, Call, Reply, Request, Usage, UserMessage
from agents.llm.scripted import ScriptedModel, ScriptExhausted, call

pytestmark = pytest.mark.promise("L4")


def ask(model: models.Model, text: str = "hello") -> Reply:
    return model.request(asked(text), cancelled=lambda: False)


def asked(text: str = "hello") -> Request:
    return Request("desk", "", "Be kind.", (UserMessage(text),))


def test_turns_are_worked_off_in_order() -> None:
    model = ScriptedModel(["one", [call("send", to="ana")], "three"])
    assert ask(model).text == "one"
    assert ask(model).calls == (Call("", "send", '{"to": "ana"}'),)
    assert ask(model) == Reply("three")


def test_a_turn_may_mix_texts_and_calls() -> None:
    model = ScriptedModel([["Looking.", call("find", "id-7", q="x"), "And again.", call("find")]])
    reply = ask(model)
    assert reply.text == "Looking.\n\nAnd again."
    assert reply.calls == (Call("id-7", "find", '{"q": "x"}'), Call("", "find", "{}"))


def test_one_call_or_a_whole_reply_is_a_turn_too() -> None:
    whole = Reply("done", usage=Usage(10, 5, 70))
    model = ScriptedModel([call("find"), whole])
    assert ask(model).calls == (Call("", "find", "{}"),)
    assert ask(model) is whole


def test_an_exception_is_raised_and_the_next_request_gets_the_next_turn() -> None:
    busy = ModelUnavailable("busy", retry_after=timedelta(seconds=3))
    model = ScriptedModel([busy, "back again"])
    with pytest.raises(ModelUnavailable) as raised:
        ask(model)
    assert raised.value is busy
    assert ask(model).text == "back again"


def test_a_function_turn_sees_the_request() -> None:
    model = ScriptedModel([lambda request: [call("echo", said=str(request.messages[-1]))]])
    said = {"said": str(UserMessage("parrot"))}
    assert json.loads(ask(model, "parrot").calls[0].arguments) == said


def test_one_function_for_all_turns_keeps_no_count() -> None:
    model = ScriptedModel(lambda request: f"{len(request.messages)} messages")
    assert [ask(model).text, ask(model).text] == ["1 messages", "1 messages"]


def test_every_request_is_kept_also_the_one_that_fails() -> None:
    model = ScriptedModel([ModelRefused("no"), "yes"])
    with pytest.raises(ModelRefused):
        ask(model, "first")
    ask(model, "second")
    assert model.requests == [asked("first"), asked("second")]


def test_a_script_that_has_run_out_says_so() -> None:
    model = ScriptedModel(["only one"])
    ask(model)
    with pytest.raises(ScriptExhausted, match="no turn left after 1"):
        ask(model)


@pytest.mark.promise("H2")
def test_a_history_that_no_provider_takes_is_not_answered() -> None:
    model = ScriptedModel(["never said"])
    broken = Request("desk", "", "", (AssistantMessage("", (Call("1", "find", "{}"),)),))
    with pytest.raises(UnpairedCalls):
        model.request(broken, cancelled=lambda: False)
    assert model.requests == []
    assert ask(model).text == "never said"


def test_a_stopped_run_is_not_answered() -> None:
    model = ScriptedModel(["never said"])
    with pytest.raises(RequestCancelled):
        model.request(asked(), cancelled=lambda: True)
    assert model.requests == []


def test_a_named_model_answers_to_its_string_and_the_last_of_a_name_wins() -> None:
    ScriptedModel(["old"], name="test-named")
    newer = ScriptedModel(["new"], name="test-named")
    assert models.resolve("scripted:test-named") is newer


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    ScriptedModel([], name="test-known")
    with pytest.raises(ModelRefused, match=r"'nobody'; known here: .*test-known"):
        models.resolve("scripted:nobody")


def test_a_model_object_resolves_to_itself() -> None:
    model = ScriptedModel([])
    assert models.resolve(model) is model
    assert isinstance(model, models.Model)


def test_a_turn_that_is_none_of_these_is_an_error_of_the_test() -> None:
    model = ScriptedModel([42])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="not 42"):
        ask(model)


def test_each_turn_goes_to_one_of_several_threads() -> None:
    model = ScriptedModel([str(number) for number in range(200)])
    heard: list[str] = []
    together = threading.Barrier(8)

    def hear() -> None:
        together.wait()
        for _ in range(25):
            heard.append(ask(model).text)

    threads = [threading.Thread(target=hear) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(heard, key=int) == [str(number) for number in range(200)]
    assert len(model.requests) == 200


@pytest.mark.promise("H4")
def test_arguments_are_the_json_a_model_would_write() -> None:
    arguments = call("pay", amount=Decimal("1.50"), note="é\0\ud800").arguments
    assert arguments == r'{"amount": "1.50", "note": "\u00e9\u0000\ud800"}'


def test_an_argument_may_be_called_name() -> None:
    assert json.loads(call("greet", name="Ana").arguments) == {"name": "Ana"}
