"""Ops, kernels and suites as files of flashinfer-bench, which stand alone and come back as they went."""

import json
import math
import os
import re
import shutil
import subprocess
import sys
from operator import attrgetter
from pathlib import Path

import pytest
import torch
from bundled import CATALOG
from committed import ROOT
from exchange_data import DECODE, GOLDEN, TOYS, read_lines, tree, write
from faults import Gdnbench
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

from gdnbench import Axis, AxisList, Params, WorkloadSpec
from gdnbench.codegen.nvrtc import HEADERS, compile_ptx
from gdnbench.errors import ExitCode, UsageError
from gdnbench.exchange import export
from gdnbench.exchange.reference import as_cpp, as_python, sizes_of
from gdnbench.exchange.schema import read_files
from gdnbench.launch.numerics import load_numerics
from gdnbench.process.command import Completed

LANGUAGES = {"decode-v4": "cuda", "decode-triton": "triton", "decode-reference": "python"}
REWRITE = bool(os.environ.get("GDNBENCH_REWRITE_GOLDEN"))


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    return Gdnbench(tmp_path_factory.mktemp("exchange"), (TOYS,), in_process=True)


@pytest.fixture(autouse=True)
def _inputs_are_drawn_here(monkeypatch):
    """Not in a process that imports torch anew; `exported`, which is made before, has them drawn as users do."""

    def draw(command, **_):
        export.main(Path(command[-1]))
        return Completed(0, "")

    monkeypatch.setattr(export, "run_tool", draw)


@pytest.fixture(scope="module")
def exported(bench):
    folder = bench.home / "set"
    words = ("--suite", "contest", "--to", str(folder), "--json")
    done = bench("exchange", "export", *LANGUAGES, "decode-auto", "decode-fla", *words)
    assert done.code == 0, done.err
    assert sorted(json.loads(done.out)["files"]) == sorted(tree(folder))
    return folder


@pytest.fixture(scope="module")
def found(exported):
    return read_files([exported])


def sources(found, name):
    return {each.path: each.content for each in next(s for s in found.solutions if s.name == name).sources}


def test_each_kernel_is_in_its_language_with_all_that_it_needs(found):
    specs = {each.name: each.spec for each in found.solutions}
    assert {name: specs[name].language for name in LANGUAGES} == LANGUAGES
    shared = {f"gdn/{each}.cuh" for each in ("bf16", "math", "quads", "warp")}
    assert set(sources(found, "decode-v4")) == {"solution.cu", "kernel.cuh", "gdn.cuh", "gdnbench/phases.cuh", *shared}
    assert specs["decode-fla"].dependencies == ["fla"]
    assert specs["decode-v4"].passes_destinations
    assert not specs["decode-reference"].passes_destinations
    assert specs["decode-reference"].target_hardware == ["cuda", "cpu"]
    for name in specs:
        text = sources(found, name)
        python = [content for path, content in text.items() if path.endswith(".py")]
        assert not any("\nfrom gdnbench" in content or "\nimport gdnbench" in content for content in python), name


@pytest.fixture(scope="module")
def decode():
    return CATALOG, load_numerics(CATALOG.ops["decode"], CATALOG.op_folders["decode"])


def write_sources(folder, files):
    for name, text in files.items():
        (folder / "package" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "package" / name).write_text(text)


