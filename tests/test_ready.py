"""`gdnbench verify --ready` as a user meets it, on a machine without a GPU and on one that is made up."""

import json
import os
import shlex

import pytest
from ready_data import SOURCE, VARIANT, Stored, write_kernel, write_op
from sanitizer_data import fake_sanitizer, said

from gdnbench.errors import ExitCode
from gdnbench.model.case import Case
from gdnbench.model.gpu import Gpu
from gdnbench.model.status import Status
from gdnbench.store.journal import Examined
from gdnbench.verify.preflight import Verification

H200 = Gpu(0, "NVIDIA H200", "GPU-0000", (9, 0))
NAMES = ["source", "build", "numbers", "sanitizer", "suite"]
ABLE = VARIANT.replace("    grid=", '    check=lambda workload: "too few rows" if workload.M < 65 else "",\n    grid=')

MOVED = """\"\"\"A test's.\"\"\"
from gdnbench import TritonKernel
kernel = TritonKernel(name="gemm-moved", entry="gemm", grid=lambda workload, p: (1,))
"""
MOVED_SOURCE = """import triton
import triton.language as tl


@triton.jit
def gemm(C):
    at = tl.arange(0, 16)
    for first in tl.range(0, 4, num_stages=2):
        tl.store(C + at + first, 0.0)
        tl.store(C + at, tl.load(C + first) + at)
"""


@pytest.fixture(scope="module")
def root(same_root):
    folder = same_root
    write_op(folder)
    write_kernel(folder, "good")
    write_kernel(folder, "wrong", SOURCE.replace("float sum = 0.f;", "float sum = at == 5 ? 1.f : 0.f;"))
    write_kernel(folder, "large", variant=ABLE)
    write_kernel(folder, "none", variant=ABLE.replace("M < 65", "M > 0"))
    write_kernel(folder, "nobuild", SOURCE.replace("float sum", "flaot sum"))
    (write_kernel(folder, "moved", variant=MOVED) / "kernel.py").write_text(MOVED_SOURCE)
    return folder


@pytest.fixture
def stored(tmp_path, root):
    return Stored(tmp_path / "results", "gemm-torch", root)


@pytest.fixture
def ready(command_line, monkeypatch, tmp_path, root):
    """Runs `gdnbench verify KERNEL --ready --json`; gives the exit code and the document, its checks by name."""
    monkeypatch.setenv("GDNBENCH_KERNELS", str(root))
    monkeypatch.setattr("gdnbench.machine.gpus.list_gpus", lambda *_: ())
    monkeypatch.setattr("gdnbench.profile.process.list_gpus", lambda *_: ())

    def call(kernel, *arguments):
        code, out, err = command_line(
            "verify", "--ready", kernel, "--out", tmp_path / "results", "--json", "-q", *arguments
        )
        assert out, err
        document = json.loads(out)
        checks = {check.pop("name"): check for check in document["checks"]}
        assert list(checks) == NAMES
        return code, document | {"checks": checks}

    return call


@pytest.fixture
def verified(monkeypatch):
    """Every case passes, without the seconds that interpreters take."""

    def all_right(catalog, op, kernels, *, gpu, **_options):
        from gdnbench.catalog.select import find_variant

        _, variant = find_variant(catalog, op, kernels)
        cases = tuple(Case(variant, workload) for workload in catalog.ops[op].suite("verify").workloads)
        found = {case.id: Examined(case.id, Status.OK) for case in cases}
        return Verification(7, gpu.name if gpu else "cpu", cases, found, {})

    monkeypatch.setattr("gdnbench.verify.preflight.verify_variants", all_right)


def statuses(document):
    return {name: check["status"] for name, check in document["checks"].items()}


def with_gpu(monkeypatch, folder, **reports):
    for place in ("gdnbench.profile.process", "gdnbench.machine.gpus"):
        monkeypatch.setattr(f"{place}.list_gpus", lambda *_: (H200,))
    fake_sanitizer(folder, **reports)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def test_a_good_kernel_lacks_only_what_a_gpu_would_tell(ready, stored):
    run = stored("gemm-good")
    code, document = ready("gemm-good")
    assert code == ExitCode.ENVIRONMENT
    assert statuses(document) == {**dict.fromkeys(NAMES, "passed"), "sanitizer": "unchecked"}
    found = document["checks"]
    assert "builds for sm_90 and sm_100 at 2 workloads; spills: none" in found["build"]["what"]
    assert "right at 2 workloads, 2 kinds of inputs" in found["numbers"]["what"]
    assert "in the interpreter of PTX, without a GPU" in found["numbers"]["what"]
    assert "needs a GPU" in found["sanitizer"]["what"]
    assert f"default in {run.name}: weighted mean 1.25" in found["suite"]["what"]
    assert "x vs gemm-torch, faster; reads slower at 0 of 2 workloads, worst 1.2" in found["suite"]["what"]
    assert document["next"] == "gdnbench verify gemm-good --sanitize"
    assert not document["ready"]


