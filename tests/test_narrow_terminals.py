"""Tables in terminals of any width: no number is cut, no name is broken into pieces, no line is too long."""

import pytest
from committed import PROFILES, RESULTS

VERBS = {
    "show": ("show", "main", "--out", RESULTS),
    "show clocks": ("show", "clocks", "--out", RESULTS),
    "show a sweep": ("show", "sweep-bv", "--out", RESULTS),
    "compare": ("compare", "main", "20261122-024054", "--out", RESULTS),
    "compare published": ("compare", "main", "published/b200", "--out", RESULTS),
    "history": ("history", "decode-v4", "--gpu", "h200", "--out", RESULTS),
    "inspect": ("inspect", "decode-v[12]*", "--arch", "sm_90", "-q"),
    "inspect one": ("inspect", "decode-v4", "--arch", "sm_90", "-q"),
    "runs": ("runs", "--out", RESULTS),
    "list": ("list", "--out", RESULTS),
    "ncu": ("ncu", "--import", *sorted(PROFILES.glob("ncu/*/*.csv"))),
    "phases": ("proton", "--import", *sorted(PROFILES.glob("phases/decode-v4/*.npz"))),
    "proton": ("proton", "--import", *sorted(PROFILES.glob("proton/*/*.json"))),
    "cache": ("runs", "cache"),
    "lint": ("lint", "decode-v9", "decode-triton"),
    "lint rules": ("lint", "--rules"),
    "dry run": ("run", "--kernel", "all", "--gpu", "cpu", "--dry-run", "--quick"),
    "dry sweep": ("sweep", "decode-v4", "--gpu", "cpu", "--dry-run"),
}
LONG_LINES = ("next:", "stored in", "report:", "trace:", "/", "stored", "  trace")  # to be copied, whole
CUTS = {"list"}  # ideas, which `list NAME` has whole


@pytest.mark.parametrize("width", [44, 60, 76, 100])
@pytest.mark.parametrize("verb", VERBS)
def test_a_table_fits_and_cuts_nothing(command_line, verb, width):
    code, out, err = command_line(*VERBS[verb], columns=str(width))
    assert code == 0, err
    lines = [line for line in out.splitlines() if not line.startswith(LONG_LINES)]
    assert max(map(len, lines)) <= width
    if verb not in CUTS:
        assert "…" not in "".join(line for line in lines if not line.startswith("… and"))


@pytest.mark.parametrize("width", [60, 76])
@pytest.mark.parametrize("verb", ["show", "compare", "inspect", "list", "history"])
def test_names_are_whole(command_line, verb, width):
    _, out, _ = command_line(*VERBS[verb], columns=str(width))
    first = {line.split()[0] for line in out.splitlines() if line.strip()}
    expected = {
        "show": {"decode-fla", "decode-floor-empty", "decode-fla-unfused"},
        "compare": {"decode-fla", "decode-flashinfer", "decode-v4"},
        "inspect": {"decode-v1", "decode-v1d", "decode-v2b"},
        "list": {"decode-auto", "decode-floor-empty"},
        "history": {"20261121-185458", "20261122-024054"},
    }
    assert expected[verb] <= first


def test_a_long_name_is_broken_between_its_parts(command_line):
    _, out, _ = command_line("show", "20261124-181737", "--out", RESULTS)
    first = {line.split()[0] for line in out.splitlines() if line.strip()}
    assert {"nvfp4-grouped-gemm-", "floor-empty", "upcast", "reference"} <= first


def test_what_had_no_room_is_told(command_line):
    assert "no room here for MHz, GB/s, of bound" in " ".join(command_line(*VERBS["show"], columns="60")[1].split())
    assert "no room here" not in command_line(*VERBS["show"], columns="80")[1]