def test_the_reference_and_a_triton_kernel_stand_alone_and_give_the_oracles_numbers(found, decode, tmp_path):
    catalog, numerics = decode
    op, definition = catalog.ops["decode"], found.definitions[DECODE]
    given, expected = {}, {}
    for scenario in op.scenarios:
        tensors, scalars = numerics.make_inputs(op.workload({"B": 2}), 5, "cpu", scenario)
        expected[scenario] = numerics.oracle(tensors, scalars)
        given[scenario] = [{**tensors, **scalars}[name] for name in definition.inputs]
    torch.save(given, tmp_path / "inputs.pt")
    write_sources(tmp_path, {**sources(found, "decode-triton"), "reference.py": definition.reference})
    script = """
import sys, torch
sys.modules["gdnbench"] = None
from package import reference, solution
given = torch.load("inputs.pt")
outputs = torch.empty(2, 1, 8, 128, dtype=torch.bfloat16), torch.empty(2, 8, 128, 128)
solution.run(*given["typical"], *outputs)
torch.save(({scenario: reference.run(*inputs) for scenario, inputs in given.items()}, outputs), "outputs.pt")
"""
    # Away from the checkout, where nothing of ours can be imported.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"TRITON_INTERPRET": "1"}
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=environment, check=True)
    outputs, (output, state) = torch.load(tmp_path / "outputs.pt")
    assert outputs.keys() == expected.keys()
    for scenario, right in expected.items():
        for each, (name, wanted) in zip(outputs[scenario], right.items(), strict=True):
            assert torch.equal(each, wanted.to(each.dtype)), (scenario, name)
            assert definition.outputs[name].dtype == str(each.dtype).removeprefix("torch.")
    right = expected["typical"]
    torch.testing.assert_close(state.double(), right["new_state"], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(output.double(), right["output"], rtol=1e-2, atol=1e-3)


def test_a_kernel_comes_back_with_the_sources_that_went_out(bench, exported, found, tmp_path):
    names = f"definitions/decode/{DECODE}.json", f"solutions/decode/{DECODE}/decode-reference.json"
    words = ("--op", "decode", "--name", "decode-again", "--to", str(tmp_path / "kernels"))
    done = bench("exchange", "import", *(str(exported / name) for name in names), *words)
    assert done.code == 0, done.err
    there = tree(tmp_path / "kernels" / "decode" / "again" / "source")
    assert {name: data.decode() for name, data in there.items()} == sources(found, "decode-reference")
    here = Gdnbench(tmp_path, (tmp_path / "kernels",), in_process=True)
    refused = here("exchange", "export", "decode-again", "--suite", "contest", "--to", str(tmp_path / "again"))
    assert refused.code == ExitCode.USAGE
    assert "imports gdnbench" in refused.err


def ptx_of(folder, text):
    from cuda.bindings import nvrtc
    from cuda.pathfinder import find_nvidia_header_directory

    includes = (folder, find_nvidia_header_directory("cudart"))
    options = ["--gpu-architecture=compute_90", "--std=c++17", *(f"--include-path={each}" for each in includes)]
    _, program = nvrtc.nvrtcCreateProgram(text.encode(), b"x.cu", 0, [], [])
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), [each.encode() for each in options])
    assert status == nvrtc.nvrtcResult.NVRTC_SUCCESS
    _, size = nvrtc.nvrtcGetPTXSize(program)
    buffer = b" " * size
    nvrtc.nvrtcGetPTX(program, buffer)
    return buffer.decode().rstrip("\0")


def instructions(ptx):
    """The instructions of a module, without comments, lines of the source and debugging sections."""
    ptx = re.sub(r"_ZN\d+_INTERNAL_\w+?_cu_[0-9a-f]{8}", "_ZN", ptx.partition("\t.file\t")[0])  # names of the file
    lines = (line.strip().partition("//")[0].strip() for line in ptx.splitlines())
    return [line for line in lines if line and not line.startswith((".loc", ".file", ".target", ".section"))]


@pytest.mark.parametrize("label", ["decode-v4", "decode-auto"])
def test_the_cuda_kernel_is_compiled_to_the_same_code(found, decode, tmp_path, label):
    """What stands above the kernel in the binding, macros alone, makes of it what gdnbench's own macros do."""
    files = sources(found, label)
    write_sources(tmp_path, files)
    macros = [line for line in files["solution.cu"].splitlines() if line.startswith(("#define", '#include "'))]
    catalog, _ = decode
    workload = catalog.ops["decode"].workload({"B": 1})
    entry, variant = catalog.at(catalog.entries[label].default, workload)
    ours, _ = compile_ptx(entry, variant.params, workload, "sm_90")
    assert instructions(ptx_of(tmp_path / "package", "\n".join(macros))) == instructions(ours)
    assert files["gdnbench/phases.cuh"] == (HEADERS / "gdnbench" / "phases.cuh").read_text()


