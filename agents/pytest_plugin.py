"""pytest fixtures for projects that test their own agents; loaded through the `pytest11` entry."""

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from agents.testing import ScriptedModel


@pytest.fixture
def scripted_model() -> "Callable[..., ScriptedModel]":
    """Make scripted models: `scripted_model([[call("send_email", …)], "Sent."])`."""
    from agents.testing import ScriptedModel

    return ScriptedModel


@pytest.fixture
def run_worker(db: Any) -> Callable[[], int]:
    """Do all that is owed now, in this process; see `agents.testing.run_worker`."""
    from agents.testing import run_worker

    return run_worker


@pytest.fixture
def clock() -> Iterator[ModuleType]:
    """The project's clock: `clock.advance(minutes=16)`; put back after the test."""
    from hitl import clock

    yield clock
    clock.reset()
