"""Verifications and evidence as a person reads them. Imports rich, and is imported only then.

What came from people, models or tools is made visible before it is shown (U5).
"""

from collections.abc import Iterable
from typing import Any

from rich.table import Table
from rich.text import Text

from hitl import clock, display, moments
from hitl.console.screen import line
from hitl.trail.verifying import Report


def verification(report: Report, seconds: float) -> Iterable[Any]:
    """Yield what a verification has found."""
    if report.is_sound:
        yield Text("The trail is as it was written.", style="green")
    else:
        yield Text(f"{report.flaw_count} flaws", style="bold red")
        for flaw in report.flaws:
            yield f"  {flaw.kind}: {line(flaw.sentence)}"
        if report.flaw_count > len(report.flaws):
            yield f"  … and {report.flaw_count - len(report.flaws)} more"
    yield ""
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim")
    facts.add_column(overflow="fold")
    rate = f", {report.rows / seconds:,.0f} a second" if seconds else ""
    facts.add_row("Rows", f"{report.rows:,}{rate}")
    facts.add_row("Not sealed yet", _loose(report))
    facts.add_row("Seals", f"{report.seals:,}")
    facts.add_row("Head", report.head or "none")
    yield facts
    if report.head:
        yield "Keep the head elsewhere, and give it as --anchor another time."


def evidence(found: dict[str, Any]) -> Iterable[Any]:
    """Yield the evidence of one request, part by part, nothing cut."""
    for name in ("shown", "decided", "executed", "trail"):
        yield Text(name.capitalize(), style="bold")
        yield display.pretty(found[name])
        yield ""
    if found["is_as_written"]:
        yield Text("Each row of the trail fits its hash.", style="green")
    else:
        yield Text("A row of the trail does not fit its hash.", style="bold red")


def _loose(report: Report) -> str:
    if report.oldest_loose_at is None:
        return "0"
    age = moments.span(clock.now() - report.oldest_loose_at)
    return f"{report.loose:,}, the oldest {age} old (the sweep seals them)"
