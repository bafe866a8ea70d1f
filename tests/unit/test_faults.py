"""Points at which a test crashes the code under test."""

import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress

import pytest

from hitl import faults


@pytest.fixture(autouse=True)
def _unarmed() -> Iterator[None]:
    faults.disarm()
    faults.forget()
    yield
    faults.disarm()
    faults.forget()


def scenario(done: list[str]) -> None:
    for name in ("park:saved", "run:parked", "park:saved"):
        done.append(name)
        faults.point(name)


def test_an_unarmed_point_does_nothing_and_is_not_recorded() -> None:
    scenario([])
    assert faults.passes() == {}


def test_a_handler_sees_every_point_in_order() -> None:
    seen: list[str] = []
    faults.arm(seen.append)
    scenario([])
    faults.disarm()
    scenario([])
    assert seen == ["park:saved", "run:parked", "park:saved"]
    assert faults.passes() == {"park:saved": 2, "run:parked": 1}


def test_after_the_block_what_was_armed_before_is_armed_again() -> None:
    outer: list[str] = []
    inner: list[str] = []
    with faults.armed(outer.append):
        with pytest.raises(ZeroDivisionError), faults.armed(inner.append):
            faults.point("a")
            raise ZeroDivisionError
        faults.point("b")
    faults.point("c")
    assert (outer, inner) == (["b"], ["a"])


def test_a_crash_loop_crashes_at_each_point_in_turn_and_then_ends() -> None:
    crashes: list[tuple[str, int]] = []
    for nth in itertools.count(1):
        done: list[str] = []
        with faults.armed(faults.CrashAt(nth)) as crash, suppress(faults.Crash):
            scenario(done)
        if crash.fired is None:
            break
        crashes.append((crash.fired, len(done)))
    assert crashes == [("park:saved", 1), ("run:parked", 2), ("park:saved", 3)]
    assert crash.passed == 3


def test_a_crash_can_wait_for_one_point() -> None:
    done: list[str] = []
    with faults.armed(faults.CrashAt(2, name="park:saved")), pytest.raises(faults.Crash):
        scenario(done)
    assert len(done) == 3


def test_code_that_catches_exceptions_does_not_survive_a_crash() -> None:
    survived: list[str] = []
    with faults.armed(faults.CrashAt(1)), pytest.raises(faults.Crash):
        try:
            faults.point("a")
        except Exception:
            survived.append("a")
    assert survived == []


def test_the_dead_pass_no_further_point() -> None:
    with faults.armed(faults.CrashAt(1)) as crash:
        with pytest.raises(faults.Crash):
            faults.point("a")
        with pytest.raises(faults.Crash):
            faults.point("b")
    assert (crash.fired, crash.passed) == ("a", 1)


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("park:saved", ["park:saved"]),
        ("park:saved:2", ["park:saved", "run:parked", "park:saved"]),
        ("*:2", ["park:saved", "run:parked"]),
        ("run:parked:2", ["park:saved", "run:parked", "park:saved", "end"]),
    ],
)
def test_the_environment_kills_a_process_at_a_point(written: str, printed: list[str]) -> None:
    code = (
        "from hitl import faults\n"
        "for name in ('park:saved', 'run:parked', 'park:saved'):\n"
        "    print(name, flush=True)\n"
        "    faults.point(name)\n"
        "print('end')\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "SAYSO_FAULT": written},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.stdout.split() == printed
    assert ended.returncode == (0 if "end" in printed else faults.EXIT_STATUS)


@pytest.mark.parametrize("written", [":3", "a:0", "3"])
def test_an_unreadable_environment_is_an_error(written: str) -> None:
    with pytest.raises(ValueError, match="SAYSO_FAULT"):
        faults.from_environment(written)
