"""What a failure means, and that no key leaks with it."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.llm import failures
from agents.llm.errors import ModelError, ModelRefused, ModelUnavailable
from hitl.errors import HitlError

PASSING = {408, 409, 425, 429}


@pytest.mark.promise("H6")
@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529, 599])
def test_these_statuses_pass(status: int) -> None:
    error = failures.of_status(status, model="openai:gpt-5", detail="slow down", retry_after_s=7)
    assert isinstance(error, ModelUnavailable)
    assert error.transient
    assert error.retry_after == timedelta(seconds=7)
    assert str(error) == f"openai:gpt-5 answered with HTTP status {status}: slow down"


@pytest.mark.promise("H6")
@given(st.integers(300, 499).filter(lambda status: status not in PASSING))
def test_all_other_statuses_stay(status: int) -> None:
    error = failures.of_status(status, model="m", detail="bad request", retry_after_s=7)
    assert isinstance(error, ModelRefused)
    assert not error.transient
    assert error.retry_after is None


@pytest.mark.parametrize("status", [401, 403])
def test_where_the_key_is_at_fault_the_provider_is_not_quoted(status: int) -> None:
    error = failures.of_status(status, model="m", detail="Incorrect API key provided: hunter2")
    assert "hunter2" not in str(error)
    assert "check its API key" in str(error)


@pytest.mark.promise("H6")
@pytest.mark.parametrize(
    ("asked_s", "wait"),
    [
        (None, None),
        (0, timedelta(0)),
        (1.5, timedelta(seconds=1.5)),
        (3600, timedelta(hours=1)),
        (10**12, timedelta(hours=1)),
        (float("inf"), timedelta(hours=1)),
        (float("nan"), None),
        (-3, None),
    ],
)
def test_the_wait_asked_for_is_bounded(asked_s: float | None, wait: timedelta | None) -> None:
    assert failures.bounded(asked_s) == wait


@given(
    st.text(st.characters(categories=("L", "N")), min_size=6, max_size=80),
    st.text(max_size=40),
    st.text(max_size=40),
)
def test_a_known_key_is_never_told(key: str, before: str, after: str) -> None:
    told = failures.detail_of(
        {"error": {"message": f"{before} key{key} {key} {after}"}}, keys=[key]
    )
    assert key not in told


@pytest.mark.parametrize(
    "key",
    [
        "sk-proj-4f0c9aZZ",
        "sk-ant-api03-xyzxyzxyz",
        "gsk_0123456789ab",
        "AIzaSyA-1234567890",
        "Bearer eyJhbGciOi.abc",
        "0123456789abcdef0123456789abcdef01234567",
    ],
)
def test_what_looks_like_a_key_is_never_told(key: str) -> None:
    told = failures.detail_of(f"Incorrect API key provided: {key}. Try again.", keys=[])
    assert "[key]" in told
    assert key.split()[-1] not in told


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"message": "too long", "type": "x"}, "too long"),
        ({"error": {"message": "too long"}}, "too long"),
        ({"error": "too long"}, "too long"),
        ({"detail": "too long"}, "too long"),
        ("too long", "too long"),
        ({"error": {"code": 5}}, ""),
        ({"message": 5}, ""),
        ([1, 2], ""),
        (None, ""),
        ("nul \0 here", "nul ␀ here"),
    ],
)
def test_the_sentence_of_an_error_body_is_found(body: object, told: str) -> None:
    assert failures.detail_of(body, keys=[]) == told


@pytest.mark.promise("H4")
def test_a_long_error_page_is_cut() -> None:
    told = failures.detail_of("<p>oops</p> " * 10_000, keys=[])
    assert len(told) == failures.DETAIL_CHARS_MAX


def test_every_model_error_has_a_code_and_a_sentence() -> None:
    assert issubclass(ModelError, HitlError)
    assert [error.code for error in (ModelUnavailable(), ModelRefused())] == [
        "model_unavailable",
        "model_refused",
    ]
    assert "later" in str(ModelUnavailable())
