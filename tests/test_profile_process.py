"""Profiles of a case: which kernel it is, where its files lie, and how its process ends."""

import os
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from decode_workloads import decode_at
from dispatch_data import H200_ROWS, write_dispatcher

from gdnbench.catalog.catalog import load_catalog
from gdnbench.errors import (
    ExitCode,
    GpuNotFoundError,
    MachineError,
    ProfilerError,
    ReportFormatError,
    UnknownNameError,
    UsageError,
)
from gdnbench.model.case import Case, Variant
from gdnbench.model.declaration import Params
from gdnbench.model.gpu import Gpu
from gdnbench.profile.files import find_files, make_folder, profile_name
from gdnbench.profile.process import (
    Instrumentation,
    ProfileTask,
    choose_case,
    parse_range_name,
    range_name,
    run_command,
    run_worker,
)

GPU = Gpu(0, "NVIDIA H200", "GPU-0000", (9, 0))
ASSIGNMENT = ProfileTask(
    Instrumentation.LAUNCH,
    ("/kernels",),
    "decode",
    Case(Variant("k", "k:A=1", params=Params({"A": 1})), decode_at(B=8)),
    7,
    3,
)


def test_what_never_ends_is_taken_down_with_its_children(tmp_path):
    child = f"import os, time; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    parent = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {child!r}]).wait()"
    with pytest.raises(ProfilerError, match="did not end within 2 s") as caught:
        run_command([sys.executable, "-c", parent], limit_s=2)
    assert "--limit" in caught.value.hint
    pid = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 5
    while _is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _is_alive(pid)


def _is_alive(pid):
    try:
        os.kill(pid, 0)
        with open(f"/proc/{pid}/stat") as stat:  # noqa: PTH123
            return stat.read().split()[2] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def test_what_is_not_there():
    with pytest.raises(ProfilerError, match="/nowhere/ncu does not start"):
        run_command(["/nowhere/ncu"], limit_s=5)


def test_a_wrapper_gets_the_workers_command_and_one_gpu(tmp_path):
    wrapper = tmp_path / "wrapper"
    wrapper.write_text(
        '#!/bin/sh\necho "$CUDA_VISIBLE_DEVICES $MORE $1"\nshift\necho "$@"\nfor last; do :; done\ncat $last\n'
    )
    wrapper.chmod(0o755)
    ended = run_worker(ASSIGNMENT, GPU, limit_s=30, wrapper=(str(wrapper), "--flag"), environment={"MORE": "more"})
    head, command, *document = ended.output.splitlines()
    assert head == "GPU-0000 more --flag"
    assert command.startswith(f"{sys.executable} -P -m gdnbench.profile.worker ")
    path = tmp_path / "assignment.json"
    path.write_text("\n".join(document))
    assert ProfileTask.read(path) == ASSIGNMENT


WORKLOADS = [decode_at(), decode_at(B=256, HQ=16, HV=32), decode_at(B=3, K=64, V=256), decode_at(B=8).at("never")]


def _case(label, workload):
    return Case(Variant("decode-triton", label, params=Params({})), workload)


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("label", ["decode-v4", "decode-triton:BV=16:WARPS=4"])
def test_a_ranges_name_is_read_back(label, workload):
    assert parse_range_name(range_name("decode", _case(label, workload))) == ("decode", label, workload, "")
    source = "0123456789abcdef"
    assert parse_range_name(range_name("decode", _case(label, workload), source)) == ("decode", label, workload, source)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "decode v4 B=0 qk4_v8",
        f"decode v4 B={'9' * 5000} qk4_v8",
        "decode v4 B=1 qk4_v8 source=0123",
        "decode v4 B=1 qk4_v8 profile=nosuch",
        "decode v4 B=1 qk4_v8 source=0123456789ABCDEF",
    ],
)
def test_ranges_of_others(text):
    assert parse_range_name(text) is None


H200 = Gpu(0, "NVIDIA H200", "GPU-0", (9, 0))
B200 = Gpu(1, "NVIDIA B200", "GPU-1", (10, 0))
TABLE = f"""{H200_ROWS}
[b200.qk4_v8]
source = "20260102-040506-b200-decode"
B1 = {{ kernel = "decode-v1", BV = 4 }}
"""


