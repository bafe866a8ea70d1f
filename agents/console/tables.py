"""Runs, journals and threads as a person reads them, pleasant at 80 columns.

Imported only when something is to be read, as it imports rich. Every value is made visible first:
no control character, no change of direction, no made-up line of ours gets through (U5).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from agents.models import Run, Thread
from agents.workflows.authoring import Workflow
from agents.workflows.timeline import Shown, Timeline
from agents.workflows.verbs import Verdict
from hitl import clock, display, moments
from hitl.console.screen import line
from hitl.inbox import PendingInput

STYLES = {"COMPLETED": "green", "FAILED": "bold red", "CANCELLED": "dim"}


def runs(page: Sequence[Run], cursor: str | None, names: Sequence[str]) -> Iterable[Any]:
    """Yield one page of `list`, and what could be started."""
    if not page:
        yield "There is no such run."
    else:
        table = columns("RUN", "STATUS")
        table.add_column("WHAT", ratio=1, overflow="fold")
        for row in page:
            what = Text(line(row.target))
            key = row.correlation_key or row.idempotency_key
            about = f"{line(key)}, " if key else ""
            what.append(f"\n{about}{moments.short(clock.now() - row.created_at)} ago", style="dim")
            table.add_row(str(row.id), status(row.status), what)
        yield table
    if cursor:
        yield f"\nMore: add --cursor {cursor}"
    yield "\nWorkflows: " + (", ".join(map(line, names)) or "none")


def run(row: Run, journal: Timeline, open_here: Iterable[PendingInput]) -> Iterable[Any]:
    """Yield all there is to know about one run, and what it waits for."""
    yield from brief(row)
    yield from _section("Input", row.input)
    if row.status == "COMPLETED":
        yield from _section("Output", row.output)
    yield ""
    yield Text("Journal", style="bold")
    if journal.is_cut:
        yield f"The newest {len(journal.items)} entries."
    table = columns("", "KIND", "STATE")
    table.add_column("WHAT", ratio=1, overflow="fold")
    for shown in journal.items:
        table.add_row(*_entry(shown))
    yield table
    yield from _waits(open_here)


def brief(row: Run) -> Iterable[Any]:
    """Yield the head of a run: what it is, how it stands, its keys, its error."""
    yield Text.assemble((line(row.target), "bold"), "\n", status(row.status))
    if row.error:
        yield "\n" + indented(row.error)
    yield ""
    yield facts(
        {
            "Run": str(row.id),
            "Begun": moments.stamp(row.created_at),
            "Ended": moments.stamp(row.finished_at) if row.finished_at else "",
            "Code": row.code_version,
            "Key": row.correlation_key or "",
            "Idempotency key": row.idempotency_key or "",
        }
    )


def workflow(known: Workflow) -> Iterable[Any]:
    """Yield a workflow: what it does and what input it takes."""
    yield Text(line(known.name), style="bold")
    if known.description:
        yield "\n" + indented(known.description)
    yield from _section("Input (JSON schema)", known.parameters)


def input_of(arguments: Any) -> Iterable[Any]:
    """Yield the input that a run would start with."""
    yield from _section("Input", arguments)
    yield ""


def verdicts(diverged: Iterable[Verdict]) -> Iterable[Any]:
    """Yield the runs that would diverge, each with where and what to do."""
    for one in diverged:
        yield Text.assemble((line(one.workflow), "bold"), f"  {one.run_id}")
        yield "  " + line(one.error or "") + "\n"


def threads(
    page: Sequence[tuple[Thread, str]], cursor: str | None, names: Sequence[str]
) -> Iterable[Any]:
    """Yield one page of threads, and the agents that there are."""
    if not page:
        yield "There is no such thread."
    else:
        table = columns("THREAD", "STATUS")
        table.add_column("WHAT", ratio=1, overflow="fold")
        for row, state in page:
            what = Text(line(str(row)))
            passed = moments.short(clock.now() - row.created_at)
            what.append(f"\n{line(row.agent)}, {passed} ago", style="dim")
            table.add_row(str(row.id), status(state), what)
        yield table
    if cursor:
        yield f"\nMore: add --cursor {cursor}"
    yield "\nAgents: " + (", ".join(map(line, names)) or "none")


def thread(
    row: Thread, state: str, said: Iterable[Mapping[str, Any]], open_here: Iterable[PendingInput]
) -> Iterable[Any]:
    """Yield a thread: its head, what was said, and what it waits for."""
    yield Text.assemble((line(str(row)), "bold"), "\n", status(state))
    owner = row.owner.get_username() if row.owner is not None else ""
    yield facts({"Thread": str(row.id), "Agent": row.agent, "Owner": owner})
    for one in said:
        yield Text(f"\n{one['role']}", style="dim")
        yield indented(str(one["text"]))
    yield from _waits(open_here)


def _waits(open_here: Iterable[PendingInput]) -> Iterable[str]:
    """Yield a line for each request that is open: what it is about, and its address."""
    for request in open_here:
        yield f"\nWaits for {line(request.tool_name)}: request {request.request_id}"


def columns(*headings: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", expand=True)
    for heading in headings:
        table.add_column(heading, no_wrap=True)
    return table


def facts(named: Mapping[str, str]) -> Table:
    """Return names and values, without those that are empty."""
    table = Table.grid(padding=(0, 2), expand=True)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(ratio=1, overflow="fold")
    for name, value in named.items():
        if value:
            table.add_row(name, line(value))
    return table


def status(value: str) -> Text:
    return Text(value, style=STYLES.get(value, "yellow"))


def indented(text: str) -> str:
    """Return a text of several lines, none of which can be taken for one of ours."""
    return "\n".join(f"  {one}".rstrip() for one in display.visible(text).split("\n"))


def _entry(shown: Shown) -> tuple[str, str, Text, str]:
    row = shown.entry
    number = f".{row.number}" if row.number else ""
    failed = bool(row.error)
    state = Text("failed" if failed else row.state, style="red" if failed else "")
    what = line(row.name)
    if shown.tries > 1:
        what += f" ({shown.tries} tries)"
    if shown.lasted is not None:
        what += f", took {moments.span(shown.lasted)}"
    if row.error:
        what += f": {line(str(row.error.get('text', '')))}"
    return f"{row.position}{number}", line(row.kind), state, what.strip(", ")


def _section(title: str, value: Any) -> Iterable[Any]:
    yield ""
    yield Text(title, style="bold")
    yield display.pretty(value)
