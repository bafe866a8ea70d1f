"""The documentation is true: examples run, links lead somewhere, tables match the code."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from agents import agent
from agents import conf as agents_conf
from agents.events import EventType
from agents.states import Outcome
from agents.workflows import authoring
from hitl import clock
from hitl import conf as hitl_conf

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
RUNNABLE = [
    "docs/quickstart.md",
    "docs/how-to/choose-approvers.md",
    "docs/how-to/delegate-to-subagents.md",
    "docs/how-to/guard-your-agents.md",
    "docs/how-to/living-with-code-changes.md",
    "docs/how-to/receive-outside-events.md",
    "docs/how-to/test-your-agents.md",
    "docs/how-to/wait-for-a-job.md",
    "docs/how-to/write-a-safe-tool.md",
    "docs/how-to/write-a-workflow.md",
]
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)")


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.promise("L6")
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("page", RUNNABLE)
def test_the_examples_of_a_page_run_from_top_to_bottom(page: str, settings: Any) -> None:
    settings.AGENTS = settings.AGENTS  # a page may set it: it is put back
    before = dict(agent._agents), dict(authoring._workflows)
    code = "\n".join(PYTHON.findall((ROOT / page).read_text()))
    assert code.strip()
    try:
        exec(compile(code, page, "exec"), {"__name__": f"docs_{Path(page).stem}"})  # noqa: S102
    finally:
        clock.reset()
        agent._agents.clear()
        agent._agents.update(before[0])
        authoring._workflows.clear()
        authoring._workflows.update(before[1])


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_to_files_that_exist(page: Path) -> None:
    dead = [link for link in LINK.findall(page.read_text()) if not (page.parent / link).exists()]
    assert dead == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_python_in_the_docs_at_least_compiles(page: Path) -> None:
    for block in PYTHON.findall(page.read_text()):
        compile(block, name(page), "exec")


@pytest.mark.parametrize(("title", "conf"), [("HITL", hitl_conf), ("AGENTS", agents_conf)])
def test_the_settings_page_lists_each_key_with_its_default(title: str, conf: object) -> None:
    text = (ROOT / "docs/reference/settings.md").read_text()
    section = text.split(f"## `{title}`")[1].split("\n## ")[0]
    listed = dict(re.findall(r"^\| `(\w+)` .*\| `(.+)` \|$", section, re.MULTILINE))
    assert listed == {
        key: json.dumps(value) if isinstance(value, str | list) else str(value)
        for key, value in conf.DEFAULTS.items()  # type: ignore[attr-defined]
    }


def test_the_events_page_lists_each_event_and_outcome() -> None:
    text = (ROOT / "docs/reference/events.md").read_text()
    missing = [word for word in [*EventType, *Outcome] if f"`{word}`" not in text]
    assert missing == []
