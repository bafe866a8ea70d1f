"""A process that asks no model, the web process for one, does not load the model library."""

import subprocess
import sys

import pytest

HEAVY = ("pydantic_ai", "openai", "anthropic", "httpx2", "httpx")


@pytest.mark.promise("L4")
@pytest.mark.parametrize(
    "modules",
    [
        "agents.llm",
        "agents.llm.messages, agents.llm.errors, agents.llm.failures",
        "agents.llm.models, agents.llm.scripted, agents.llm.portal",
    ],
)
def test_the_seam_is_imported_without_the_library(modules: str) -> None:
    script = f"import sys, {modules}\nprint([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr
