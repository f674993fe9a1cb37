"""Numbers as locales write them: `33,554,432` and `71.50`, or `33.554.432` and `71,50`; spaces may separate groups."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

DecimalMark = Literal[".", ","]

_SPACES = str.maketrans("", "", "\u00a0\u202f\u2009'\u2019")  # group separators that are neither mark
_EXPONENT = r"(e[-+]?\d+)?"
_PLAIN = {
    ".": re.compile(rf"[-+]?([\d,]*\.?\d+{_EXPONENT}|nan|inf)", re.IGNORECASE),
    ",": re.compile(rf"[-+]?([\d.]*,?\d+{_EXPONENT}|nan|inf)", re.IGNORECASE),
}


def decimal_mark(texts: Iterable[str]) -> DecimalMark:
    """Returns the decimal mark of numbers written in one locale; a dot if no number decides.

    Three digits behind a mark may be a group or decimals; any other number of digits, or two marks, decide. Raises
    ValueError if numbers decide for both marks, or one has a dot before three digits and none decides.
    """
    told: dict[DecimalMark, str] = {}
    unsure = ""
    for text in texts:
        number = text.translate(_SPACES)
        for mark in (found for found in _marks() if _tells(number, found)):
            told.setdefault(mark, text)
        if re.fullmatch(r"[-+]?\d{1,3}\.\d{3}", number):
            unsure = unsure or text
    if len(told) > 1:
        raise ValueError(f"its numbers are of two locales: {told['.']} and {told[',']}")
    if unsure and not told:
        raise ValueError(f"its numbers do not tell whether {unsure} is more than a thousand")
    return next(iter(told), ".")


def _marks() -> tuple[DecimalMark, DecimalMark]:
    return ".", ","


def _tells(number: str, mark: DecimalMark) -> bool:
    """Whether a number can be read with this decimal mark only."""
    decimals, groups = re.escape(mark), re.escape("," if mark == "." else ".")
    grouped = rf"\d{{1,3}}({groups}\d{{3}})"
    patterns = (
        rf"\d*{decimals}(\d{{1,2}}|\d{{4,}}){_EXPONENT}",  # 71.50
        rf"{grouped}+{decimals}\d+{_EXPONENT}",  # 1,024.5
        rf"{grouped}{{2,}}",  # 33,554,432
        rf"\d{{4,}}{decimals}\d+{_EXPONENT}",  # 1024.125
        rf"0{decimals}\d+{_EXPONENT}",  # 0.125
    )
    return any(re.fullmatch(rf"[-+]?{pattern}", number, re.IGNORECASE) for pattern in patterns)


def parse_number(text: str, mark: DecimalMark) -> float | None:
    """Returns the number that a text is with this decimal mark, or None if it is not a number."""
    number = text.translate(_SPACES)
    if not _PLAIN[mark].fullmatch(number):
        return None
    groups = "," if mark == "." else "."
    return float(number.replace(groups, "").replace(mark, "."))
