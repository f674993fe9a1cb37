"""`gdnbench proton` of CUDA kernels: stored stamps, a worker that is played, and what is refused."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from launches_data import TOYS
from stamps_data import about, stamps

from gdnbench.errors import ExitCode
from gdnbench.model.gpu import Gpu
from gdnbench.process.command import Completed
from gdnbench.profile.process import Instrumentation

H200 = Gpu(0, "NVIDIA H200", "GPU-1", (9, 0), 132, 60 << 20, 140 << 30)


@pytest.fixture
def stored(tmp_path):
    path = tmp_path / "a.npz"
    stamps(after=150, skew_ns=10).write(path)
    return path


@pytest.fixture
def with_gpu(monkeypatch):
    monkeypatch.setattr("gdnbench.profile.process.list_gpus", lambda: [H200])


@pytest.fixture
def worker(monkeypatch, with_gpu):
    """Plays the worker: `told` is what it got, `ended` how it ends, `write` whether it leaves stamps."""

    class Worker:
        told = None
        ended = Completed(0, "")
        write = True

        def __call__(self, assignment, gpu, *, limit_s):
            self.told, self.gpu, self.limit_s = assignment, gpu, limit_s
            if self.write:
                made = replace(stamps(launches=5), about=about(label=assignment.case.label, asked=assignment.launches))
                made.write(Path(assignment.result))
            return self.ended

    played = Worker()
    monkeypatch.setattr("gdnbench.profile.collect.run_worker", played)
    return played


def test_a_kernel_is_stamped_by_a_worker_and_kept(command_line, worker, tmp_path):
    code, out, err = command_line(
        "proton", "decode-v4:WARPS=4", "--shape", "B=8", "--launches", 7, "--limit", 9, "--profiles", tmp_path
    )
    assert code == ExitCode.OK
    assert worker.told.instrumentation is Instrumentation.PHASES
    assert (worker.told.launches, worker.told.case.workload.B, worker.limit_s, worker.gpu) == (7, 8, 9, H200)
    [kept] = (tmp_path / "phases" / "decode-v4_WARPS=4").glob("*-h200-B8-qk4_v8.npz")
    assert str(kept) in out
    assert "stamping decode-v4:WARPS=4" in err
    assert "7 launches were requested, and the stamps of 5 fit" in out


@pytest.mark.parametrize(
    ("ended", "write"),
    [
        (Completed(1, "…\nthe stamped kernel's numbers are wrong: x\n"), True),
        (Completed(-11, ""), False),
        (Completed(0, ""), False),
    ],
)
def test_a_worker_that_fails_is_a_profilers_failure(command_line, worker, tmp_path, ended, write):
    worker.ended, worker.write = ended, write
    code, out, err = command_line("proton", "decode-v4", "--profiles", tmp_path)
    assert (code, out) == (ExitCode.PROFILER, "")
    assert "decode-v4 was not stamped" in err
    assert ended.last_line in err


def test_a_kernel_without_marks_is_refused_before_any_worker(command_line, worker, tmp_path):
    code, _, err = command_line("proton", "decode-floor-copy", "--profiles", tmp_path)
    assert code == ExitCode.USAGE
    assert "phases.cuh" in err
    assert worker.told is None


@pytest.mark.parametrize("kernel", ["decode-v4", "decode-triton"])
def test_without_a_gpu_stored_files_are_what_can_be_shown(command_line, monkeypatch, kernel):
    monkeypatch.setattr("gdnbench.profile.process.list_gpus", lambda: [])
    code, _, err = command_line("proton", kernel, columns="300")
    assert code == ExitCode.ENVIRONMENT
    assert "--import" in err


def _marked_split(folder):
    """A copy of the toys' gemm in which both launches of gemm-split have a mark; gives the folder."""
    shutil.copytree(TOYS / "gemm", folder / "gemm", ignore=shutil.ignore_patterns("__pycache__"))
    source = folder / "gemm" / "split" / "kernel.cu"
    marked = [
        line + ("\n    GDNBENCH_PHASES_BEGIN();\n    GDNBENCH_PHASE(load);" if line.endswith("int M) {") else "")
        for line in source.read_text().splitlines()
    ]
    head = "#include <gdnbench/phases.cuh>\nGDNBENCH_PHASE_NAMES(load, update, store);\n"
    source.write_text(head + "\n".join(marked) + "\n")
    return folder


