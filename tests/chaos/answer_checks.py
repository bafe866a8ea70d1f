"""What must hold of answers: what people were told, compared with the rows."""

from collections import Counter
from collections.abc import Iterator

from hitl.models import Park
from hitl.states import Code, ParkStatus
from tests.chaos.evidence import Check, Evidence, Line

AWAY = {"OperationalError", "InterfaceError", "TimeoutExpired"}
"""What goes wrong for a driver when the database, or a terminal, is away."""
TOO_LATE = {
    Code.ALREADY_ANSWERED: {ParkStatus.APPROVED, ParkStatus.REJECTED},
    Code.EXPIRED: {ParkStatus.TIMED_OUT},
    Code.MOVED_ON: {ParkStatus.CANCELLED},
}


def first_answers_stand(evidence: Evidence) -> Iterator[str]:
    """A1, A2: who was told that it counted finds it in the row; who was not, does not."""
    winners: Counter[str] = Counter()
    for line in evidence.answered:
        wanted, word = evidence.wanted[line["word"]]["wants"], line["word"]
        park = evidence.parks.get(line["took"] or line["request"])
        if park is None:
            yield f"answer {word}: request {line['request']} is gone"
            continue
        if _came_early(evidence, line, park):
            continue
        if line["delivered"] and line["code"] == Code.COUNTED:
            continue  # one of several votes
        stands = park.answer_reason == word
        if line["delivered"]:
            winners[str(park.id)] += 1
            if not stands or park.status != wanted:
                yield f"answer {word} ({wanted}) counted, but {park.id} is {park.status}"
        elif line["delivered"] is False and stands:
            yield f"answer {word} was told {line['code']}, and stands in {park.id}"
        elif line["code"] in TOO_LATE and park.status not in TOO_LATE[Code(line["code"])]:
            yield f"answer {word} was told {line['code']}, and {park.id} is {park.status}"
        elif line["code"] == Code.NOT_FOUND:
            yield f"answer {word}: request {park.id} was not found"
    yield from (f"{park} took {times} answers" for park, times in winners.items() if times > 1)


def _came_early(evidence: Evidence, line: Line, park: Park) -> bool:
    """Tell whether an answer to a gate was kept for the job that its tool was about to wait for."""
    kind = evidence.kind(park.subject)
    is_kept = line["delivered"] and line["channel"] == "python" and not line["took"]
    return bool(is_kept and kind is not None and kind.is_job and kind.gated)


def every_answer_in_a_row_was_given(evidence: Evidence) -> Iterator[str]:
    """I2: whatever a driver's word stands in a row, that driver wrote down before."""
    for park in evidence.parks.values():
        word = park.answer_reason
        if park.channel in ("admin", "cli", "python") and word in evidence.wanted:
            line = evidence.wanted[word]
            if line["channel"] != park.channel:
                yield f"{park.id} says {park.channel}; {word} came through {line['channel']}"


def no_driver_stumbles_over_itself(evidence: Evidence) -> Iterator[str]:
    """A driver that does nothing proves nothing: only what is away may be in its way."""
    for line in evidence.journal_file.lines("stumbled"):
        if line["over"] not in AWAY:
            yield f"{line['driver']} stumbled over {line['over']}: {line['said']}"


CHECKS: tuple[Check, ...] = (
    first_answers_stand,
    every_answer_in_a_row_was_given,
    no_driver_stumbles_over_itself,
)
