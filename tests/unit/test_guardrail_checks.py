"""The checks of guardrails: what each finds, what it refuses at the door, and what it costs."""

import dataclasses
import math
from decimal import Decimal
from time import perf_counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from agents.guardrails import custom, guardrail_check, patterns
from agents.guardrails.checks import CHECKS
from agents.guardrails.folding import bare, plain
from agents.guardrails.judging import CLEAN, Rule, judge, redacted
from agents.guardrails.subjects import BadRule, CheckFailed, Subject, Where

SOFT_HYPHEN, ZERO_WIDTH = "\u00ad", "\u200b"


def rule(check: str, *, action: str = "redact", **settings: Any) -> Rule:
    return Rule("1", "rule", "output", check, CHECKS[check].clean(settings), action)


def limited(**settings: Any) -> Any:
    check = CHECKS["threshold"]
    return check.finder(check.clean({"path": "amount", "limit": "100", **settings}))


def over(find: Any, **typed: Any) -> bool:
    return bool(find(Subject(Where.TOOL_CALL, typed=typed)))


# ── Words ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("G1")
@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("a bad word", "a [WORD] word"),
        ("BAD. Bad!", "[WORD]. [WORD]!"),
        ("badly, unbad", "badly, unbad"),
        (f"b{ZERO_WIDTH}a{SOFT_HYPHEN}d", "[WORD]"),
        ("b\u0430d", "[WORD]"),  # a Cyrillic a
        ("ｂａｄ \U0001d41b\U0001d41a\U0001d41d", "[WORD] [WORD]"),  # full width, bold
        ("báď", "[WORD]"),
        ("wire   transfer", "[WORD]"),
        ("wire\n\u00a0transfers", "wire\n\u00a0transfers"),
        ("C++ and C", "[WORD] and C"),
        ("这是秘密文件", "这是[WORD]文件"),
        ("the café", "the [WORD]"),
        ("the cafe\u0301s", "the cafe\u0301s"),
    ],
)
def test_words_are_found_as_a_reader_sees_them(text: str, left: str) -> None:
    found = rule("words", words=["bad", "wire transfer", "C++", "秘密", "Cafe"])
    assert redacted(found, text) == left


def test_parts_of_words_count_when_the_rule_says_so() -> None:
    assert redacted(rule("words", words=["bad"], whole_words=False), "unbadly") == "un[WORD]ly"


def test_the_longer_of_two_words_that_begin_alike_is_found() -> None:
    found = rule("words", words=["a", "ab", "abcd", "abce"])
    assert redacted(found, "a ab abc abcd abce") == "[WORD] [WORD] abc [WORD] [WORD]"


@given(
    st.lists(st.from_regex(r"\A[a-z]{1,6}\Z"), min_size=1, max_size=20, unique=True),
    st.lists(st.from_regex(r"\A[a-z]{1,6}\Z"), max_size=20),
)
def test_exactly_the_listed_words_are_found(words: list[str], text: list[str]) -> None:
    left = redacted(rule("words", words=words), " ".join(text))
    assert left == " ".join("[WORD]" if word in words else word for word in text)


@given(st.text(max_size=60))
def test_a_folded_text_leads_back_to_the_original(text: str) -> None:
    for folded in (plain(text), bare(text)):
        spans = [folded.original(at, at + 1) for at in range(len(folded.text))]
        assert all(0 <= start < end <= len(text) for start, end in spans)
        assert spans == sorted(spans)


def test_a_long_list_of_words_is_looked_for_quickly() -> None:
    find = rule("words", words=[f"word{number}" for number in range(1000)]).find
    began = perf_counter()
    assert not find("some wording of words " * 20_000)
    assert perf_counter() - began < 5


# ── Patterns ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("G1")
def test_a_pattern_is_found_whatever_the_encoding_and_replaced_by_its_label() -> None:
    found = rule("pattern", pattern=r"\b[A-Z]{2}-\d{4}\b", label="ticket")
    assert redacted(found, "see AB-1234, ab-１２３４ or AB-12345") == (
        "see [TICKET], [TICKET] or AB-12345"
    )


@pytest.mark.promise("G2")
def test_a_pattern_that_takes_too_long_could_not_be_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(patterns, "TIMEOUT_S", 0.05)
    find = patterns.finder({"pattern": r"(.*?,){20}P", "ignore_case": False, "label": "x"})
    began = perf_counter()
    with pytest.raises(CheckFailed):
        find("1," * 60)
    assert perf_counter() - began < 10


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("(", "position"),
        ("a*", "empty text"),
        ("x" * 501, "500"),
        (r"(.*?,){20}P", "too long"),
    ],
)
def test_a_pattern_that_cannot_be_used_is_refused_at_the_door(pattern: str, says: str) -> None:
    with pytest.raises(BadRule, match=says):
        rule("pattern", pattern=pattern)


def test_a_label_is_a_plain_word() -> None:
    with pytest.raises(BadRule, match="label"):
        rule("pattern", pattern="x", label="Not a word]")


# ── Personal data ────────────────────────────────────────────────────────────────────────────────