@pytest.fixture
def split(tmp_path, monkeypatch, worker):
    """`gemm-split` with marks in both of its launches; the worker leaves stamps of the one that it is told."""
    monkeypatch.setenv("GDNBENCH_KERNELS", str(_marked_split(tmp_path / "toys")))
    worker.entries = []

    def leave(task, gpu, *, limit_s):
        worker.entries.append(task.entry)
        of = about(label="gemm-split", op="gemm", workload=task.case.workload, entry=task.entry, source=task.source)
        made = stamps(after=150 * len(worker.entries), about_=of)
        made.records[:, :, 4 + len(worker.entries)] = 0  # each passes the others' phases alone
        made.write(Path(task.result))
        return Completed(0, "")

    monkeypatch.setattr("gdnbench.profile.collect.run_worker", leave)
    return worker


def test_each_launch_that_has_marks_is_stamped_and_their_spans_are_summed(command_line, split, tmp_path):
    code, out, err = command_line("proton", "gemm-split", "--profiles", tmp_path)
    assert code == ExitCode.OK, err
    assert split.entries == ["partial_sums", "add_sums"]
    names = [path.name.split(".")[-2:] for path in (tmp_path / "phases" / "gemm-split").iterdir()]
    assert sorted(names) == [["add_sums", "npz"], ["partial_sums", "npz"]]
    assert "gemm-split/partial_sums  M=64" in out
    assert "of whole calls: stamping costs" in out
    table = out[out.index("\nlaunch  ") :].splitlines()[2:5]
    spans = [float(line.split()[1]) for line in table]
    assert [line.split()[0] for line in table] == ["partial_sums", "add_sums", "sum"]
    assert spans[2] == pytest.approx(spans[0] + spans[1], abs=0.002)
    assert "warning" not in out  # what one launch does not pass, the other does


def test_one_launch_can_be_asked_for(command_line, split, tmp_path):
    code, out, _ = command_line("proton", "gemm-split", "--launch", "add_sums", "--profiles", tmp_path, "--json")
    assert code == ExitCode.OK
    assert split.entries == ["add_sums"]
    assert [launch["entry"] for launch in json.loads(out)] == ["add_sums"]


@pytest.mark.gpu
def test_on_a_gpu_each_launch_is_stamped_in_whole_calls(command_line, tmp_path, monkeypatch):
    monkeypatch.setenv("GDNBENCH_KERNELS", str(_marked_split(tmp_path / "toys")))
    code, out, err = command_line("proton", "gemm-split", "--launches", 20, "--json", "--profiles", tmp_path)
    assert code == ExitCode.OK, err
    documents = {each["entry"]: each for each in json.loads(out)}
    assert documents.keys() == {"partial_sums", "add_sums"}
    for document in documents.values():
        assert (document["launches"], document["silent_warps"]) == (20, 0)
        assert document["unpassed"] == ["update", "store"]
        assert 0 < document["span_us"] < document["stamped_us"]
    warps = {entry: document["warps"] for entry, document in documents.items()}
    assert warps == {"partial_sums": 2 * 48 * 2, "add_sums": 48 * 2}


@pytest.mark.gpu
@pytest.mark.parametrize(
    "label", ["decode-v1", "decode-v2", "decode-v3", "decode-v4", "decode-v5", "decode-v6", "decode-rowreg"]
)
def test_on_a_gpu_phases_add_up(command_line, label, tmp_path):
    code, out, err = command_line("proton", label, "--launches", 20, "--json", "--profiles", tmp_path)
    assert code == ExitCode.OK, err
    [document] = json.loads(out)
    assert document["launches"] == 20
    assert document["silent_warps"] == 0
    assert document["unpassed"] == []
    assert 0 < document["skew_us"] < document["span_us"] < document["stamped_us"]
    assert 200 < document["sm_mhz"] < 4000
    records = np.load(document["file"])["records"].astype(np.int64)
    assert (records[:, :, 4:].sum(axis=2) <= records[:, :, 3]).all()
    assert (records[:, :, 4:] > 0).all()
    lasted = (records[:, :, 1] - records[:, :, 0]) % 2**32
    assert (lasted < 1e6).all()
    cycles = [row for row in document["phases"] if row["name"] not in {"(between)", "total"}]
    assert sum(row["share"] for row in cycles) <= 1
