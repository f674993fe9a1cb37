"""One report read two ways: through NVIDIA's module, and from what was stored."""

import sys
from pathlib import Path

import pytest
from decode_workloads import decode_at
from ncu_data import V1, unpack_report

from gdnbench.errors import MachineError, ProfilerError, ReportFormatError
from gdnbench.profile.ncu.report import load_reader, read_any, read_report


@pytest.fixture
def report(tmp_path):
    return unpack_report(tmp_path)


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
    assert read_any(V1) == read_any(report)


def test_a_module_that_crashes_takes_nobody_along(report, tmp_path, monkeypatch):
    """NVIDIA's module is native code: once it brought a whole process down, with the report just made."""
    (tmp_path / "ncu_report.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(ProfilerError, match="brought NVIDIA's module down") as caught:
        read_report(report)
    assert "gdnbench[ncu]" in caught.value.hint


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


def test_nothing_here_reads_reports(report, tmp_path, monkeypatch):
    (tmp_path / "ncu_report.py").write_text("raise ImportError('for another Python')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(MachineError, match="nothing here reads") as caught:
        read_any(report)
    assert "gdnbench[ncu]" in caught.value.hint


@pytest.mark.parametrize("content", [b"", b"NVR\0" + bytes(2000)], ids=["empty", "zeros"])
@pytest.mark.parametrize("name", ["x.ncu-rep", "x.csv", "x.csv.gz"])
def test_what_is_no_report(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ReportFormatError):
        read_any(tmp_path / name)


def test_reports_cut_off_anywhere(report, tmp_path):
    data = report.read_bytes()
    for part in (2, 9):
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