ALL = {"kinds": ["email", "phone", "card", "iban"], "countries": ["us", "de", "se", "es"]}


@pytest.mark.promise("G1")
@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("ana@example.com, o'neil+x@mail.example.co.uk.", "[EMAIL], [EMAIL]."),
        ("not an@address or @name", "not an@address or @name"),
        ("a\u200bna@example.com", "[EMAIL]"),
        ("+49 30 1234567 or (555) 123-4567", "[PHONE] or [PHONE]"),
        ("06 12 34 56 78, 030 1234567", "[PHONE], [PHONE]"),
        ("2026-11-30 12:30, order 12345, 3.14159", "2026-11-30 12:30, order 12345, 3.14159"),
        ("card 4111 1111 1111 1111", "card [CARD]"),
        ("4111-1111-1111-1111 2", "[CARD] 2"),
        ("7 4111111111111111x", "7 [CARD]x"),
        ("4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1", "[CARD]"),
        ("4111 1111 1111 1112", "4111 1111 1111 1112"),
        ("378282246310005 and 5555555555554444", "[CARD] and [CARD]"),
        ("DE89 3704 0044 0532 0130 00 please", "[IBAN] please"),
        ("gb82west12345698765432", "[IBAN]"),
        ("DE89 3704 0044 0532 0130 01", "DE89 3704 0044 0532 0130 01"),
        ("ssn 536-90-4399", "ssn [NATIONAL_ID]"),
        ("36 574 261 809, 880320-0016, 54362315-K", "[NATIONAL_ID], [NATIONAL_ID], [NATIONAL_ID]"),
        ("４１１１ １１１１ １１１１ １１１１", "[CARD]"),
        ("٤١١١١١١١١١١١١١١١", "[CARD]"),
    ],
)
def test_personal_data_is_found_by_shape_and_check_digits(text: str, left: str) -> None:
    assert redacted(rule("personal_data", **ALL), text) == left


@given(st.from_regex(r"\A[45][0-9]{14}\Z"), st.sampled_from(["", " ", "-"]))
def test_a_card_number_is_found_with_any_separator(digits: str, separator: str) -> None:
    odd = sum(int(digit) for digit in digits[1::2])
    even = sum(sum(divmod(2 * int(digit), 10)) for digit in digits[::2])
    number = digits + str(-(odd + even) % 10)
    if number[0] == "5" and number[1] not in "12345":
        return
    written = separator.join(number[at : at + 4] for at in range(0, 16, 4))
    found = rule("personal_data", kinds=["card"])
    assert redacted(found, f"pay by {written}.") == "pay by [CARD]."
    wrong = f"{written[:-1]}{(int(number[-1]) + 1) % 10}"
    assert redacted(found, f"pay by {wrong}.") == f"pay by {wrong}."


def test_only_the_chosen_kinds_are_found() -> None:
    assert redacted(rule("personal_data", kinds=["iban"]), "ana@example.com") == "ana@example.com"
    with pytest.raises(BadRule):
        rule("personal_data", kinds=[], countries=[])


