"""`gdnbench verify` on a machine without a GPU, as a user has it: what is checked, compiled, refused, and told."""

import csv
import io
from unittest.mock import Mock, create_autospec

import pytest
from faults import Gdnbench
from write_kernels import on_torch, write_kernel

from gdnbench.process.warm import WarmParent

pytestmark = pytest.mark.slow

SMALL = ("--shape", "heads=qk1_v2", "--shape", "B=1,3")
FEW = ("--rounds", "2", "--samples", "2", "--margin", "0.9")
BODIES = {
    "test-wrong-head": """import honest

def bind(tensors, workload, params):
    run = honest.bind(tensors)

    def call():
        output, new_state = run()
        output = output.clone()
        output[:, :, 3, ::2] += 0.25
        return output, new_state

    return call
""",
    "test-raises": (
        "def bind(tensors, workload, params):\n    def call():\n        return {}['query']\n    return call\n"
    ),
    "test-import-hangs": "import time\n\ntime.sleep(600)\n",
    "test-import-raises": "import os\n\nraise OSError('no licence')\n",
}
BROKEN_CUDA = '''"""A kernel that does not compile."""

from gdnbench import CudaKernel

kernel = CudaKernel(name="test-no-cuda", entry="kernel", grid=lambda s, p: (1,), block=lambda s, p: 32)
'''


PICKY_CUDA = '''"""A kernel that does not compile for odd batches, and says that it is not for them."""

from gdnbench import CudaKernel

kernel = CudaKernel(
    name="test-picky",
    entry="kernel",
    grid=lambda s, p: (s.B // 2,),
    block=lambda s, p: 32 // (1 - s.B % 2),
    check=lambda workload: "an odd B" if workload.B % 2 else "",
)
'''


@pytest.fixture(scope="module")
def bench(tmp_path_factory, same_root):
    decode = same_root / "decode"
    empty = 'extern "C" __global__ void kernel() {}\n'
    write_kernel(decode / "picky", PICKY_CUDA, empty)
    for name, body in BODIES.items():
        write_kernel(decode / name.removeprefix("test-"), on_torch(name), body)
    write_kernel(decode / "left-out", on_torch("test-left-out", ', floor="ablation"'), BODIES["test-wrong-head"])
    write_kernel(decode / "no-cuda", BROKEN_CUDA, empty.replace("{}", "{ no such thing; }"))
    folder = write_kernel(decode / "unreadable", BROKEN_CUDA.replace("test-no-cuda", "test-unreadable"), empty)
    (folder / "notes.txt").symlink_to("/proc/self/mem")  # whose reading fails even for root
    folder = write_kernel(decode / "latin", BROKEN_CUDA.replace("test-no-cuda", "test-latin"))
    (folder / "kernel.cu").write_bytes(f"{empty}// für".encode("latin-1"))
    return Gdnbench(tmp_path_factory.mktemp("verify"), (same_root,), in_process=True)


def verify(bench, *arguments):
    return bench("verify", *arguments, "--gpu", "cpu", "-q")


def test_a_cuda_kernel_is_interpreted(bench):
    done = verify(bench, "decode-v9", "decode-floor-copy", *SMALL)
    assert done.code == 0, done.out + done.err
    assert "2 kernels at 2 workloads: 2 passed in the interpreter of PTX" in done.out
    assert " memory and barriers " in done.out
    assert " state copied " in done.out


def add_cuda(bench, name, statement):
    """A kernel of one statement, in line 5, with a thread for each element of the state."""
    return write_kernel(
        bench.roots[0] / "decode" / name,
        "from gdnbench import CudaKernel\n"
        f'kernel = CudaKernel(name="test-{name}", entry="k", block=lambda s, p: 128,\n'
        "    grid=lambda s, p: (s.B * s.HV * s.V * s.K // 128,))\n",
        '#include "gdn.cuh"\n\nextern "C" __global__ void k(GDN_DECODE_ARGUMENTS) {\n'
        f"  const int at = blockIdx.x * 128 + threadIdx.x;\n  {statement}\n}}\n",
    )


FAULTS = {
    "past-the-end": ("new_state[at] = state[at + 1];", "reads 4 bytes at byte 524288 of `state`, which has 524288"),
    "raced": (
        "__shared__ float s[128]; s[threadIdx.x] = state[at]; new_state[at] = s[threadIdx.x ^ 64];",
        "reads shared memory where thread 64 writes at kernel.cu:5, with no barrier between",
    ),
    "unwritten": (
        "__shared__ float s[128]; if (threadIdx.x) s[threadIdx.x] = 1; __syncthreads();"
        " new_state[at] = s[threadIdx.x];",
        "reads 4 bytes of shared memory that nobody has written",
    ),
    "scattered": ("new_state[at] = state[at % 128 * 1024 + at / 128];", "unwritten-output"),
}


