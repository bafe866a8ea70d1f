"""What a run is to do, written in its message: "r17 fg down2 r jP[g_H[j]]". Pure.

The first word is the run's reference, each other one a reply of the model: a letter per tool call.
`downN` makes the model fail N times before the next reply, `gone` makes it refuse for good. A
capital delegates to an agent, and the brackets say what that one is to do, with "_" between words.
"""

import random
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

GOODBYE = "That is all."
GONE = "gone"
DOWN = "down"
HELD_WORD = "careful"
"""What a guardrail holds a reply for."""
CAREFUL_EACH = 14
POISON = "p"
POISONED = 66
"""Exit status of a process that a tool has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One tool as the verdict sees it: what it may do, and how it ends."""

    name: str
    gated: bool = False
    on_doubt: str = "retry"
    raises: bool = False
    is_job: bool = False
    """Whether it waits for work elsewhere."""
    is_workflow: bool = False
    """Whether it starts a run of a workflow and waits for that."""
    fits: bool = True
    """Whether the model calls it with arguments that it takes."""


KINDS = {
    "f": Kind(name="look"),
    "a": Kind(name="ring", on_doubt="ask"),
    "n": Kind(name="note", on_doubt="fail"),
    "g": Kind(name="pay", gated=True, on_doubt="ask"),
    "r": Kind(name="post", gated=True),
    "o": Kind(name="mail", gated=True, on_doubt="fail"),
    "c": Kind(name="brief", gated=True, on_doubt="ask"),
    "m": Kind(name="amend", gated=True, on_doubt="ask"),
    "b": Kind(name="stumble", raises=True),
    "e": Kind(name="refuse", gated=True, on_doubt="ask", raises=True),
    "x": Kind(name="misfit", fits=False),
    "j": Kind(name="render", is_job=True),
    "k": Kind(name="print", gated=True, is_job=True),
    "w": Kind(name="errand", is_workflow=True),
    POISON: Kind(name="poison"),
}
AGENTS = {"P": "patient", "H": "hasty"}
DELEGATE = "delegate_to_"
BY_NAME = {kind.name: kind for kind in KINDS.values()}

WORDS = "f g gg fg fgr r o c ag n b ge e x gfo ggg a rr cg fx j k jf gj jjk w wg m mm".split()
WORDS_MAX = 3
WORDS_BELOW_MAX = 2
DEPTH_MAX = 3
TREE_SHARE = 0.25
BRANCH_SHARE = 0.45
DOWN_SHARE = 0.15
DOWN_MAX = 3
GONE_SHARE = 0.02
GONE_BELOW_SHARE = 0.12


@dataclass(slots=True)
class Script:
    """A message taken apart. `down[n]` says how often the model fails before its n-th reply."""

    reference: str
    words: list[str] = field(default_factory=list)
    down: dict[int, int] = field(default_factory=dict)


def parse(message: str) -> Script:
    reference, *rest = message.split()
    script = Script(reference)
    for word in rest:
        if word.startswith(DOWN):
            script.down[len(script.words)] = int(word.removeprefix(DOWN))
        else:
            script.words.append(word)
    return script


def calls(word: str) -> Iterator[tuple[str, str]]:
    """Yield the letter of each call of a reply, with what an agent below is to do or nothing."""
    at = 0
    while at < len(word):
        letter, at = word[at], at + 1
        if letter not in AGENTS:
            yield letter, ""
            continue
        begun = at + 1
        at = _closing(word, at) + 1
        yield letter, word[begun : at - 1]


def instructions(reference: str, step: int, index: int, below: str) -> str:
    """Return the message for an agent below: a reference of its own, and its words."""
    depth, words = 0, ""
    for character in below:
        depth += {"[": 1, "]": -1}.get(character, 0)
        words += " " if character == "_" and not depth else character
    return f"{reference}/{step}.{index} {words}"


def _closing(word: str, at: int) -> int:
    """Return where the bracket that opens here is closed."""
    depth = 0
    for place in range(at, len(word)):
        depth += {"[": 1, "]": -1}.get(word[place], 0)
        if not depth:
            return place
    raise ValueError(word)


def draw(reference: str, rng: random.Random) -> str:
    """Return a message drawn at random."""
    words: list[str] = []
    for word in rng.choices(WORDS, k=rng.randint(1, WORDS_MAX)):
        words += _with_trouble(word + (_tree(rng, 1) if rng.random() < TREE_SHARE else ""), rng)
    if rng.random() < GONE_SHARE:
        words.append(GONE)
    return " ".join([reference, *words])


def _tree(rng: random.Random, depth: int) -> str:
    """Draw a delegation, with others in it."""
    words: list[str] = []
    for word in rng.choices(WORDS, k=rng.randint(1, WORDS_BELOW_MAX)):
        branches = depth < DEPTH_MAX and rng.random() < BRANCH_SHARE
        words += _with_trouble(word + (_tree(rng, depth + 1) if branches else ""), rng)
    if rng.random() < GONE_BELOW_SHARE:
        words.append(GONE)
    return f"{rng.choice(list(AGENTS))}[{'_'.join(words)}]"


def _with_trouble(word: str, rng: random.Random) -> list[str]:
    down = [f"{DOWN}{rng.randint(1, DOWN_MAX)}"] if rng.random() < DOWN_SHARE else []
    return [*down, word]


def is_careful(reference: str, step: int) -> bool:
    """Tell whether this reply of the model warns, in a word that may hold it back."""
    return zlib.crc32(f"{reference} {step} careful".encode()) % CAREFUL_EACH == 0


def pauses(reference: str, step: int, index: int) -> Sequence[int]:
    """Return how long a call waits before and after its effect, in milliseconds; always the same.

    Most are short; one in ten may be longer than a lease, so that only the heartbeat keeps it.
    """
    rng = random.Random(f"{reference} {step} {index}")
    most = 4000 if rng.random() < 1 / 10 else 400
    return rng.randint(0, most), rng.randint(0, most)
