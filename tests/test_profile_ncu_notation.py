"""ncu's pages in the locales of their writers: one page is read alike in each of them, or refused."""

import json
from pathlib import Path

import pytest

from gdnbench.errors import ExitCode, ReportFormatError
from gdnbench.profile.ncu.raw_page import decimal_mark, parse_number, parse_page

# Marks between groups of three digits and before decimals, as locales have them.
LOCALES = {
    "C": ("", "."),
    "en_US": (",", "."),
    "de_DE": (".", ","),
    "fr_FR": ("\u202f", ","),
    "cs_CZ": ("\u00a0", ","),
    "de_CH": ("\u2019", "."),
    "pl_PL without groups": ("", ","),
}
NUMBERS = (0.0, 0.25, 6.7, 32.0, 71.5, 128.125, 1024.0, 12608.0, 12608.5, 33_554_432.0, 1_234_567.875)
HEADS = (
    "ID", "Process ID", "Process Name", "Kernel Name", "Block Size", "Grid Size", "CC",
    "dram__bytes.sum", "gpu__time_duration.sum", "launch__grid_size", "launch__registers_per_thread",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
)  # fmt: skip
UNITS = ("",) * 7 + ("byte", "ns", "", "register/thread", "%")


def written(number, locale, decimals=None):
    groups, mark = LOCALES[locale]
    places = (0 if number == int(number) else 3) if decimals is None else decimals
    return f"{number:,.{places}f}".replace(",", "G").replace(".", mark).replace("G", groups)


def page_of(locale, occupancy=6.7, heads=HEADS):
    cells = (
        "0", "4711", "python", "rows_kernel", "(256, 1, 1)", f"({written(1024, locale)}, 1, 1)", "9.0",
        written(33_554_432, locale), written(12_608, locale), written(1024, locale), "32",
        written(occupancy, locale, 2),
    )  # fmt: skip
    return "\n".join(",".join(f'"{cell}"' for cell in line) for line in (heads, UNITS, cells)) + "\n"


@pytest.mark.parametrize("locale", LOCALES)
def test_numbers_are_read_as_they_were_written(locale):
    texts = [written(number, locale) for number in NUMBERS]
    mark = decimal_mark(texts)
    assert [parse_number(text, mark) for text in texts] == list(NUMBERS)


@pytest.mark.parametrize("occupancy", [6.7, 71.5, 99.99])
@pytest.mark.parametrize("locale", LOCALES)
def test_a_page_is_read_alike_in_every_locale(locale, occupancy):
    [profile] = parse_page(page_of(locale, occupancy), Path("page.csv"))
    found = {name: profile.number(name) for name in HEADS[7:]}
    assert list(found.values()) == [33_554_432, 12_608, 1024, 32, occupancy]


@pytest.mark.parametrize("texts", [("12.608", "32"), ("1.024",)])
def test_numbers_that_do_not_tell_are_refused(texts):
    with pytest.raises(ValueError, match="do not tell"):
        decimal_mark(texts)


@pytest.mark.parametrize("texts", [("71.50", "71,50"), ("33,554,432", "33.554.432"), ("1,024.5", "0,25")])
def test_numbers_of_two_locales_are_refused(texts):
    with pytest.raises(ValueError, match="two locales"):
        decimal_mark(texts)


def test_numbers_without_marks_are_read_with_a_dot():
    assert decimal_mark(["32", "nan", "", "PolicySpread", "1e9"]) == "."


DETAILS = """==PROF== Connected to process 4711
"ID","Process ID","Process Name","Kernel Name","CC","Section Name","Metric Name","Metric Unit","Metric Value"
"0","4711","python","rows_kernel","9.0","Speed","gpu__time_duration.sum","us","12.61"
"0","4711","python","rows_kernel","9.0","Speed","launch__registers_per_thread","register/thread","32"
"""


def test_the_details_page_is_refused_with_the_command_for_the_raw_one():
    with pytest.raises(ReportFormatError, match="details page") as raised:
        parse_page(DETAILS, Path("page.csv"))
    assert "--page raw" in raised.value.hint


def test_what_is_imported_is_refused_or_read(command_line, tmp_path):
    details, german = tmp_path / "details.csv", tmp_path / "german.csv"
    details.write_text(DETAILS)
    german.write_text(page_of("de_DE"))
    code, out, err = command_line("ncu", "--import", details)
    assert (code, out) == (ExitCode.PROFILER, "")
    assert "raw page" in err
    code, out, _ = command_line("ncu", "--import", german, "--json")
    [profile] = json.loads(out)
    assert code == 0
    assert profile["quantities"]["occupancy_pct"] == 6.7
