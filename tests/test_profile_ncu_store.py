"""Profiles on disk: every digit and every text survives, and damage is told."""

import csv
import io
import math
import re
from dataclasses import replace

import pytest
from decode_workloads import decode_at
from hypothesis import given
from hypothesis import strategies as st
from ncu_data import V1, V4

from gdnbench.errors import LeftOutWarning, ReportFormatError
from gdnbench.model.case import CodeState
from gdnbench.profile.ncu.quantities import LaunchProfile, Metric
from gdnbench.profile.ncu.report import read_any
from gdnbench.profile.ncu.store import COLUMNS, find_profiles, read_profiles, write_profiles

SOURCE = "0123456789abcdef"
HEADER = ",".join((*COLUMNS[:2], "B", "HQ", "HV", "K", "V", *COLUMNS[2:]))


def _profile(value, **changes):
    metrics = {"a.sum": Metric("a.sum", "byte", value, "SpeedOfLight")}
    profile = LaunchProfile("decode-v4", "decode", decode_at(B=8), "NVIDIA H200", "sm_90", "f", 0, metrics, SOURCE)
    return replace(profile, **changes)


@pytest.mark.parametrize("name", ["p.csv", "p.csv.gz"])
def test_recorded_profiles_come_back(tmp_path, name):
    profiles = read_profiles(V1)
    assert [profile.launch for profile in profiles] == [0, 1, 2]
    write_profiles(tmp_path / name, profiles)
    assert read_profiles(tmp_path / name) == profiles
    assert [path.name for path in tmp_path.iterdir()] == [name]


@given(st.floats(allow_nan=False))
def test_every_digit_survives(tmp_path_factory, value):
    path = tmp_path_factory.mktemp("store") / "p.csv"
    write_profiles(path, [_profile(value)])
    assert read_profiles(path)[0].number("a.sum") == value


def test_nan_is_not_the_same_as_absent(tmp_path):
    write_profiles(tmp_path / "p.csv", [_profile(math.nan)])
    [profile] = read_profiles(tmp_path / "p.csv")
    assert math.isnan(profile.number("a.sum"))
    assert profile.number("b.sum") is None
    assert not profile.has_all("a.sum")


def test_a_report_of_somebody_else(tmp_path):
    foreign = _profile('9,5 "x"', label="", op="", workload=None, function="void f<int, 2>(float *)")
    write_profiles(tmp_path / "p.csv", [foreign])
    assert read_profiles(tmp_path / "p.csv") == (foreign,)
    assert foreign.name == "void f<int, 2>(float *)"


def test_launches_that_could_not_be_told_apart(tmp_path):
    with pytest.raises(ValueError, match="two profiles"):
        write_profiles(tmp_path / "p.csv", [_profile(1.0), _profile(2.0)])
    assert list(tmp_path.iterdir()) == []


def test_the_table_is_tidy(tmp_path):
    write_profiles(tmp_path / "p.csv", [_profile(540416.0)])
    header, row = (tmp_path / "p.csv").read_text().splitlines()
    assert header == HEADER
    assert row == f"decode-v4,decode,8,4,8,128,128,NVIDIA H200,sm_90,{SOURCE},f,0,SpeedOfLight,a.sum,byte,540416"


def test_every_cut_through_a_file_is_told(tmp_path):
    whole = tmp_path / "whole.csv"
    write_profiles(whole, [_profile(540416.0)])
    data = whole.read_bytes()
    for length in range(len(data)):
        (tmp_path / "cut.csv").write_bytes(data[:length])
        if data[:length].decode() == HEADER + "\n":
            assert read_profiles(tmp_path / "cut.csv") == ()
            continue
        with pytest.raises(ReportFormatError):
            read_profiles(tmp_path / "cut.csv")