@pytest.fixture(scope="module")
def faulty(bench):
    """Kernels of one statement each, which stands in line 5."""
    for name, (statement, _) in FAULTS.items():
        add_cuda(bench, name, statement)
    return bench


@pytest.mark.parametrize("name", FAULTS)
def test_what_is_wrong_in_a_cuda_kernel_is_named_by_its_line(faulty, name):
    done = verify(faulty, f"test-{name}", "--shape", "B=1")
    assert done.code == 3, done.out + done.err
    told = " ".join(done.out.split())
    assert FAULTS[name][1] in told
    if name == "scattered":
        assert "kernel.cu:5: loads 32 sectors a request, where 4 hold the bytes" in told
    else:
        assert "unsafe: kernel.cu:5: thread " in told


def test_a_kernel_that_does_not_end_is_told_with_the_line_that_it_came_to(bench):
    add_cuda(bench, "endless", "for (int i = 0; state[i % 8] < 1e30f; ++i) new_state[i % 8] = state[i % 8];")
    done = verify(bench, "test-endless", "--shape", "B=1", "--step-limit", "0.3")
    told = "timed-out: step `interpret typical` did not end within 3 s, and was at kernel.cu:5 then"
    assert (told in " ".join(done.out.split()), done.code) == (True, 8), done.out + done.err


def test_what_the_interpreter_does_not_know_is_compiled_and_not_said_to_pass(bench):
    add_cuda(bench, "rank", 'unsigned x = 0; asm volatile("getctarank.shared::cluster.u32 %0, %0;" : "+r"(x));')
    done = verify(bench, "test-rank", "--shape", "B=1")
    assert done.code == 5, done.out + done.err
    told = " ".join(done.out.split())
    assert "compiles for sm_90 and sm_100: kernel.cu:5: `getctarank.shared::cluster.u32` cannot be interpreted" in told
    assert "1 kernel at B=1 qk4_v8: 1 compiled only" in told


def test_what_the_compiler_says_is_told_once_and_not_at_every_workload(bench, tmp_path):
    shape = ("--shape", "B=1,2", "--gpu", "cpu")
    verified = bench("verify", "test-no-cuda", *shape)
    first, later = 'identifier "no" is undefined', 'expected a ";"'
    assert verified.out.count(later) == verified.err.count(first) == 1
    run = bench("run", "test-no-cuda", "decode-reference", *shape, *FEW, "--out", tmp_path)
    assert run.out.count(later) == run.err.count(first) == 1
    assert "test-no-cuda sm_90, sm_100: " in run.out


@pytest.mark.parametrize("verb", ["verify", "run"])
def test_kernels_with_files_that_cannot_be_read_stop_no_other(bench, tmp_path, verb):
    options = ("--shape", "B=1") if verb == "verify" else (*FEW, "--out", str(tmp_path))
    done = bench(verb, "test-unreadable,test-latin", "decode-reference", "--gpu", "cpu", "-q", "--csv", *options)
    assert done.code == 6, done.err
    rows = {row["label"]: row for row in csv.DictReader(io.StringIO(done.out))}
    assert {rows[name]["status"] for name in ("test-unreadable", "test-latin")} == {"build-failed"}
    assert "unreadable: a file in it cannot be read: Input/output error" in rows["test-unreadable"]["reason"]
    assert "kernel.cu:2: byte 0xfc is not UTF-8" in rows["test-latin"]["reason"]
    assert rows["decode-reference"]["status"] == "ok"


def test_a_triton_kernel_is_interpreted_at_small_batches_and_nothing_else_is_asked_of_it(bench):
    done = verify(bench, "decode-triton:BV=128", "--json")  # a program takes 6 ms to interpret, so few do
    assert done.code == 0, done.err
    rows = done.document["gates"]
    assert {row["status"] for row in rows} == {"ok"}
    assert len({row["B"] for row in rows}) == 2
    smallest, larger = sorted({row["B"] for row in rows})
    assert len({row["scenario"] for row in rows if row["B"] == smallest}) == 4
    assert len({row["scenario"] for row in rows if row["B"] == larger}) == 1


@pytest.mark.parametrize(
    ("kernel", "code", "status", "scenarios"),
    [
        ("decode-v1", 0, "ok", {"typical"}),
        ("decode-reference", 0, "ok", {"typical"}),
        ("test-wrong-head", 3, "wrong-numbers", {"typical"}),
        ("test-picky", 8, "failed", {""}),
    ],
)
def test_quick_tries_one_kind_of_inputs_at_one_workload_and_says_so(bench, kernel, code, status, scenarios):
    done = verify(bench, kernel, "--quick", "--json")
    assert (done.code, done.document["quick"]) == (code, True), done.err
    rows = done.document["gates"]
    assert {row["status"] for row in rows} == {status}
    assert {row["scenario"] for row in rows} == scenarios
    assert {row["B"] for row in rows} == {64 if kernel == "test-picky" else 1}


