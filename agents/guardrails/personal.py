"""The check for personal data. Pure; needs no model and no network.

A shape finds candidates, and where a kind has check digits they decide (python-stdnum). Digits may
be full-width or have spaces, dots and hyphens between them. What has no shape of its own, such as a
name or a street, is not found.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib import import_module
from itertools import accumulate
from typing import Any

from stdnum import iban, luhn
from stdnum.exceptions import ValidationError

from agents.guardrails.folding import plain
from agents.guardrails.settings import chosen, known
from agents.guardrails.subjects import BadRule, Finding

KINDS = {
    "email": "E-mail addresses",
    "phone": "Telephone numbers",
    "card": "Payment card numbers (with a valid check digit)",
    "iban": "Bank accounts, IBAN (with valid check digits)",
}

_EMAIL = re.compile(
    r"(?<![\w.+-])[\w.+%'-]{1,64}@[^\W_][\w-]{0,62}(?:\.[^\W_][\w-]{0,62}){1,8}(?![\w@])"
)
_PHONE = re.compile(
    r"""(?<![\w.,+-])(?<!\d[ /])(?:
        (?:\+|00)[1-9](?:[ ()./-]{0,2}\d){6,13}                # +49 30 1234567
      | \(?[2-9]\d{2}\)?[ .-]\d{3}[ .-]\d{4}                   # (555) 123-4567
      | \(?0[1-9]\d{1,4}\)?[ /-]\d{2,}(?:[ -]?\d{2,}){1,4}     # 030 1234567, 06 12 34 56 78
      | 0[1-9](?:[ .-]\d{2}){4}
    )(?![\w-])""",
    re.VERBOSE,
)
_DIGITS = re.compile(r"(?<!\d)\d(?:[ .-]{0,2}\d)*(?!\d)")
_GROUP = re.compile(r"\d+")
_CARD = re.compile(
    r"4(?:\d{12}|\d{15}|\d{18})|(?:5[1-5]|2[2-7])\d{14}|3[47]\d{13}|3(?:0|6|8)\d{12}"
    r"|(?:6\d|35|81)\d{14,17}|5[06-8]\d{11,17}"
)
CARD_DIGITS_MIN, CARD_DIGITS_MAX = 13, 19
_IBAN = re.compile(r"(?<![a-zA-Z0-9])[a-zA-Z]{2}\d{2}(?=[ -]?[a-zA-Z0-9])")
# By country, with the two check digits: as the registry of SWIFT lists them.
_IBAN_CHARS = {
    country: length
    for length, countries in {
        **{15: "NO", 16: "BE", 18: "DK FO FI GL NL SD", 19: "MK SI"},
        **{20: "AT BA EE KZ LT LU XK MN", 21: "CH HR LI LV", 22: "BG BH CR DE GB GE IE ME RS VA"},
        **{23: "AE GI IL IQ OM SO TL", 24: "AD CZ ES MD PK RO SA SE SK TN VG"},
        **{25: "LY PT ST", 26: "IS TR", 27: "BI DJ FR GR IT MC MR SM", 28: "AL AZ BY CY DO"},
        **{29: "BR EG PS QA UA", 30: "JO KW MU YE", 31: "MT SC", 32: "LC NI", 33: "RU"},
    }.items()
    for country in countries.split()
} | dict.fromkeys("GT HU LB PL SV".split(), 28)

_NATIONAL = {
    "ar": ("Argentina, DNI", "ar.dni", r"\d{2}\.\d{3}\.\d{3}"),
    "be": ("Belgium, national number", "be.nn", r"\d{2}[. ]?\d{2}[. ]?\d{2}[- ]?\d{3}[. ]?\d{2}"),
    "bg": ("Bulgaria, EGN", "bg.egn", r"\d{6} ?\d{3} ?\d"),
    "br": ("Brazil, CPF", "br.cpf", r"\d{3}\.?\d{3}\.?\d{3}-?\d{2}"),
    "ca": ("Canada, SIN", "ca.sin", r"\d{3}[- ]?\d{3}[- ]?\d{3}"),
    "ch": ("Switzerland, AHV number", "ch.ssn", r"756\.?\d{4}\.?\d{4}\.?\d{2}"),
    "cn": ("China, resident identity number", "cn.ric", r"\d{17}[\dXx]"),
    "cz": ("Czechia and Slovakia, birth number", "cz.rc", r"\d{6}/?\d{3,4}"),
    "de": ("Germany, tax identification number", "de.idnr", r"\d{2} ?\d{3} ?\d{3} ?\d{3}"),
    "dk": ("Denmark, CPR", "dk.cpr", r"\d{6}-?\d{4}"),
    "ee": ("Estonia, personal code", "ee.ik", r"[1-8]\d{10}"),
    "es": ("Spain, DNI", "es.dni", r"\d{8}[- ]?[A-Za-z]"),
    "es_nie": ("Spain, NIE", "es.nie", r"[XYZxyz][- ]?\d{7}[- ]?[A-Za-z]"),
    "fi": ("Finland, personal identity code", "fi.hetu", r"\d{6}[-+A-Fa-fU-Yu-y]\d{3}[\dA-Za-z]"),
    "fr": (
        "France, NIR",
        "fr.nir",
        r"[12] ?\d{2} ?\d{2} ?\d[\dABab] ?\d{3} ?\d{3} ?\d{2}",
    ),
    "gb": ("United Kingdom, NHS number", "gb.nhs", r"\d{3}[- ]?\d{3}[- ]?\d{4}"),
    "hr": ("Croatia, OIB", "hr.oib", r"\d{11}"),
    "ie": ("Ireland, PPS number", "ie.pps", r"\d{7}[A-Wa-w][A-IWa-iw]?"),
    "il": ("Israel, identity number", "il.idnr", r"\d{8}-?\d"),
    "in": ("India, Aadhaar", "in_.aadhaar", r"[2-9]\d{3} ?\d{4} ?\d{4}"),
    "it": (
        "Italy, codice fiscale",
        "it.codicefiscale",
        r"[A-Za-z]{6}\d{2}[A-Za-z]\d{2}[A-Za-z]\d{3}[A-Za-z]",
    ),
    "kr": ("South Korea, RRN", "kr.rrn", r"\d{6}-?\d{7}"),
    "lt": ("Lithuania, personal code", "lt.asmens", r"[1-6]\d{10}"),
    "mx": ("Mexico, CURP", "mx.curp", r"[A-Za-z]{4}\d{6}[A-Za-z]{6}[A-Za-z\d]\d"),
    "nl": ("Netherlands, BSN", "nl.bsn", r"\d{4}\.?\d{2}\.?\d{3}"),
    "no": ("Norway, birth number", "no.fodselsnummer", r"\d{6} ?\d{5}"),
    "pl": ("Poland, PESEL", "pl.pesel", r"\d{11}"),
    "ro": ("Romania, CNP", "ro.cnp", r"[1-9]\d{12}"),
    "se": ("Sweden, personal identity number", "se.personnummer", r"(?:\d{2})?\d{6}[-+]\d{4}"),
    "tr": ("Turkey, T.C. number", "tr.tckimlik", r"[1-9]\d{10}"),
    "us": ("United States, SSN", "us.ssn", r"\d{3}-\d{2}-\d{4}"),
    "za": ("South Africa, ID number", "za.idnr", r"\d{6} ?\d{4} ?\d{2} ?\d"),
}
COUNTRIES = {code: label for code, (label, _, _) in _NATIONAL.items()}
NATIONAL_ID = "national_id"


def clean(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings as they are kept: `kinds`, and `countries` whose ids are looked for."""
    known(settings, "kinds", "countries")
    kinds = chosen(settings, "kinds", KINDS)
    countries = chosen(settings, "countries", COUNTRIES)
    if not kinds and not countries:
        raise BadRule("kinds: choose one at least, or a country whose ids are looked for.")
    return {"kinds": kinds, "countries": countries}