@pytest.mark.parametrize("part", ["1 ", "4111 ", "DE11 ", "a.b@", "+1 ", "055-", "0 1 "])
def test_a_hostile_text_of_the_longest_kind_is_searched_in_seconds(part: str) -> None:
    began = perf_counter()
    rule("personal_data", **ALL).find(part * (500_000 // len(part)))
    assert perf_counter() - began < 20


def test_arguments_are_redacted_wherever_they_are() -> None:
    found = rule("personal_data", kinds=["email", "card"])
    value = {
        "to": ["ana@example.com", {"cc": "bo@example.com"}],
        "card": 4111111111111111,
        "ok": True,
        "n": 1.5,
        "ana@example.com": None,
    }
    assert redacted(found, value) == {
        "to": ["[EMAIL]", {"cc": "[EMAIL]"}],
        "card": "[CARD]",
        "ok": True,
        "n": 1.5,
        "[EMAIL]": None,
    }


# ── Thresholds ───────────────────────────────────────────────────────────────────────────────────


class Line(BaseModel):
    price: Decimal


@dataclasses.dataclass
class Order:
    lines: list[Line]


@pytest.mark.promise("G2")
@pytest.mark.parametrize("value", [100, 99.99, Decimal("100.00"), 0, -5, Decimal("1E+2")])
def test_a_number_within_the_limit_passes(value: Any) -> None:
    assert not over(limited(), amount=value)


@pytest.mark.promise("G2")
@pytest.mark.parametrize(
    "value",
    [
        *(100.01, 101, Decimal("100.0000000000000000001"), 10**400),
        *("50", "", None, True, False, [50], {"x": 50}, 1j, b"1"),
        *(math.nan, math.inf, -math.inf, Decimal("NaN"), Decimal("-Infinity")),
    ],
)
def test_what_cannot_be_shown_to_be_within_the_limit_is_over_it(value: Any) -> None:
    assert over(limited(), amount=value)


@pytest.mark.promise("G2")
def test_a_missing_value_is_over_the_limit() -> None:
    assert over(limited())
    assert over(limited(path="order.total"), order={})
    assert over(limited(path="order.total"), order=7)
    assert over(limited(path="items.*"), items=[])
    assert over(limited(path="items.3"), items=[1])


@pytest.mark.parametrize(
    ("must_be", "within", "not_within"),
    [
        ("at_most", "100", "100.01"),
        ("less_than", "99.99", "100"),
        ("at_least", "100", "99.99"),
        ("more_than", "100.01", "100"),
    ],
)
def test_the_limit_itself_belongs_to_one_side(must_be: str, within: str, not_within: str) -> None:
    find = limited(must_be=must_be)
    assert not over(find, amount=Decimal(within))
    assert over(find, amount=Decimal(not_within))


def test_a_path_leads_into_lists_models_and_dataclasses() -> None:
    find = limited(path="order.lines.*.price")
    cheap, dear = Line(price=Decimal(1)), Line(price=Decimal(101))
    assert not over(find, order=Order([cheap, cheap]))
    assert over(find, order=Order([cheap, dear]))
    assert not over(limited(path="a.0.b"), a=[{"b": 1}])


@given(st.decimals(allow_nan=False, allow_infinity=False, places=4, max_value=10**12))
def test_the_comparison_is_exact(value: Decimal) -> None:
    assert over(limited(limit="99.9999"), amount=value) == (value > Decimal("99.9999"))


@pytest.mark.parametrize(
    "settings",
    [
        {"path": "a b"},
        {"path": ""},
        {"limit": "many"},
        {"limit": 1.5},
        {"limit": True},
        {"limit": "NaN"},
        {"must_be": "about"},
        {"more": 1},
    ],
)
def test_a_threshold_that_makes_no_sense_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(BadRule):
        limited(**settings)


# ── Custom checks, and judging ───────────────────────────────────────────────────────────────────


@pytest.fixture
def checks() -> Any:
    before = dict(custom._checks)
    yield custom._checks
    custom._checks.clear()
    custom._checks.update(before)


@pytest.mark.promise("G2")
@pytest.mark.parametrize(
    ("said", "kinds"),
    [
        (True, ("custom",)),
        (False, None),
        ([], None),
        (["rival", "rival"], ("rival",)),
        (None, ("check_failed",)),
        (1, ("check_failed",)),
        ("rival", ("check_failed",)),
        (["Ana Ferreira"], ("check_failed",)),
    ],
)
def test_a_custom_check_says_yes_or_no_and_nonsense_counts_as_broken(
    checks: Any, said: Any, kinds: Any
) -> None:
    guardrail_check("mine")(lambda subject: said)
    verdict = judge(
        [rule("custom", action="block", function="mine")], Subject(Where.OUTPUT)
    ).verdict
    assert (verdict and verdict.kinds) == kinds


@pytest.mark.promise("G2")
def test_a_check_that_is_gone_or_cannot_redact_closes(checks: Any) -> None:
    guardrail_check("mine")(lambda subject: False)
    found = rule("custom", action="block", function="mine")
    checks.clear()
    verdict = judge([found], Subject(Where.OUTPUT, text="x")).verdict
    assert verdict is not None
    assert verdict.kinds == ("check_failed",)
    broken = Rule("1", "rule", "output", "pattern", {}, "redact")
    verdict = judge([broken], Subject(Where.OUTPUT, text="x")).verdict
    assert verdict is not None
    assert verdict.action == "block"


@pytest.mark.parametrize("function", [None, lambda: True, lambda a, b: True])
def test_a_function_that_takes_no_subject_is_refused(checks: Any, function: Any) -> None:
    with pytest.raises(BadRule):
        guardrail_check("mine")(function)


def test_a_check_needs_a_plain_name(checks: Any) -> None:
    with pytest.raises(BadRule):
        guardrail_check("my check")


@pytest.mark.promise("G2")
@given(st.permutations(range(4)), st.sets(st.integers(0, 3)))
def test_the_first_broken_rule_decides_and_shadows_before_it_are_told(
    order: list[int], shadows: set[int]
) -> None:
    found = CHECKS["words"].clean({"words": ["bad"]})
    rules = [
        Rule(str(n), str(n), "output", "words", found, "block", shadow=n in shadows) for n in order
    ]
    judgement = judge(rules, Subject(Where.OUTPUT, text="bad"))
    deciding = [str(n) for n in order if n not in shadows]
    assert (judgement.verdict and judgement.verdict.rule) == (deciding[0] if deciding else None)
    passed = order[: order.index(int(deciding[0]))] if deciding else order
    assert [verdict.rule for verdict in judgement.shadows] == [str(n) for n in passed]


def test_a_rule_looks_only_where_and_at_whom_it_is_for() -> None:
    found = CHECKS["words"].clean({"words": ["bad"]})
    only = Rule("1", "r", "tool_call", "words", found, "block", frozenset("a"), frozenset("t"))
    hit = Subject(Where.TOOL_CALL, "a", tool="t", arguments={"x": ["bad"]})
    assert judge([only], hit).verdict is not None
    for change in ({"agent": "b"}, {"tool": "u"}, {"where": Where.OUTPUT, "text": "bad"}):
        assert judge([only], dataclasses.replace(hit, **change)) is CLEAN
