"""One report read three ways: through NVIDIA's module, from ncu's raw page, from what was stored."""

import math
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from decode_workloads import decode_at
from ncu_data import DATA, UNFUSED_PAGE, V1, V1_PAGE, fake_ncu, page_text, unpack_report

from gdnbench.errors import MachineError, ReportFormatError
from gdnbench.profile.ncu import report as reader
from gdnbench.profile.ncu.profile import LaunchProfile
from gdnbench.profile.ncu.raw_page import parse_page, to_base
from gdnbench.profile.ncu.report import load_reader, read_any, read_report

EXCESS = "derived__memory_l2_theoretical_sectors_global_excessive"  # in bytes, says one; in sectors, says the other
IDENTITY = [name for name in LaunchProfile.__dataclass_fields__ if name not in {"metrics", "rules"}]


@pytest.fixture
def report(tmp_path):
    return unpack_report(tmp_path)


@pytest.fixture
def no_module(monkeypatch):
    """A machine without ncu's module in any form, and without ncu."""
    monkeypatch.setattr(reader, "find_ncu", lambda: None)
    monkeypatch.setattr(reader, "read_in_subprocess", lambda path, ncu: None)


def test_the_module_reads_a_report(report):
    first, _, last = read_any(report)
    assert (first.label, first.op, first.workload) == ("decode-v1", "decode", decode_at())
    assert (first.gpu, first.arch, first.function) == ("NVIDIA H200", "sm_90", "gdn_decode_v1")
    assert (first.launch, last.launch) == (0, 2)
    assert first.number("gpu__time_duration.sum") == 3680
    assert last.number("gpu__time_duration.sum") == 3520
    assert first.metrics["gpu__time_duration.sum"].unit == "ns"
    assert first.metrics["gpu__time_duration.sum"].section == "SpeedOfLight"
    assert first.metrics["launch__cluster_scheduling_policy"].value == "PolicySpread"


def test_what_was_stored_is_what_the_module_reads(report):
    assert read_any(V1) == tuple(replace(profile, rules=()) for profile in read_any(report))


def test_the_page_agrees_with_the_module(report):
    for page, read in zip(read_any(V1_PAGE), read_any(report), strict=True):
        assert [getattr(page, name) for name in IDENTITY] == [getattr(read, name) for name in IDENTITY]
        numbers = {name: one.value for name, one in read.metrics.items() if isinstance(one.value, float)}
        missing = {name for name in numbers if page.number(name) is None}
        assert {
            name for name in missing if not name.startswith(("sass__inst_executed_register_spilling", "nvlink"))
        } == set()
        for name in numbers.keys() - missing:
            # A page has six decimals of what has a unit, and two of what has none.
            unit = read.metrics[name].unit
            assert page.number(name) == pytest.approx(numbers[name], rel=1e-6, abs=1e-6 if unit else 0.005), name
            if name != EXCESS:
                assert page.metrics[name].unit in {unit, ""}, name


def test_every_function_of_a_kernel_with_many(tmp_path):
    profiles = read_any(UNFUSED_PAGE)
    assert len(profiles) == 11
    assert {profile.label for profile in profiles} == {"decode-fla-unfused"}
    launches = {(profile.function, profile.launch) for profile in profiles}
    assert len(launches) == 11
    assert ("vectorized_elementwise_kernel", 5) in launches
    assert ("fused_recurrent_gated_delta_rule_fwd_kernel", 0) in launches