@pytest.fixture
def choose(tmp_path, monkeypatch):
    """Chooses on a machine with an H200 and a B200, with a dispatcher in the catalog."""
    write_dispatcher(tmp_path, TABLE)
    monkeypatch.setenv("GDNBENCH_KERNELS", str(tmp_path))
    monkeypatch.setattr("gdnbench.profile.process.list_gpus", lambda: (H200, B200))
    return lambda label="decode-mine", axes="", **more: choose_case(load_catalog(), "decode", label, axes=axes, **more)


@pytest.mark.parametrize(
    ("axes", "gpu", "label"),
    [
        ("B=1", "auto", "decode-v4:WARPS=2"),
        ("B=8", "h200", "decode-v6"),
        ("B=8", "b200", "decode-v1c"),
        ("B=1", "cpu", "decode-v4:WARPS=2"),
    ],
)
def test_of_a_dispatcher_it_is_what_that_picks_for_the_gpu_and_under_its_own_name(choose, axes, gpu, label):
    assert choose(axes=axes, gpu=gpu).label == label


def test_a_kernel_takes_its_params_for_the_workload(choose):
    case = choose("decode-triton", "B=8")
    assert (case.label, case.workload) == ("decode-triton", decode_at(B=8))
    assert case.variant.params == {"BV": 8, "WARPS": 8, "STAGES": 1}


def test_a_gpu_that_is_not_here_is_refused(choose):
    with pytest.raises(GpuNotFoundError, match="b100"):
        choose(gpu="b100")


def test_several_workloads_are_refused(choose):
    with pytest.raises(UsageError, match="2 workloads"):
        choose("decode-v4", "B=1,8")
    with pytest.raises(UsageError, match="2 profiles"):
        choose("decode-v4", profile="never,slow")


def test_its_inputs_may_be_of_another_profile(choose):
    assert choose("decode-v4", "B=8", profile="never").workload == decode_at(B=8).at("never")
    with pytest.raises(UnknownNameError, match="no profile nosuch"):
        choose("decode-v4", profile="nosuch")


NOW = datetime(2026, 11, 21, 20, 30, tzinfo=UTC)


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("label", ["decode-v4", "decode-triton:BV=16:WARPS=4"])
def test_what_was_written_is_found(tmp_path, label, workload):
    folder = make_folder(tmp_path, "ncu", label)
    assert ":" not in folder.name
    path = folder / f"{profile_name(_case(label, workload), 'rtx3090', NOW)}.csv"
    path.touch()
    assert find_files(tmp_path, "ncu", label, workload, suffix=".csv") == (path,)
    assert find_files(tmp_path, "ncu", label, workload, suffix=".csv", gpu="rtx3090") == (path,)
    assert find_files(tmp_path, "proton", label, workload, suffix=".csv") == ()
    for other in WORKLOADS:
        if other != workload:
            assert find_files(tmp_path, "ncu", label, other, suffix=".csv") == ()


def test_what_was_stored_last_is_found_first(tmp_path):
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

    def found(workload, gpu=None, label="decode-triton:BV=16"):
        return [path.name[9:13] for path in find_files(tmp_path, "ncu", label, workload, suffix=".csv", gpu=gpu)]

    assert found(decode_at()) == ["1200", "1100", "1000"]
    assert found(decode_at(), "h200") == ["1100", "1000"]
    assert found(decode_at(B=16)) == ["1300"]
    assert found(decode_at(K=64, V=64)) == ["1400"]
    assert found(decode_at(), "rtx3090") == found(decode_at(B=2)) == found(decode_at(), label="decode-triton") == []


def test_a_folder_that_is_a_file_or_may_not_be_read_is_told(tmp_path, monkeypatch):
    (tmp_path / "ncu").mkdir()
    (tmp_path / "ncu" / "decode-v4").touch()
    with pytest.raises(ReportFormatError, match="decode-v4 cannot be read: Not a directory"):
        find_files(tmp_path, "ncu", "decode-v4", decode_at(), suffix=".csv")

    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(ReportFormatError, match="decode-v1 cannot be read: Permission denied") as caught:
        find_files(tmp_path, "ncu", "decode-v1", decode_at(), suffix=".csv")
    assert "--profiles" in caught.value.hint


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "ncu").touch()
    with pytest.raises(MachineError) as caught:
        make_folder(tmp_path, "ncu", "decode-v4")
    assert caught.value.exit_code is ExitCode.ENVIRONMENT
    assert "--profiles" in caught.value.hint
