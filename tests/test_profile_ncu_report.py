"""Reports of ncu: read through NVIDIA's module or as stored, and what is told when ncu fails."""

import sys
from pathlib import Path

import pytest
from decode_workloads import decode_at
from ncu_data import V1, unpack_report

from gdnbench import errors
from gdnbench.errors import MachineError, ProfilerError, ReportFormatError
from gdnbench.process.command import Completed
from gdnbench.profile.ncu.report import failure_of, find_ncu, load_reader, read_any, read_report


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


# Said by ncu 2025.3.1.
NOTHING = """==PROF== Connected to process 3215 (/usr/bin/python3.12)
==PROF== Disconnected from process 3215
==WARNING== No kernels were profiled.
==WARNING== Note that specified NVTX include expressions match only start/end ranges.
"""
WORKER = """==PROF== Connected to process 3215 (/usr/bin/python3.12)
BuildError: kernel.cu(3): error: expected a ";"
==PROF== Disconnected from process 3215
==ERROR== The application returned an error code (1).
"""
UNWRITABLE = "==ERROR== Unable to write to file x.ncu-rep. Please verify this file is not locked, and writable.\n"
# As users of other versions and machines report them.
PERMISSION = """==PROF== Connected to process 7 (/usr/bin/python3)
==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on the target \
device 0. For instructions on enabling permissions and to get more information see \
https://developer.nvidia.com/ERR_NVGPUCTRPERM
==PROF== Disconnected from process 7
==WARNING== No kernels were profiled.
"""
TAKEN = """==ERROR== Profiling failed because a driver resource was unavailable. Ensure that no other tool (like DCGM) \
is concurrently collecting profiling data. See https://docs.nvidia.com/nsight-compute/ProfilingGuide/index.html#faq.
==ERROR== Failed to profile "gdn_decode_v4" in process 7
==WARNING== No kernels were profiled.
"""
TOO_OLD = """==ERROR== Profiling is not supported on device 0. To find out supported GPUs refer --list-chips option.
==WARNING== No kernels were profiled.
"""
OTHER_DRIVER = """==ERROR== An error was reported by the driver:
==ERROR== Cuda driver is not compatible with Nsight Compute.
==PROF== Connected to process 7 (/usr/bin/python3)
==ERROR== The application returned an error code (11).
"""


@pytest.mark.parametrize(
    ("output", "returncode", "kind", "message", "hint"),
    [
        (NOTHING, 0, errors.ProfilerError, "no launch", "verify"),
        (WORKER, 1, errors.ProfilerError, 'expected a ";"', "verify"),
        (UNWRITABLE, 1, errors.MachineError, "x.ncu-rep", "--profiles"),
        (PERMISSION, 1, errors.ProfilerError, "ERR_NVGPUCTRPERM", "NVreg_RestrictProfilingToAdminUsers=0"),
        (TAKEN, 1, errors.ProfilerError, "DCGM", "dcgmi profile --pause"),
        (TOO_OLD, 0, errors.ProfilerError, "this GPU", "--list-chips"),
        (OTHER_DRIVER, 11, errors.ProfilerError, "this driver", "--ncu"),
        ("", -9, errors.ProfilerError, "-9", "doctor"),
        ("==ERROR== Unknown Error on device 0.\n", 9, errors.ProfilerError, "Unknown Error", "doctor"),
    ],
)
def test_messages(output, returncode, kind, message, hint):
    error = failure_of(Completed(returncode, output))
    assert type(error) is kind
    assert message in error.message
    assert hint in error.hint
    expected = errors.ExitCode.ENVIRONMENT if kind is errors.MachineError else errors.ExitCode.PROFILER
    assert error.exit_code is expected


def test_what_a_kernel_prints_is_not_taken_for_ncus_word():
    printed = "my kernel: Profiling is not supported on device 0, ERR_NVGPUCTRPERM\n"
    assert "saw no launch" in failure_of(Completed(0, printed + NOTHING)).message


def test_the_newest_ncu_is_found_and_that_on_the_path_first(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert find_ncu(tmp_path) is None
    for place in ("usr/local/cuda-12.9/bin", "usr/local/cuda-13.0/bin", "usr/local/cuda/bin"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "ncu").touch(0o755)
    assert find_ncu(tmp_path) == tmp_path / "usr/local/cuda-13.0/bin/ncu"
    monkeypatch.setenv("PATH", str(tmp_path / "usr/local/cuda/bin"))
    assert find_ncu(tmp_path) == tmp_path / "usr/local/cuda/bin/ncu"