def test_archives_with_a_wrong_byte(tmp_path):
    data = V4.read_bytes()
    path = tmp_path / "p.csv.gz"
    for place in range(100, len(data), len(data) // 40):
        path.write_bytes(data[:place] + bytes([data[place] ^ 255]) + data[place + 1 :])
        with pytest.raises(ReportFormatError):
            read_any(path)


def _with_cell(path, column, value):
    """Writes the recorded profiles of decode-v4 with another cell in the third row of the file, line 4."""
    write_profiles(path, read_profiles(V4))
    rows = [list(row) for row in csv.reader(io.StringIO(path.read_text()))]
    rows[3][rows[0].index(column)] = value
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("B", "0", "B=0"),
        ("HV", "9" * 5000, "HV: "),
        ("V", "", "V of the workload is missing"),
        ("HV", "9", "HV=9 is no multiple of HQ=4"),
        ("source", f"{SOURCE}\n", "source: "),
        ("kernel", "decode-\x1b[31mv4", "kernel: "),
        ("metric", "", "metric"),
        ("value", "x" * 200_000, "field larger than field limit"),
    ],
)
def test_a_cell_that_cannot_be_what_it_is_is_named_with_its_line(tmp_path, column, value, said):
    _with_cell(tmp_path / "p.csv", column, value)
    with pytest.raises(ReportFormatError) as caught:
        read_profiles(tmp_path / "p.csv")
    assert f"{tmp_path / 'p.csv'} line {5 if value.endswith(chr(10)) else 4}: " in caught.value.message
    assert said in caught.value.message
    assert len(caught.value.message) < 400
    assert caught.value.hint


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        ("launch__sm_count", "0"),
        ("gpu__time_duration.sum", "-3"),
        ("gpu__time_duration.sum", "soon"),
        ("gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", "1e9"),
    ],
)
def test_a_counter_that_cannot_be_so_is_named_with_its_line(tmp_path, metric, value):
    path = tmp_path / "p.csv"
    write_profiles(path, read_profiles(V4))
    lines = path.read_text().splitlines(keepends=True)
    [number] = [n for n, line in enumerate(lines) if f",0,{line.split(',')[-4]},{metric}," in line]
    lines[number] = lines[number].rpartition(",")[0] + f",{value}\n"
    path.write_text("".join(lines))
    with pytest.raises(ReportFormatError, match=rf"p\.csv line {number + 1}: {re.escape(metric)} is "):
        read_profiles(path)


def test_a_file_of_before_there_was_a_source_is_read(tmp_path):
    write_profiles(tmp_path / "p.csv", [_profile(1.0)])
    assert read_profiles(tmp_path / "p.csv")[0].source == SOURCE
    text = (tmp_path / "p.csv").read_text()
    (tmp_path / "p.csv").write_text(text.replace("source,", "").replace(f"{SOURCE},", ""))
    assert read_profiles(tmp_path / "p.csv") == (_profile(1.0, source=""),)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda lines: [*lines, lines[-1]], "a.sum is there twice"),
        (lambda lines: [*lines, "decode-v4\n"], "1 cells, and the head has 16"),
        (lambda lines: [*lines, lines[-1].replace("\n", ",more\n")], "17 cells"),
        (lambda lines: [lines[0].replace("section", "kernel,section"), *lines[1:]], "two columns have one name"),
        (lambda lines: [*lines, '"open\n'], "unexpected end of data"),
        (lambda lines: [lines[0], "\n"], "0 cells"),
    ],
)
def test_a_table_that_is_none_is_told(tmp_path, spoil, said):
    path = tmp_path / "p.csv"
    write_profiles(path, [_profile(1.0)])
    path.write_text("".join(spoil(path.read_text().splitlines(keepends=True))))
    with pytest.raises(ReportFormatError, match=said):
        read_profiles(path)


def test_a_file_that_is_not_of_text_or_not_a_file_is_told(tmp_path):
    (tmp_path / "p.csv").write_bytes(b"kernel\xff\xfe\n")
    with pytest.raises(ReportFormatError, match=r"p\.csv cannot be read: 'utf-8'"):
        read_profiles(tmp_path / "p.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(ReportFormatError, match=r"folder\.csv: there is no such file"):
        read_profiles(tmp_path / "folder.csv")


def _store(profiles, day, **changes):
    folder = profiles / "ncu" / "decode-v4"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"202611{day:02}-030405-h200-B8-qk4_v8.csv"
    write_profiles(path, [_profile(1.0, **changes)])
    return path


def _find(profiles, source=SOURCE):
    return find_profiles(profiles, "decode-v4", decode_at(B=8), source=source)


def test_the_newest_profile_of_the_code_is_found_before_a_newer_one_of_other_code(tmp_path):
    own, other = _store(tmp_path, 2), _store(tmp_path, 3, source="f" * 16)
    assert (_find(tmp_path).path, _find(tmp_path).code) == (own, CodeState.CURRENT)
    assert _find(tmp_path, "0" * 16).path == other
    assert _find(tmp_path / "elsewhere") is None


def test_a_profile_that_cannot_be_read_is_left_out_with_a_warning(tmp_path):
    own, damaged, foreign = _store(tmp_path, 2), _store(tmp_path, 3), _store(tmp_path, 4, label="decode-v1")
    damaged.write_bytes(damaged.read_bytes()[:-5])
    with pytest.warns(LeftOutWarning) as warned:
        assert _find(tmp_path).path == own
    assert [str(one.message) for one in warned] == [
        f"a profile is left out: {foreign} holds no launch of decode-v4 at B=8 qk4_v8",
        f"a profile is left out: {damaged} is cut off",
    ]
