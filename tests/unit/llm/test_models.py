"""From a model string to a model, and what a worker may load ahead."""

import logging
from datetime import timedelta
from typing import Any

import pytest

from agents.llm import library, models
from agents.llm.scripted import ScriptedModel

pytestmark = pytest.mark.promise("L4")


def test_any_other_string_goes_to_the_library_with_the_timeout_of_the_settings(
    settings: Any,
) -> None:
    settings.AGENTS = {"MODEL_TIMEOUT": "7s"}
    model = models.resolve("openai:gpt-5")
    assert isinstance(model, library.PydanticAIModel)
    assert (model.name, model.timeout) == ("openai:gpt-5", timedelta(seconds=7))


def test_a_model_is_loaded_ahead_only_once(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[str] = []
    monkeypatch.setattr(library, "infer_model", built.append)
    library.close()
    models.preload("test:ahead")
    models.preload("test:ahead")
    library.close()
    assert built == ["test:ahead"]


def test_a_model_that_cannot_be_loaded_stops_no_worker(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "agents.llm.models"):
        models.preload("no-such:model")
    assert "no-such:model cannot be loaded" in caplog.text


def test_nothing_is_loaded_for_a_scripted_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "infer_model", None)
    models.preload("scripted:nobody")
    models.preload(ScriptedModel([]))
