"""Random bodies against a model of what they must return.

A body is a tree of steps, sequences, gatherings, races, loops, helpers and handlers. The model says
what each part returns and when, from the order of the completions alone: a sequence ends when its
last part does, a gathering with its slowest way, a race with its fastest. Each step has a name of
its own, and completions have an order, so no two ways end at once.
"""

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.workflows import awaiting
from agents.workflows.errors import StepFailed
from agents.workflows.replay import Raised, Returned
from tests.unit.workflows.driver import Live, step

Node = tuple[Any, ...]


def trees() -> st.SearchStrategy[Node]:
    leaf = st.just(("step",))
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.tuples(st.just("all"), st.lists(inner, min_size=1, max_size=3)),
            st.tuples(st.just("gather"), st.lists(inner, min_size=1, max_size=3)),
            st.tuples(st.just("race"), st.lists(inner, min_size=1, max_size=3)),
            st.tuples(st.just("loop"), st.integers(1, 3), inner),
            st.tuples(st.just("help"), inner),
            st.tuples(st.just("catch"), inner),
        ),
        max_leaves=12,
    )


async def play(node: Node, path: str = "r") -> Any:
    """Be the body that this tree describes."""
    match node:
        case ("step",):
            awaiting.now()
            return await step(path)
        case ("all", parts):
            return [await play(part, f"{path}.{n}") for n, part in enumerate(parts)]
        case ("gather", parts):
            return await awaiting.gather(*ways(parts, path))
        case ("race", parts):
            winner = await awaiting.race(*ways(parts, path))
            return [winner.index, winner.value]
        case ("loop", count, part):
            return [await play(part, f"{path}.{n}") for n in range(count)]
        case ("help", part):
            return await play(part, f"{path}.h")
        case ("catch", part):
            try:
                return await play(part, f"{path}.c")
            except StepFailed as error:
                return error.message
    raise AssertionError(node)


def ways(parts: list[Node], path: str) -> list[Any]:
    """Return the ways of a race or gathering: steps as they are, everything else as a branch."""
    return [
        step(f"{path}.{n}") if part == ("step",) else play(part, f"{path}.{n}")
        for n, part in enumerate(parts)
    ]


@dataclass
class End:
    """When a part ends, and with what."""

    at: float
    value: Any = None
    error: str = ""


class Model:
    """What a tree returns, given when each of its steps was completed and which of them failed."""

    def __init__(self, order: dict[str, int], failing: set[str]) -> None:
        self.order, self.failing = order, failing

    def end(self, node: Node, path: str = "r", begun: float = 0) -> End:
        match node:
            case ("step",):
                at = self.order.get(path, float("inf"))
                assert at > begun
                return End(at, path, path if path in self.failing else "")
            case ("all", parts):
                return self.one_by_one([(p, f"{path}.{n}") for n, p in enumerate(parts)], begun)
            case ("loop", count, part):
                return self.one_by_one([(part, f"{path}.{n}") for n in range(count)], begun)
            case ("gather", parts):
                ends = [self.end(p, f"{path}.{n}", begun) for n, p in enumerate(parts)]
                if failed := [end for end in ends if end.error]:
                    return min(failed, key=lambda end: end.at)
                return End(max(end.at for end in ends), [end.value for end in ends])
            case ("race", parts):
                ends = [self.end(p, f"{path}.{n}", begun) for n, p in enumerate(parts)]
                index, first = min(enumerate(ends), key=lambda pair: pair[1].at)
                return End(first.at, [index, first.value], first.error)
            case ("help", part):
                return self.end(part, f"{path}.h", begun)
            case ("catch", part):
                end = self.end(part, f"{path}.c", begun)
                return End(end.at, end.error or end.value)
        raise AssertionError(node)

    def one_by_one(self, parts: list[tuple[Node, str]], begun: float) -> End:
        values = []
        for part, path in parts:
            end = self.end(part, path, begun)
            if end.error or end.at == float("inf"):
                return end
            begun = end.at
            values.append(end.value)
        return End(begun, values)


@pytest.mark.promise("W7", "W6")
@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_body_returns_what_the_order_of_completions_says_and_replays_the_same(
    data: st.DataObject,
) -> None:
    """Field reports RPL-01, RPL-02, RPL-03."""
    tree = data.draw(trees())
    live = Live(lambda: play(tree))
    order: dict[str, int] = {}
    failing: set[str] = set()
    while not live.is_over:
        name = data.draw(st.sampled_from(sorted(live.open)))
        order[name] = len(order) + 1
        if data.draw(st.integers(0, 4)) == 0:
            failing.add(name)
            live.complete(name, error=name)
        else:
            live.complete(name, name)
        outcome, held = live.again()
        assert type(outcome) is type(live.outcome)
        assert held == live.recorded
    expected = Model(order, failing).end(tree)
    if expected.error:
        assert isinstance(live.outcome, Raised)
        assert getattr(live.outcome.error, "message", None) == expected.error
    else:
        assert live.outcome == Returned(expected.value)
