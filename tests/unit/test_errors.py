"""The base of all errors."""

import copy

from hitl.errors import BadDuration, HitlError


def test_the_docstring_is_the_default_message() -> None:
    assert str(BadDuration()) == BadDuration.__doc__


def test_a_message_of_its_own_takes_its_place() -> None:
    error = BadDuration("The TTL of tool x is unreadable.")
    assert str(error) == "The TTL of tool x is unreadable."
    assert error.code == "invalid_duration"
    assert isinstance(error, HitlError)


def test_an_error_can_be_copied_as_pools_of_processes_do() -> None:
    error = copy.copy(BadDuration("So."))
    assert (type(error), str(error)) == (BadDuration, "So.")
