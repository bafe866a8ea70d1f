"""Agents and the register that finds them."""

import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from django.apps import apps

from agents import agent as register
from agents.agent import Agent, AgentDefinitionError, AgentNotFound
from agents.testing import ScriptedModel
from agents.tools import requires_confirmation, tool
from hitl.errors import BadDuration


@tool
def look(order_id: str) -> str:
    """Look."""
    return order_id


@tool
def pay(amount: int) -> None:
    """Pay."""


@pytest.fixture(autouse=True)
def _own_register(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(register, "_agents", {})


def test_an_agent_is_found_by_its_name() -> None:
    desk = Agent("desk", model="openai:gpt-5", instructions="Help.", tools=[look, pay], ttl="15m")
    assert register.get("desk") is desk
    assert register.every() == [desk]
    assert desk.tools == (look, pay)
    assert desk.tool("pay") is pay
    assert desk.tool("send") is None
    assert desk.ttl == timedelta(minutes=15)
    assert repr(desk) == "<Agent desk>"


def test_what_is_not_said_has_a_default() -> None:
    plain = Agent("plain")
    assert (plain.model, plain.instructions, plain.tools) == (None, "", ())
    assert (plain.ttl, plain.max_steps, plain.description) == (None, 25, "")


def test_a_second_definition_replaces_the_first() -> None:
    Agent("desk")
    second = Agent("desk", tools=[look])
    assert register.get("desk") is second
    assert register.every() == [second]


def test_a_definition_that_fails_replaces_nothing() -> None:
    first = Agent("desk")
    with pytest.raises(AgentDefinitionError):
        Agent("desk", max_steps=0)
    assert register.get("desk") is first


def test_an_unknown_agent_is_told_with_those_that_are_known() -> None:
    Agent("mailer")
    Agent("desk")
    with pytest.raises(
        AgentNotFound, match=r"no agent 'desk2'; known are: desk and mailer\."
    ) as caught:
        register.get("desk2")
    assert caught.value.code == "agent_not_found"


def test_a_model_may_be_an_object() -> None:
    model = ScriptedModel(["Hello."])
    assert Agent("desk", model=model).model is model


@pytest.mark.parametrize("name", ["", "two words", "größe", "x" * 53, "a.b", "a\n", None, 1])
def test_a_name_that_could_not_be_offered_to_a_model_is_refused(name: Any) -> None:
    with pytest.raises(AgentDefinitionError, match="cannot be the name of an agent"):
        Agent(name)


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        ({"tools": [look, look]}, "two tools are named look"),
        ({"tools": [look, pay.renamed("look")]}, "two tools are named look"),
        ({"tools": [look.function]}, "look is not a tool; write @tool"),
        ({"max_steps": 0}, "at least 1"),
        ({"max_steps": True}, "at least 1"),
        ({"max_steps": 2.5}, "at least 1"),
        ({"model": ""}, "write a model string"),
        ({"model": 5}, "write a model string"),
    ],
)
def test_a_bad_option_is_refused_with_the_agents_name(options: Any, remedy: str) -> None:
    with pytest.raises(AgentDefinitionError, match=remedy) as caught:
        Agent("desk", **options)
    assert str(caught.value).startswith("Agent desk: ")


@pytest.mark.promise("E9")
@pytest.mark.parametrize("ttl", [0, "soon", -1, float("nan")])
def test_a_time_to_live_that_is_no_duration_is_refused(ttl: Any) -> None:
    with pytest.raises(BadDuration):
        Agent("desk", ttl=ttl)


def test_options_that_are_not_known_yet_are_refused() -> None:
    with pytest.raises(TypeError, match="colour"):
        Agent("desk", colour="red")  # type: ignore[call-arg]


@pytest.mark.promise("M5")
def test_a_marked_tool_cannot_be_had_unmarked_under_another_name() -> None:
    marked = requires_confirmation(pay)
    with pytest.raises(AgentDefinitionError, match="pay and quick_pay are one function"):
        Agent("desk", tools=[marked, pay.renamed("quick_pay")])
    Agent("desk", tools=[marked, marked.renamed("quick_pay")])


class TestDiscovery:
    @pytest.fixture(autouse=True)
    def _clean_modules(self) -> Iterator[None]:
        before = set(sys.modules)
        yield
        for name in set(sys.modules) - before:
            if name.startswith("shop"):
                del sys.modules[name]

    @staticmethod
    def install(path: Path, monkeypatch: pytest.MonkeyPatch, **files: str) -> None:
        package = path / "shop"
        package.mkdir()
        (package / "__init__.py").touch()
        for name, text in files.items():
            (package / f"{name}.py").write_text(text)
        monkeypatch.syspath_prepend(path)
        installed = [*apps.get_app_configs(), apps.get_app_config("hitl").create("shop")]
        monkeypatch.setattr(apps, "get_app_configs", lambda: installed)

    def test_imports_the_agents_and_workflows_of_installed_apps(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        define = "from agents.agent import Agent\nAgent({!r})\n"
        files = {"agents": define.format("seller"), "workflows": define.format("packer")}
        self.install(tmp_path, monkeypatch, **files)
        register.autodiscover()
        assert [agent.name for agent in register.every()] == ["packer", "seller"]

    def test_lets_an_error_in_such_a_module_through(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.install(tmp_path, monkeypatch, agents="import no_such_module_of_the_shop\n")
        with pytest.raises(ModuleNotFoundError, match="no_such_module_of_the_shop"):
            register.autodiscover()

    def test_passes_over_our_own_apps(self, monkeypatch: pytest.MonkeyPatch) -> None:
        asked: set[str] = set()

        def note(package: ModuleType, module_name: str) -> bool:
            asked.add(package.__name__)
            return False

        monkeypatch.setattr(register, "module_has_submodule", note)
        register.autodiscover()
        assert "django.contrib.admin" in asked
        assert not asked & {"agents", "hitl"}