def test_labels_with_params_and_other_head_sizes():
    text = page_text(V1_PAGE)
    name = "decode decode-v1 B=1 qk4_v8"
    [profile, *_] = parse_page(
        text.replace(name, "decode decode-triton:BV=16:WARPS=4 B=7 qk16_v32 K=64 V=256"), V1_PAGE
    )
    assert profile.label == "decode-triton:BV=16:WARPS=4"
    assert profile.workload == decode_at(B=7, HQ=16, HV=32, K=64, V=256)
    assert profile.source == ""
    [profile, *_] = parse_page(text.replace(name, f"{name} source=0123456789abcdef"), V1_PAGE)
    assert (profile.label, profile.workload, profile.source) == ("decode-v1", decode_at(), "0123456789abcdef")
    [profile, *_] = parse_page(text.replace(name, "something of another tool"), V1_PAGE)
    assert (profile.label, profile.op, profile.workload) == ("", "", None)
    [profile, *_] = parse_page(text.replace("gdnbench:", "elsewhere:"), V1_PAGE)
    assert profile.label == ""


def test_messages_around_a_page_do_not_matter(tmp_path):
    (tmp_path / "page.csv").write_text("==PROF== Connected\n" + page_text(V1_PAGE) + "==PROF== Disconnected\n")
    assert read_any(tmp_path / "page.csv") == read_any(V1_PAGE)


def test_a_page_with_nan():
    text = page_text(V1_PAGE)
    assert math.isnan(parse_page(text.replace('"540.416000"', '"nan"'), V1_PAGE)[0].number("dram__bytes_read.sum"))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"Kernel Name"', '"Kernel"', "lacks the column Kernel Name"),
        ('"CC"', '"C"', "lacks the column CC"),
        ('"540.416000"', '"-540.416000"', "dram__bytes_read.sum is "),
        ('"540.416000"', '"inf"', "dram__bytes_read.sum is inf"),
        ('"540.416000"', '"much"', "dram__bytes_read.sum is no number, but 'much'"),
        ('"ID","Process ID"', '"ID","Process ID","Process ID"', "is cut off"),
    ],
)
def test_a_page_that_cannot_be_is_refused_with_its_name(tmp_path, old, new, said):
    (tmp_path / "page.csv").write_text(page_text(V1_PAGE).replace(old, new))
    with pytest.raises(ReportFormatError, match=said) as caught:
        read_any(tmp_path / "page.csv")
    assert "page.csv" in caught.value.message


def test_a_page_that_is_cut_off(tmp_path):
    text = page_text(V1_PAGE)
    for length in (-2, -30, text.index("\n") + 1, text.index("\n") - 5, len('"ID","Process ID"')):
        (tmp_path / "page.csv").write_text(text[:length])
        with pytest.raises(ReportFormatError):
            read_any(tmp_path / "page.csv")


def test_ncu_prints_the_page_where_there_is_no_module(no_module, report, tmp_path):
    ncu = fake_ncu(tmp_path, f"cat {V1_PAGE} | gunzip")
    assert read_report(report, ncu) == read_any(V1_PAGE)
    assert (tmp_path / "arguments").read_text().split() == [
        "--import", str(report), "--csv", "--page", "raw", "--print-units", "base",
    ]  # fmt: skip


def test_a_module_that_crashes_takes_nobody_along(report, tmp_path, monkeypatch):
    """NVIDIA's module is native code: once it brought a whole process down, with the report just made."""
    (tmp_path / "ncu_report.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    ncu = fake_ncu(tmp_path, f"cat {V1_PAGE} | gunzip")
    assert read_report(report, ncu) == read_any(V1_PAGE)


def test_ncu_refuses_a_file(no_module, tmp_path):
    told = "==ERROR== Failed to load report file 'x'.\n==ERROR== The file is not an Nsight Compute profiler report."
    ncu = fake_ncu(tmp_path, f'echo "{told}"; exit 1')
    (tmp_path / "x.ncu-rep").touch()
    with pytest.raises(ReportFormatError):
        read_any(tmp_path / "x.ncu-rep", ncu)


@pytest.fixture
def no_wheel(monkeypatch):
    """A Python without the ncu-report wheel, which imports what it finds."""
    monkeypatch.delitem(sys.modules, "ncu_report", raising=False)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if not (Path(path) / "ncu_report").is_dir()])
    yield
    sys.modules.pop("ncu_report", None)


