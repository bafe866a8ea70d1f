"""Fixtures of all tests. The clock, `run_worker` and `scripted_model` come from the plugin."""

import pytest

from hitl import deadlines
from tests import loopback
from tests.desk import Desk


def pytest_configure(config: pytest.Config) -> None:
    """Let no test reach outside this machine."""
    loopback.install()


@pytest.fixture(autouse=True)
def no_countdown_has_been_sent() -> None:
    """Let no test see which countdowns the process sent in another."""
    deadlines.forget()


@pytest.fixture
def desk(db: None) -> Desk:
    """A desk whose effects are counted outside the database."""
    return Desk()
