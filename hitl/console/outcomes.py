"""What comes of an errand: the document for programs, the view for people, the exit code."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from hitl.console.documents import Document
from hitl.console.exits import Exit

View = Iterable[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of it. `view` is called only when somebody reads; `complaint` is for stderr."""

    document: Document
    view: Callable[[], View]
    exit_code: Exit = Exit.DONE
    complaint: str = ""