def _install(top, text):
    (top / "extras" / "python").mkdir(parents=True)
    (top / "extras" / "python" / "ncu_report.py").write_text(text)
    (top / "ncu").touch()
    return top / "ncu"


def test_the_module_beside_ncu(no_wheel, tmp_path):
    _install(tmp_path / "opt" / "2026.1.0", "WHICH = 'newer'\n")
    (tmp_path / "ncu").symlink_to(_install(tmp_path / "nsight", "WHICH = 'its own'\n"))
    assert load_reader(tmp_path / "ncu", tmp_path / "opt").WHICH == "its own"


def test_the_newest_module_that_imports(no_wheel, tmp_path):
    _install(tmp_path / "opt" / "2024.3.0", "WHICH = 'older'\n")
    _install(tmp_path / "opt" / "2025.3.1", "WHICH = 'newer'\n")
    _install(tmp_path / "opt" / "2025.10.0", "raise ImportError('for another Python')\n")
    before = list(sys.path)
    assert load_reader(tmp_path / "ncu", tmp_path / "opt").WHICH == "newer"
    assert [*before, str(tmp_path / "opt" / "2025.3.1" / "extras" / "python")] == sys.path


def test_no_module(no_wheel, tmp_path):
    assert load_reader(None, tmp_path) is None
    assert load_reader(tmp_path / "ncu", tmp_path) is None


def test_nothing_here_reads_reports(no_module, report):
    with pytest.raises(MachineError, match="ncu is neither") as caught:
        read_any(report)
    assert "gdnbench[ncu]" in caught.value.hint


@pytest.mark.parametrize("content", [b"", b"root:x:0:0\n", b"NVR\0" + bytes(2000)])
@pytest.mark.parametrize("name", ["x.ncu-rep", "x.csv", "x.csv.gz", "x.txt"])
def test_what_is_no_report(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ReportFormatError):
        read_any(tmp_path / name)


def test_reports_cut_off_anywhere(report, tmp_path):
    data = report.read_bytes()
    for part in range(1, 10):
        (tmp_path / "cut.ncu-rep").write_bytes(data[: len(data) * part // 10])
        try:
            profiles = read_any(tmp_path / "cut.ncu-rep")
        except ReportFormatError:
            continue
        assert len(profiles) < 3


def test_no_such_file(tmp_path):
    with pytest.raises(ReportFormatError, match="no such file"):
        read_any(tmp_path / "absent.ncu-rep")
    with pytest.raises(ReportFormatError):
        read_any(tmp_path)


@pytest.mark.parametrize(
    ("value", "unit", "base"),
    [
        (3.68, "us", (3680, "ns")),
        (2.0, "s", (2e9, "ns")),
        (540.416, "Kbyte", (540416, "byte")),
        (1.024, "Kbyte/block", (1024, "byte/block")),
        (146.852174, "Gbyte/s", (146852174000, "byte/s")),
        (1.91544, "Ghz", (1915440000, "hz")),
        (8.5, "sector/ns", (8.5e9, "sector/s")),
        (834.782609, "sector/us", (834782609, "sector/s")),
        (12.0, "%", (12, "%")),
        (12.0, "inst/cycle", (12, "inst/cycle")),
        (12.0, "sectors", (12, "sectors")),
        (12.0, "", (12, "")),
    ],
)
def test_units_without_prefixes(value, unit, base):
    assert to_base(value, unit) == (pytest.approx(base[0]), base[1])


def test_every_recorded_profile_reads():
    stored = [path for path in DATA.glob("*.csv.gz") if ".page." not in path.name]
    assert len(stored) == 15
    for path in stored:
        for profile in read_any(path):
            assert path.name.startswith(f"{profile.label}-B{profile.workload.B}")
            assert profile.number("launch__sm_count") == 132


def test_a_real_ncu_is_not_needed_for_reading(report, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert len(read_any(report)) == 3
