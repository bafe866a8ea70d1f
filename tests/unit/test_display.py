"""Text made fit for a person's eyes."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hitl import display, values

pytestmark = pytest.mark.promise("U5")

ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Pay 100\u202e€", "Pay 100⟨U+202E⟩€"),
        ("\x1b[31mred", "⟨U+001B⟩[31mred"),
        ("a\rb\x00\x7f\x85", "a⟨U+000D⟩b⟨U+0000⟩⟨U+007F⟩⟨U+0085⟩"),
        ("zero\u200bwidth\ufeff\u2060", "zero⟨U+200B⟩width⟨U+FEFF⟩⟨U+2060⟩"),
        ("line\u2028and\u2029page", "line⟨U+2028⟩and⟨U+2029⟩page"),
        ("\ud800", "⟨U+D800⟩"),
        ("tag\U000e0041", "tag⟨U+E0041⟩"),
        ("filler\u3164\u115f\u2800", "filler⟨U+3164⟩⟨U+115F⟩⟨U+2800⟩"),
        ("a\ufe0f", "a⟨U+FE0F⟩"),
        ("\u2800\ufe0f", "⟨U+2800⟩⟨U+FE0F⟩"),
        ("❤️", "❤️"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("Grüße, 日本語, שלום, é", "Grüße, 日本語, שלום, é"),
        ("</script><b>{{7*7}}", "</script><b>{{7*7}}"),
    ],
)
def test_what_hides_is_spelled_out_and_the_rest_stays(text: str, shown: str) -> None:
    """Field report ADM-01."""
    assert display.visible(text) == shown


@given(ANY_TEXT)
def test_nothing_that_controls_a_screen_is_left(text: str) -> None:
    shown = display.visible(text)
    left = {unicodedata.category(char) for char in shown if char not in "\n\t"}
    assert not left & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    assert display.visible(shown) == shown


@given(st.text(alphabet=st.characters(min_codepoint=0x20, max_codepoint=0x7E)))
def test_plain_text_is_untouched(text: str) -> None:
    assert display.visible(text) == text


def test_pretty_json_is_in_full_readable_and_harmless() -> None:
    shown = display.pretty({"note": "Grüße\u202e\x1b", "lines": "a\nb", "n": 9007199254740993})
    assert shown.splitlines() == [
        "{",
        '  "note": "Grüße⟨U+202E⟩\\u001b",',
        '  "lines": "a\\nb",',
        '  "n": 9007199254740993',
        "}",
    ]


def test_pretty_json_does_not_shorten() -> None:
    assert "x" * 1_000_000 in display.pretty({"text": "x" * 1_000_000})


@given(st.recursive(st.none() | st.floats() | ANY_TEXT, st.lists, max_leaves=10))
def test_whatever_was_stored_can_be_shown(value: object) -> None:
    assert display.pretty(values.clean(value))


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ("", "none"),
        ("a", "a"),
        ("ba", "a and b"),
        ("bca", "a, b and c"),
        ("bdca", "a, b, c … and 1 more"),
        ("bdcafe", "a, b, c … and 3 more"),
    ],
)
def test_names_are_listed_up_to_so_many(names: str, said: str) -> None:
    assert display.listed(names, most=3) == said