def finder(settings: dict[str, Any]) -> Callable[[str], Sequence[Finding]]:
    """Return what finds these kinds in a text; what two kinds claim is the first one's."""
    finders = [_FINDERS[kind] for kind in KINDS if kind in settings["kinds"]]
    ids = [_national(country) for country in settings["countries"]]
    # Whatever has check digits goes before the telephone numbers, which are anything.
    ordered = sorted([*finders, *ids], key=lambda find: find is _phones)

    def find(text: str) -> list[Finding]:
        seen = plain(text)
        found: list[Finding] = []
        taken = bytearray(len(seen.text))
        for look in ordered:
            for kind, start, end in look(seen.text):
                if not any(taken[start:end]):
                    taken[start:end] = b"\1" * (end - start)
                    found.append(Finding(kind, *seen.original(start, end)))
        return sorted(found, key=lambda finding: finding.start)

    return find


Span = tuple[str, int, int]


def _emails(text: str) -> Iterator[Span]:
    if "@" in text:
        yield from (("email", *match.span()) for match in _EMAIL.finditer(text))


def _phones(text: str) -> Iterator[Span]:
    for match in _PHONE.finditer(text):
        if 7 <= sum(char.isdigit() for char in match[0]) <= 15:
            yield "phone", *match.span()


def _cards(text: str) -> Iterator[Span]:
    """Yield card numbers: whole groups of digits, the longest from each on that is one."""
    for run in _DIGITS.finditer(text):
        groups = list(_GROUP.finditer(text, *run.span()))
        first = 0
        while first < len(groups):
            size = _card_groups([group[0] for group in groups[first : first + CARD_DIGITS_MAX]])
            if size:
                yield "card", groups[first].start(), groups[first + size - 1].end()
            first += size or 1


def _card_groups(groups: list[str]) -> int:
    """Return how many of these groups, from the first on, are one card number; 0 if none are."""
    lengths = list(accumulate(map(len, groups)))
    for size in range(len(groups), 0, -1):
        if CARD_DIGITS_MIN <= lengths[size - 1] <= CARD_DIGITS_MAX:
            number = "".join(groups[:size])
            if _CARD.fullmatch(number) and luhn.is_valid(number):
                return size
    return 0


def _ibans(text: str) -> Iterator[Span]:
    for match in _IBAN.finditer(text):
        length = _IBAN_CHARS.get(match[0][:2].upper())
        if length is None:
            continue
        number, end = "", match.start()
        for end in range(match.start(), min(len(text), match.start() + 2 * length)):
            char = text[end]
            if char.isascii() and char.isalnum():
                number += char
            elif char not in " -":
                break
            if len(number) == length:
                break
        ends_here = not text[end + 1 : end + 2].isalnum()
        if len(number) == length and ends_here and iban.is_valid(number):
            yield "iban", match.start(), end + 1


_FINDERS: dict[str, Callable[[str], Iterator[Span]]] = {
    "email": _emails,
    "phone": _phones,
    "card": _cards,
    "iban": _ibans,
}


@cache
def _national(country: str) -> Callable[[str], Iterator[Span]]:
    _, module, shape = _NATIONAL[country]
    pattern = re.compile(rf"(?<!\w)(?:{shape})(?!\w)", re.ASCII)
    validate = import_module(f"stdnum.{module}").validate

    def look(text: str) -> Iterator[Span]:
        for match in pattern.finditer(text):
            try:
                validate(match[0])
            except ValidationError:
                continue
            yield NATIONAL_ID, *match.span()

    return look