def test_with_a_gpu_it_is_ready(ready, command_line, stored, verified, monkeypatch, tmp_path):
    stored("gemm-good")
    with_gpu(monkeypatch, tmp_path)
    code, document = ready("gemm-good")
    assert (code, document["ready"]) == (ExitCode.OK, True)
    assert "by memcheck, synccheck, initcheck, racecheck" in document["checks"]["sanitizer"]["what"]
    code, out, _ = command_line("verify", "--ready", "gemm-good", "--out", tmp_path / "results")
    assert code == ExitCode.OK
    assert "ready" in out.splitlines()
    assert out.count("✓") == len(NAMES)


def test_a_workload_that_a_kernel_says_it_cannot_do_is_neither_built_nor_missed(ready):
    code, document = ready("gemm-large")
    assert code
    assert statuses(document) | {"suite": ""} == {
        "source": "passed", "build": "passed", "numbers": "passed", "sanitizer": "unchecked", "suite": "",
    }  # fmt: skip
    assert "builds for sm_90 and sm_100 at 1 workload" in document["checks"]["build"]["what"]
    assert "right at 1 workload" in document["checks"]["numbers"]["what"]
    assert document["checks"]["numbers"]["what"].endswith("it cannot do 1 more: too few rows")


def test_what_a_tool_finds_is_wrong(ready, stored, verified, monkeypatch, tmp_path):
    stored("gemm-good")
    with_gpu(monkeypatch, tmp_path, memcheck=said("memcheck", "element"))
    code, document = ready("gemm-good")
    assert code == ExitCode.WRONG_NUMBERS
    assert statuses(document)["sanitizer"] == "failed"
    assert document["next"].startswith("gdnbench verify gemm-good --shape")
    assert document["next"].endswith("--sanitize")


def test_wrong_numbers_are_the_gravest_and_the_command_repeats_them(ready, command_line):
    code, document = ready("gemm-wrong")
    assert code == ExitCode.WRONG_NUMBERS
    assert statuses(document) == {
        "source": "passed", "build": "passed", "numbers": "failed", "sanitizer": "unchecked", "suite": "unchecked",
    }  # fmt: skip
    assert "wrong-numbers: C fp32 roundoff" in document["checks"]["numbers"]["what"]
    assert command_line(*shlex.split(document["next"])[1:])[0] == ExitCode.WRONG_NUMBERS


def test_what_does_not_build_is_told_with_the_compilers_words(ready, command_line):
    code, document = ready("gemm-nobuild")
    assert code == ExitCode.BUILD
    assert statuses(document)["build"] == statuses(document)["numbers"] == "failed"
    assert "flaot" in document["checks"]["build"]["what"]
    assert command_line(*shlex.split(document["next"])[1:])[0] == ExitCode.BUILD


def test_a_load_that_may_move_fails(ready, stored, verified):
    stored("gemm-moved")
    code, document = ready("gemm-moved")
    assert code == ExitCode.REGRESSION
    assert statuses(document)["source"] == "failed"
    assert "kernel.py:10: the load of" in document["checks"]["source"]["what"]
    assert document["next"].startswith("gdnbench verify gemm-moved")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"sources": {"gemm-good": "0123456789abcdef"}}, "is of other code"),
        ({"leave": 1}, "lacks M=128 N=48 Kd=32"),
        ({"complete": False}, "no run of this code"),
        (None, "no run of this code"),
    ],
)
def test_no_run_of_this_code_at_every_workload(ready, stored, verified, more, said):
    if more is not None:
        stored("gemm-good", **more)
    code, document = ready("gemm-good")
    check = document["checks"]["suite"]
    assert code == ExitCode.PARTIAL
    assert check["status"] == "unchecked"
    assert said in check["what"]
    assert check["command"].startswith("gdnbench run gemm-good --suite default --out ")


def test_a_claim_of_an_earlier_run_that_is_made_no_more_is_told(ready, stored, verified):
    run = stored("gemm-good", claims={"gemm-good": {"rerun": True, "split": False}})
    _, document = ready("gemm-good")
    assert f"; no longer claims rerun invariance, which held in {run.name}" in document["checks"]["suite"]["what"]


def test_a_kernel_that_is_slower_over_the_suite_is_not_ready(ready, command_line, stored, verified):
    stored("gemm-good", speedup=0.8)
    code, document = ready("gemm-good")
    assert code == ExitCode.REGRESSION
    assert "reads slower at 2 of 2 workloads" in document["checks"]["suite"]["what"]
    assert command_line(*shlex.split(document["next"])[1:])[0] == ExitCode.OK


def test_the_contest_is_the_suite_where_the_op_has_one(ready, verified):
    assert ready("decode-v4")[1]["suite"] == "contest"
    assert ready("decode-v4", "--suite", "default")[1]["suite"] == "default"
