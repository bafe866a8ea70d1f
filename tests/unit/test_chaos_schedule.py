"""The seed of a chaos run says what goes wrong and when."""

import itertools
import random

import pytest

from tests.chaos import schedule, scripts

MINUTES = 10


@pytest.mark.parametrize("broker", ["redis", "rabbitmq"])
def test_a_seed_gives_the_same_mishaps_each_time_and_another_seed_gives_others(broker: str) -> None:
    first = schedule.draw(7, seconds=60 * MINUTES, broker=broker)
    assert first == schedule.draw(7, seconds=60 * MINUTES, broker=broker)
    assert first != schedule.draw(8, seconds=60 * MINUTES, broker=broker)


@pytest.mark.parametrize("broker", ["redis", "rabbitmq"])
def test_everything_goes_wrong_in_a_long_run(broker: str) -> None:
    drawn = schedule.draw(1, seconds=60 * MINUTES, broker=broker)
    assert {each.kind for each in drawn} == {*schedule.PACK, *schedule.PACK_OF[broker]}
    assert [each.at for each in drawn] == sorted(each.at for each in drawn)
    assert drawn[-1].at < 60 * MINUTES


def test_every_script_is_made_of_calls_that_the_verdict_knows() -> None:
    rng = random.Random(3)
    for number in range(200):
        script = scripts.parse(scripts.draw(f"r{number}", rng))
        assert script.reference == f"r{number}"
        assert script.words
        assert all(0 <= at < len(script.words) for at in script.down)
        assert all(map(is_made_of_known_calls, script.words))


def is_made_of_known_calls(word: str) -> bool:
    if word == scripts.GONE:
        return True
    return all(
        all(map(is_made_of_known_calls, below_words(below)))
        if letter in scripts.AGENTS
        else letter in scripts.KINDS
        for letter, below in scripts.calls(word)
    )


def below_words(below: str) -> list[str]:
    return scripts.parse(scripts.instructions("r1", 0, 0, below)).words


def test_a_delegation_says_what_the_agent_below_is_to_do() -> None:
    [(first, _), (letter, below), (last, _)] = scripts.calls("fP[g_H[j_r]_down2_gone]k")
    assert (first, letter, last) == ("f", "P", "k")
    told = scripts.parse(scripts.instructions("r7", 2, 1, below))
    assert told.reference == "r7/2.1"
    assert told.words == ["g", "H[j_r]", "gone"]
    assert told.down == {2: 2}
    assert list(scripts.calls("H[j_r]")) == [("H", "j_r")]


def test_trees_are_drawn_three_levels_deep_and_no_deeper() -> None:
    rng = random.Random(5)
    drawn = [scripts.draw(f"r{number}", rng) for number in range(400)]
    depths = {max(itertools.accumulate({"[": 1, "]": -1}.get(c, 0) for c in one)) for one in drawn}
    assert depths == {0, 1, 2, 3}
