"""`manage.py hitl audit`: verifying, exporting and showing the trail, and blanking what is old.

One function per word, as in `errands`. Verifying and exporting read page by page and tell on the
error stream how far they have come.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any

from hitl import audit, durations
from hitl.console import addresses, documents, login, progress
from hitl.console.exits import Exit, Refusal
from hitl.console.outcomes import Outcome
from hitl.errors import BadDuration
from hitl.trail import blanking, evidence, exporting, verifying
from hitl.trail.verifying import Report

CHANNEL = "cli"
Options = Mapping[str, Any]


def verify(options: Options) -> Outcome:
    """Check every row and every seal; exit code 1 when something is not as it was written."""
    began, seen = monotonic(), Report()

    def heed(report: Report) -> None:
        nonlocal seen
        seen = report

    with progress.told(options["say"], lambda: f"{seen.rows} rows checked"):
        report = verifying.verify(anchor=options["anchor"], heed=heed)
    seconds = monotonic() - began
    document: documents.Document = {
        "sound": report.is_sound,
        "rows": report.rows,
        "loose": report.loose,
        "oldest_loose_at": documents.time(report.oldest_loose_at),
        "seals": report.seals,
        "head": report.head,
        "rows_per_second": round(report.rows / seconds) if seconds else 0,
        "flaw_count": report.flaw_count,
        "flaws": [{"kind": flaw.kind, "sentence": flaw.sentence} for flaw in report.flaws],
    }
    complaint = ""
    if not report.is_sound:
        complaint = f"The trail is not as it was written: {report.flaw_count} flaws."
        document = documents.failure("not_as_written", complaint, **document)
    return Outcome(
        document=document,
        view=lambda: _tables().verification(report, seconds),
        exit_code=Exit.DONE if report.is_sound else Exit.FAILED,
        complaint=complaint,
    )


def show(options: Options) -> Outcome:
    """Show the evidence of one request."""
    found = evidence.of(addresses.find(options["id"]))
    return Outcome(document={"evidence": found}, view=lambda: _tables().evidence(found))


def export(options: Options) -> Outcome:
    """Write the trail line by line: to standard output, or to a file and a word about it."""
    request = None if options["request"] is None else addresses.find(options["request"]).id
    lines = exporting.lines(
        options["format"],
        since=_time("--since", options["since"]),
        until=_time("--until", options["until"]),
        request_id=request,
    )
    if options["output"] is None:
        if options["json"]:
            raise Refusal(Exit.USAGE, "usage", "With --json, name a file: --output FILE.")
        return Outcome(document={}, view=lambda: lines)
    written = _write(Path(options["output"]), lines, options["say"])
    head = int(options["format"] == "csv" and written > 0)
    document = {"file": options["output"], "format": options["format"], "rows": written - head}
    said = f"Wrote {written - head} rows to {options['output']}."
    return Outcome(document=document, view=lambda: [said])


def blank(options: Options) -> Outcome:
    """Blank what finished requests of this age held; without `--yes`, say how many there are."""
    try:
        age = durations.parse(options["older_than"])
    except BadDuration as error:
        raise Refusal(Exit.USAGE, error.code, f"--older-than: {error}") from None
    if not options["yes"]:
        count = blanking.count(age)
        message = (
            f"Nothing was blanked. With --yes: up to {count} requests lose their arguments, "
            "answers, titles and descriptions, for good. The trail stays."
        )
        return Outcome(
            document=documents.failure("unconfirmed", message, requests=count),
            view=tuple,
            exit_code=Exit.UNCONFIRMED,
            complaint=message,
        )
    with progress.told(options["say"], lambda: f"{blanking.count(age)} requests left"):
        blanked = blanking.blank(age, actor=audit.person(login.actor(), CHANNEL))
    return Outcome(document={"blanked": blanked}, view=lambda: [f"Blanked {blanked} requests."])


def _write(path: Path, lines: Iterator[str], say: Any) -> int:
    written = 0
    try:
        with (
            path.open("x", encoding="utf-8") as out,
            progress.told(say, lambda: f"{written} lines written"),
        ):
            for line in lines:
                out.write(line + "\n")
                written += 1
    except FileExistsError:
        raise Refusal(Exit.FAILED, "file_exists", f"{path} exists; name another file.") from None
    except OSError as error:
        raise Refusal(Exit.FAILED, "file_error", f"{path}: {error.strerror}.") from None
    return written


def _time(option: str, text: str | None) -> datetime | None:
    """Return the time that an option names; without a zone it is UTC."""
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise Refusal(
            Exit.USAGE, "usage", f"{option} takes an ISO date or time, such as 2026-05-01T12:00."
        ) from None
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def _tables() -> Any:
    """Import the readable forms, and rich with them, only when somebody reads."""
    from hitl.console import trail_tables

    return trail_tables


ERRANDS = {
    "audit verify": verify,
    "audit show": show,
    "audit export": export,
    "audit blank": blank,
}
