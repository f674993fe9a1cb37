"""Profiles on disk: every digit and every text survives, and damage is told."""

import gzip
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ncu_data import V1, V1_PAGE, V4

from gdnbench.errors import ExitCode, ReportFormatError
from gdnbench.model import Shape
from gdnbench.profilers.ncu.profile import Metric, Profile
from gdnbench.profilers.ncu.reading import read_any
from gdnbench.profilers.ncu.store import COLUMNS, latest, read_profiles, write_profiles


def _profile(value, **changes):
    metrics = {"a.sum": Metric("a.sum", "byte", value, "SpeedOfLight")}
    profile = Profile("decode-v4", "decode", Shape(B=8), "NVIDIA H200", "sm_90", "f", 0, metrics)
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
    foreign = _profile('9,5 "x"', label="", op="", shape=None, function="void f<int, 2>(float *)")
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
    assert header == ",".join(COLUMNS)
    assert row == "decode-v4,decode,8,4,8,128,128,NVIDIA H200,sm_90,f,0,SpeedOfLight,a.sum,byte,540416"


def test_every_cut_through_a_file_is_told(tmp_path):
    whole = tmp_path / "whole.csv"
    write_profiles(whole, [_profile(540416.0)])
    data = whole.read_bytes()
    for length in range(len(data)):
        (tmp_path / "cut.csv").write_bytes(data[:length])
        if data[:length].decode() == ",".join(COLUMNS) + "\n":
            assert read_profiles(tmp_path / "cut.csv") == ()
            continue
        with pytest.raises(ReportFormatError):
            read_profiles(tmp_path / "cut.csv")


def test_a_cut_archive_is_told(tmp_path):
    (tmp_path / "cut.csv.gz").write_bytes(V4.read_bytes()[:5000])
    with pytest.raises(ReportFormatError) as caught:
        read_profiles(tmp_path / "cut.csv.gz")
    assert caught.value.exit_code is ExitCode.PROFILER
    (tmp_path / "no.csv.gz").write_text("not compressed")
    with pytest.raises(ReportFormatError):
        read_profiles(tmp_path / "no.csv.gz")


@pytest.mark.parametrize("name", ["p.csv.gz", "p.page.csv.gz"])
def test_archives_with_a_wrong_byte(tmp_path, name):
    source = V4 if name == "p.csv.gz" else V1_PAGE
    data = source.read_bytes()
    path = tmp_path / name
    for place in range(100, len(data), len(data) // 40):
        path.write_bytes(data[:place] + bytes([data[place] ^ 255]) + data[place + 1 :])
        with pytest.raises(ReportFormatError):
            read_any(path)


def test_a_shape_that_is_none(tmp_path):
    write_profiles(tmp_path / "p.csv", [_profile(1.0)])
    (tmp_path / "p.csv").write_text((tmp_path / "p.csv").read_text().replace(",8,4,8,", ",8,3,8,"))
    with pytest.raises(ReportFormatError):
        read_profiles(tmp_path / "p.csv")


def test_another_table(tmp_path):
    (tmp_path / "p.csv").write_bytes(gzip.decompress(V4.read_bytes()).replace(b"metric", b"metrik", 1))
    with pytest.raises(ReportFormatError, match="lacks the column metric"):
        read_profiles(tmp_path / "p.csv")


def test_the_latest_of_a_kernel_at_a_shape(tmp_path):
    folder = tmp_path / "ncu" / "decode-triton_BV=16"
    folder.mkdir(parents=True)
    for stem in (
        "20261121-100000-h200-B1-qk4_v8",
        "20261121-110000-h200-B1-qk4_v8",
        "20261121-120000-b200-B1-qk4_v8",
        "20261121-130000-h200-B16-qk4_v8",
        "20261121-140000-h200-B1-qk4_v8-K64-V64",
        "notes",
    ):
        (folder / f"{stem}.csv").touch()
    (folder / "20261121-150000-h200-B1-qk4_v8.ncu-rep").touch()  # whose metrics were never stored

    def found(shape, gpu=None):
        path = latest(tmp_path, "decode-triton:BV=16", shape, gpu)
        return path and path.name[:15]

    assert found(Shape()) == "20261121-120000"
    assert found(Shape(), "h200") == "20261121-110000"
    assert found(Shape(B=16)) == "20261121-130000"
    assert found(Shape(K=64, V=64)) == "20261121-140000"
    assert found(Shape(), "rtx3090") is None
    assert found(Shape(B=2)) is None
    assert latest(tmp_path, "decode-triton", Shape()) is None