def test_a_definition_of_others_says_names_and_order(bench, tmp_path, found):
    ours = json.loads(next(text for name, text in tree(bench.home / "set").items() if name.startswith("definitions")))
    names = {"B": "batch_size", "HQ": "num_q_heads", "HV": "num_v_heads", "K": "head_size", "V": "head_size",
             "size_1": "seq_len"}  # fmt: skip
    order = ["q", "k", "v", "state", "A_log", "a", "dt_bias", "b", "scale"]

    def renamed(tensor):
        return {**tensor, "shape": tensor["shape"] and [names[axis] for axis in tensor["shape"]]}

    theirs = {
        **ours,
        "name": "their_decode",
        "op_type": "gdn",
        "axes": {names[name]: axis for name, axis in ours["axes"].items()},
        "inputs": {name: renamed(ours["inputs"][name]) for name in order},
        "outputs": {name: renamed(each) for name, each in ours["outputs"].items()},
    }
    (path,) = write(tmp_path / "files", theirs=theirs)
    words = ("--definition", path, "--suite", "contest", "--to", str(tmp_path / "set"))
    done = bench("exchange", "export", *LANGUAGES, *words)
    assert done.code == 0, done.err
    read = read_files([tmp_path / "set"])
    for solution in read.solutions:
        content = next(each.content for each in solution.sources if each.path.startswith("solution"))
        signature = content.partition("run(")[2].partition(")")[0]
        assert [part.split()[-1] for part in signature.split(", ")][:9] == order
        assert solution.definition == "their_decode"
    assert read_lines(tmp_path / "set")[0]["workload"]["axes"] == {"batch_size": 1}
    imported = bench("exchange", "import", str(tmp_path / "set"), "--op", "decode", "--to", str(tmp_path / "kernels"))
    assert imported.code == ExitCode.USAGE  # decode-v4 is there
    python = next((tmp_path / "set" / "solutions").rglob("decode-reference.json"))
    words = ("--op", "decode", "--name", "decode-theirs", "--to", str(tmp_path / "kernels"))
    assert bench("exchange", "import", str(python), path, *words).code == 0
    there = Gdnbench(tmp_path, (tmp_path / "kernels",), in_process=True)
    assert there("verify", "decode-theirs", "--gpu", "cpu", "--shape", "B=2").code == 0
    ours_alone = bench(
        "exchange", "export", "decode-v4", "--definition", path, "--shape", "heads=qk2_v4", "--to", str(tmp_path)
    )
    assert ours_alone.code == ExitCode.USAGE


def test_scratch_and_several_launches_are_in_the_binding(bench, tmp_path):
    done = bench(
        "exchange", "export", "gemm-split", "gemm-triton", "gemm-torch", "--to", str(tmp_path), "--binding", "torch"
    )
    assert done.code == 0, done.err
    read = read_files([tmp_path])
    text = sources(read, "gemm-split")["solution.cu"]
    assert text.count("launch(reinterpret_cast<const void*>(&::") == 2
    assert "cudaMallocAsync(&sums_data" in text
    assert "PYBIND11_MODULE(TORCH_EXTENSION_NAME, module)" in text
    assert {each["workload"]["axes"]["M"] for each in read_lines(tmp_path)} == {64, 128}


def test_indices_are_stored(bench, tmp_path):
    done = bench(
        "exchange", "export", "ragged-torch", "--suite", "verify", "--shape", "lengths=5", "--to", str(tmp_path / "set")
    )
    assert done.code == ExitCode.USAGE
    shape = ("--shape", "lengths=5+0+8,6")
    done = bench("exchange", "export", "ragged-torch", *shape, "--to", str(tmp_path / "set"))
    assert done.code == 0, done.err
    line = read_lines(tmp_path / "set")[0]["workload"]
    assert line["axes"] == {"T": 13, "ENDS": 4}
    assert {name: each["type"] for name, each in line["inputs"].items()} == {
        "x": "random", "offsets": "safetensors", "scale": "scalar"
    }  # fmt: skip
    stored = line["inputs"]["offsets"]
    assert load_file(tmp_path / "set" / stored["path"])[stored["tensor_key"]].tolist() == [0, 5, 5, 13]


TOY_KERNELS = ("gemm-cuda", "gemm-triton", "gemm-torch")


def test_the_golden_files_are_written_still(bench, tmp_path):
    """Those that flashinfer-bench's own models have read: see `data/exchange/README.md`."""
    to = GOLDEN / "set" if REWRITE else tmp_path / "set"
    words = ("--suite", "contest", "--author", "gdnbench's tests", "--to", str(to))
    assert bench("exchange", "export", "decode-reference", *words).code == 0
    assert bench("exchange", "export", *TOY_KERNELS, "--to", str(to)).code == 0
    assert tree(to) == tree(GOLDEN / "set")
    assert ROOT in GOLDEN.parents


SPEC = WorkloadSpec(axes=(Axis("B", default=1), Axis("N", default=3), Axis("H", default=8, compile_time=True)))
PARAMS = Params({"WARPS": 4})