@pytest.fixture(scope="module")
def as_it_was(bench):
    """The bench, where decode-v1 was verified before."""
    assert verify(bench, "decode-v1", *SMALL).code == 0
    return bench


@pytest.mark.parametrize(("options", "cores", "forked"), [(("--quick",), 4, 1), ((), 1, 1), ((), 4, 2)])
def test_a_kernel_that_is_as_it_was_starts_no_process_and_compiles_nothing(
    as_it_was, monkeypatch, options, cores, forked
):
    forks, starts = create_autospec(WarmParent.start, side_effect=WarmParent.start), Mock()
    monkeypatch.setattr(WarmParent, "start", forks)
    monkeypatch.setattr("gdnbench.process.warm.start", starts)
    monkeypatch.setattr("gdnbench.process.worker.start", starts)
    monkeypatch.setattr("gdnbench.codegen.ahead.build_processes", lambda: cores)
    done = verify(as_it_was, "decode-v1", *SMALL, *options, "--json")
    assert (done.code, len({row["B"] for row in done.document["gates"]})) == (0, 1 if options else 2), done.out
    assert (forks.call_count, starts.call_count) == (forked, 0)


def test_quick_leaves_the_whole_to_the_next_command(bench):
    done = verify(bench, "decode-v9", "--quick")
    assert "quick: at B=1 qk4_v8, on the inputs that are timed there; no others were checked" in done.out
    assert done.out.splitlines()[-1] == "next: gdnbench verify decode-v9"


def test_wrong_numbers_tell_their_pattern_and_a_line_that_repeats_them(bench):
    done = verify(bench, "test-wrong-head", "--shape", "B=1,3", "--seed", "7")
    assert done.code == 3
    assert "got 0.25" in done.out
    assert "64 of 1,024 wrong; HV 3 of 8; V 0,2,…,126 of 128" in done.out
    assert "at B=1 qk4_v8; also wrong at B=3" in done.out
    last = done.out.splitlines()[-1]
    assert last == "next: gdnbench verify test-wrong-head --shape B=1 --seed 7"
    again = bench(*last.split()[2:], "--gpu", "cpu", "-q")
    assert [line for line in again.out.splitlines() if "wrong-numbers" in line] == [
        line.partition("; also wrong")[0] for line in done.out.splitlines() if "wrong-numbers" in line
    ]


def test_a_file_that_hangs_when_imported_costs_one_limit_at_all_batch_sizes(bench):
    done = verify(bench, "test-import-hangs", "--step-limit", "1", "--json")
    rows = done.document["gates"]
    assert len(rows) > 2
    assert {(row["status"], row["reason"]) for row in rows} == {("timed-out", "step `import` did not end within 3 s")}
    assert done.code == 8


def test_a_cache_that_cannot_be_written_is_no_kernels_fault(bench, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(Gdnbench, "environment", {**bench.environment, "GDNBENCH_CACHE": str(tmp_path / "file")})
    done = verify(bench, "decode-v4")
    assert (done.code, done.out) == (5, "")
    assert "cannot write to the build cache" in done.err
    assert "GDNBENCH_CACHE" in done.err


def test_a_workload_that_a_kernel_is_not_for_is_neither_built_nor_interpreted(bench):
    done = verify(bench, "test-picky", "--shape", "B=1", "--json")
    [case] = done.document["gates"]
    assert (case["status"], case["reason"], done.code) == ("unsupported", "an odd B", 5)
    assert verify(bench, "test-picky", "--shape", "B=1").out.endswith("next: gdnbench verify test-picky --shape B=64\n")
    options = ("--baseline", "decode-reference", "--shape", "B=1", "--rounds", "2")
    done = bench.run("test-picky,decode-reference", "--gpu", "cpu", *options)
    assert [row["status"] for row in done.document["measurements"] if row["label"] == "test-picky"] == ["unsupported"]
    assert not [row for row in done.document["builds"] if row["kernel"] == "test-picky"]


def test_an_ablation_is_timed_though_it_is_wrong_and_compared_with_nothing(bench):
    options = ("--baseline", "decode-reference", "--shape", "B=1", "--rounds", "2", "--samples", "4")
    done = bench.run("test-wrong-head,test-left-out", "--gpu", "cpu", *options)
    found = {row["label"]: row for row in done.document["measurements"]}
    assert found["test-wrong-head"]["status"] == "wrong-numbers"
    left_out = found["test-left-out"]
    assert (left_out["status"], left_out["role"]) == ("ok", "ablation")
    assert left_out["time_us"] > 0
    assert not any(key.startswith("vs") or key == "verdict" for key, value in left_out.items() if value)