FUNCTIONS = [
    lambda s, p: (s.H // p.WARPS, s.B * s.H),
    lambda s, p: ((s.B + p.WARPS - 1) // p.WARPS, s.N, 1),
    lambda s, p: -(-s.B * s.N // p.WARPS),
    lambda s, p: 32 * p.WARPS,
    lambda s, p: (100 - s.B) % s.N + 1000 // s.B - 7 % s.N,
    lambda s, p: (s.B - 50) // 7 + (s.B - 50) % 7 + 5 - s.N,
]
TABLED = [lambda s, p: max(1, s.B // 2), lambda s, p: (math.ceil(s.B / s.N), 7), lambda s, p: 256 if s.B > 8 else 128]


def expressions(function, workloads=None):
    workloads = workloads or [SPEC.workload({"B": 5, "N": 2})]
    return sizes_of(function, PARAMS, {"H": 8}, ["B", "N"], workloads, attrgetter("axes"))


def direct(function, workload):
    found = function(workload, PARAMS)
    return found if isinstance(found, tuple) else (found,)


@given(function=st.sampled_from(FUNCTIONS), B=st.integers(1, 300), N=st.integers(1, 40))
def test_in_python_it_is_the_same_at_any_size(function, B, N):
    found = [eval(as_python(size), {"B": B, "N": N}) for size in expressions(function)]
    assert tuple(found) == direct(function, SPEC.workload({"B": B, "N": N}))


@pytest.mark.parametrize("function", TABLED)
def test_what_asks_for_a_value_becomes_a_table_of_what_is_exported(function):
    workloads = [SPEC.workload({"B": B, "N": N}) for B in (1, 8, 9) for N in (1, 3)]
    sizes = expressions(function, workloads)
    for workload in workloads:
        found = [eval(as_python(size), dict(workload.axes)) for size in sizes]
        assert tuple(found) == direct(function, workload)
    with pytest.raises(KeyError):
        eval(as_python(sizes[0]), {"B": 77, "N": 1})


def test_a_size_that_all_exported_workloads_share_is_theirs_alone():
    workloads = [SPEC.workload({"B": B, "N": 1}) for B in (1, 2)]
    sizes = expressions(lambda s, p: (4 if s.B < 3 else 8, 1), workloads)
    assert [eval(as_python(size), {"B": 2, "N": 1}) for size in sizes] == [4, 1]
    with pytest.raises(KeyError):
        eval(as_python(sizes[0]), {"B": 5, "N": 1})


def test_what_depends_on_lists_is_refused():
    spec = WorkloadSpec(lists=(AxisList("lengths", default=(1, 2)),))
    workloads = [spec.workload({"lengths": lengths}) for lengths in ((1, 2), (3, 4))]
    with pytest.raises(UsageError, match="lists"):
        sizes_of(lambda s, p: sum(s.lengths), PARAMS, {}, [], workloads, attrgetter("axes"))
    assert sizes_of(lambda s, p: len(s.lengths), PARAMS, {}, [], workloads, attrgetter("axes")) == (2,)


def test_what_depends_on_lists_becomes_a_table_of_the_derived_sizes_that_inputs_tell():
    spec = WorkloadSpec(lists=(AxisList("lengths", default=(1, 2)),))
    workloads = [spec.workload({"lengths": lengths}) for lengths in ((1, 2), (3, 4, 5), (70,))]

    def named(workload):
        return {"T": sum(workload.lengths), "N": len(workload.lengths)}

    (chunks,) = sizes_of(lambda s, p: sum(-(-n // 64) for n in s.lengths), PARAMS, {}, ["T", "N"], workloads, named)
    assert [eval(as_python(chunks), named(workload)) for workload in workloads] == [2, 3, 2]


@pytest.mark.skipif(not shutil.which("g++"), reason="there is no C++ compiler")
def test_in_cpp_it_is_the_same(tmp_path):
    from gdnbench.exchange.solution import DIVISION

    workloads = [SPEC.workload({"B": B, "N": N}) for B in (1, 2, 8, 49, 50, 51, 99, 100, 101, 300) for N in (1, 3, 40)]
    found = [size for function in (*FUNCTIONS, *TABLED) for size in expressions(function, workloads)]
    prints = "\n".join(f'std::printf("%lld\\n", static_cast<long long>({as_cpp(size)}));' for size in found)
    sizes = ", ".join(f"{{{each.B}, {each.N}}}" for each in workloads)
    (tmp_path / "main.cpp").write_text(f"""
#include <cstdint>
#include <cstdio>
#include <stdexcept>
{DIVISION}
void tell(int64_t B, int64_t N) {{ {prints} }}
int main() {{ int64_t sizes[][2] = {{{sizes}}}; for (auto& each : sizes) tell(each[0], each[1]); }}
""")
    subprocess.run(["g++", "-std=c++17", "-o", tmp_path / "main", tmp_path / "main.cpp"], check=True)
    told = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout.split()
    every = [value for each in workloads for function in (*FUNCTIONS, *TABLED) for value in direct(function, each)]
    assert list(map(int, told)) == every
