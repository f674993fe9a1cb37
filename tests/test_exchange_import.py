"""Definitions, Solutions and workloads of others become ops and kernels; no code of theirs runs on the way, and no name
of theirs leads anywhere."""

import json
import shutil
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from exchange_data import PARTS, SOLUTION, definition, line, solution, trace, tree, write
from faults import Gdnbench

from gdnbench.catalog.catalog import load_catalog
from gdnbench.errors import ExitCode
from gdnbench.exchange.imported import ImportedNumerics, in_float64

OP, KERNEL = "rms_norm_h64", "rms_norm_h64-plain-torch"
CPU = ("--gpu", "cpu", "--json")


@pytest.fixture
def bench(tmp_path):
    return Gdnbench(tmp_path, (tmp_path / "kernels",), in_process=True)


@pytest.fixture
def take(bench, tmp_path):

    def call(*options, **documents):
        paths = write(tmp_path / "files", **documents)
        to = ("--to", str(tmp_path / "kernels"), "--json")
        return bench("exchange", "import", *paths, *to, *options)

    return call


def test_an_op_and_its_kernel_verify_and_run_at_once(bench, take, tmp_path):
    done = take(definition=definition(), solution=solution(), workloads=[line(5), line(5, "b"), line(3, "c")])
    assert done.code == 0, done.err
    answer = json.loads(done.out)
    assert (answer["ops"], answer["kernels"]) == ([OP], [KERNEL])
    assert "constraints are stored" in done.err
    catalog = load_catalog([tmp_path / "kernels"])
    assert not catalog.broken
    op = catalog.ops[OP]
    assert op.title == "Rows over the root of their mean square."
    assert {str(key): weight for key, weight in op.suite("workloads").weights.items()} == {
        "numRows=5": 2,
        "numRows=3": 1,
    }
    verified = bench("verify", KERNEL, *CPU)
    assert verified.code == 0, verified.err
    assert {gate["gate"].partition(" ")[0] for gate in json.loads(verified.out)["gates"]} >= {"y", "sums"}
    ran = bench.run(KERNEL, "--gpu", "cpu", "--rounds", "3", "--samples", "3", "--suite", "workloads", "-q")
    assert ran.code == 0, ran.err


def test_the_inputs_are_what_the_line_says(take, tmp_path):
    assert take(definition=definition(), workloads=[line(5, eps={"type": "scalar", "value": 0.25})]).code == 0
    folder = tmp_path / "kernels" / OP
    numerics, op = ImportedNumerics(folder), load_catalog([tmp_path / "kernels"]).ops[OP]
    tensors, scalars = numerics.make_inputs(op.workload({"numRows": 5}), 1, "cpu", "typical")
    assert scalars == {"eps": 0.25}
    assert tensors["x"].shape == (5, 64)
    assert tensors["x"].dtype == torch.bfloat16
    again, _ = numerics.make_inputs(op.workload({"numRows": 5}), 1, "cpu", "typical")
    assert torch.equal(tensors["x"], again["x"])
    wide = {name: tensor.double() for name, tensor in tensors.items()}
    y = wide["x"] * torch.rsqrt(wide["x"].square().mean(-1, keepdim=True) + 0.25) * wide["weight"]
    found = numerics.oracle(tensors, scalars)
    assert found["y"].dtype == torch.float64
    torch.testing.assert_close(found["y"], y, rtol=1e-14, atol=1e-14)  # neither fp32 nor rounded to bf16
    torch.testing.assert_close(found["sums"], wide["x"].sum(-1), rtol=1e-14, atol=1e-12)


@pytest.mark.parametrize(
    ("sources", "spec", "status"),
    [
        ({"main.py": "def run(x, weight, eps):\n    return {'sums': x.float().sum(-1), 'y': x * 0}\n"},
         {"entry_point": "main.py::run", "destination_passing_style": False}, "wrong-numbers"),
        ({"main.py": "def run(x, weight, eps):\n    return x\n"},
         {"entry_point": "main.py::run", "destination_passing_style": False}, "failed"),
        ({"main.py": "def run(x, weight, eps, y, sums):\n    pass\n"}, {"entry_point": "main.py::run"},
         "unwritten-output"),
        ({"main.py": "def walk():\n    pass\n"}, {"entry_point": "main.py::run"}, "build-failed"),
        ({"main.py": "raise RuntimeError('at import')\n"}, {"entry_point": "main.py::run"}, "broken"),
        ({"a.cu": "int run();"}, {"language": "cuda", "entry_point": "a.cu::run", "target_hardware": ["cuda"]},
         "missing"),
        (None, {"target_hardware": ["cuda"]}, "unsupported"),
        (None, {"dependencies": ["no_such_module_at_all"]}, "missing"),
    ],
    ids=["zeros", "one-output", "unwritten", "no-entry", "raises", "cuda", "gpu-only", "needs"],
)  # fmt: skip
def test_a_solution_that_does_not_do_it_gets_the_status_that_says_so(bench, take, sources, spec, status):
    if status == "missing" and spec.get("language") == "cuda" and find_spec("tvm_ffi"):
        pytest.skip("tvm_ffi is installed, and the module is not missing")
    done = take(definition=definition(), solution=solution(sources, **spec))
    assert done.code == 0, done.err
    verified = bench("verify", KERNEL, "--gpu", "cpu", "--shape", "numRows=3", "--json")
    found = json.loads(verified.out)
    assert {row["status"] for row in found["gates"]} == {status}, verified.out


def test_small_outputs_are_not_lost_in_the_absolute_tolerance(bench, take):
    """All of y lies below 1e-2 where the weights do: the element's gate alone would pass zeros."""
    reference = definition()["reference"].replace("weight.float()", "(weight.float() * 1e-3)")
    zeros = {"main.py": "def run(x, weight, eps):\n    return x * 0, x.float().sum(-1)\n"}
    spec = {"entry_point": "main.py::run", "destination_passing_style": False}
    take(definition=definition(reference=reference), solution=solution(zeros, **spec))
    gates = json.loads(bench("verify", KERNEL, *CPU).out)["gates"]
    passed = {gate["gate"]: gate["passed"] for gate in gates if gate["gate"].startswith("y ")}
    assert passed == {"y within 1.28 ulp + 0.01": True, "y relative RMS": False}


def test_a_scalar_that_no_workload_gives_is_positive(take, tmp_path):
    assert take(definition=definition()).code == 0
    numerics, op = ImportedNumerics(tmp_path / "kernels" / OP), load_catalog([tmp_path / "kernels"]).ops[OP]
    drawn = {numerics.make_inputs(op.workload({"numRows": 2}), seed, "cpu", "typical")[1]["eps"] for seed in range(50)}
    assert len(drawn) == 50
    assert min(drawn) > 0
    assert max(drawn) <= 1


CODE = '"""); import os; os.mkdir("taken"); ("""'


def test_code_in_a_file_runs_only_where_kernels_do(bench, take, tmp_path, monkeypatch):
    """Not at import, not when the catalog loads what was made, not when it is listed."""
    monkeypatch.chdir(tmp_path)
    touch = f"import pathlib\npathlib.Path({str(tmp_path / 'taken')!r}).touch()\n"
    document = definition(reference=touch + definition()["reference"], description=CODE)
    made = take(
        definition=document,
        solution=solution({"src/main.py": touch + SOLUTION, "src/parts.py": PARTS}) | {"description": CODE},
        workloads=[line(3)],
    )
    assert made.code == 0, made.err
    listed = bench("list", "--json")
    assert {each["kernel"]: each["status"] for each in json.loads(listed.out)}[KERNEL] == "ok"
    assert not (tmp_path / "taken").exists()
    assert load_catalog([tmp_path / "kernels"]).ops[OP].title == CODE
    assert bench("verify", KERNEL, *CPU).code == 0
    assert (tmp_path / "taken").exists()


@pytest.mark.parametrize(
    "path", ["../main.py", "/tmp/main.py", "a/../../main.py", "a//main.py", "./main.py", "a\\main.py", "a\nb.py", " ",
             "a" * 300, "__pycache__/main.py", ".", ".."]
)  # fmt: skip
def test_a_path_that_leads_elsewhere_is_refused(take, tmp_path, path):
    sources = {path: SOLUTION, "src/parts.py": PARTS}
    done = take(definition=definition(), solution=solution(sources, entry_point=f"{path}::run"))
    assert done.code == ExitCode.USAGE
    assert not (tmp_path / "kernels").exists()


@pytest.mark.parametrize("name", ["../../x", "/etc/x", "a b", "..", CODE, "é" * 200, "x/y", "-rf", ".hidden", "con\n"])
def test_whatever_a_thing_is_called_it_stays_in_the_folder(take, tmp_path, name):
    document = definition(name=name, op_type=name)
    done = take(definition=document, solution=solution() | {"name": name, "definition": name})
    outside = [path for path in tmp_path.iterdir() if path.name not in {"files", "kernels", "results", "tmp"}]
    assert not outside
    assert done.code in {0, ExitCode.USAGE, ExitCode.BUILD}, done.err
    if done.code == 0:
        catalog = load_catalog([tmp_path / "kernels"])
        assert not catalog.broken
        assert len(catalog.ops) == len(catalog.entries) == 1
        assert all(folder.parent == tmp_path / "kernels" for folder in catalog.op_folders.values())


@pytest.mark.parametrize("length", [60, 79, 80, 81, 82, 200])
def test_a_solution_is_imported_whatever_the_length_of_its_name(take, tmp_path, length):
    alike = {last: solution() | {"name": f"{'x' * (length - 1)}{last}"} for last in "ab"}
    done = take(definition=definition(), **alike)
    assert done.code == 0, done.err
    assert len(list((tmp_path / "kernels").glob("*/*/variant.py"))) == 2


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"reference": "def walk(): pass"}, "no function run"),
        ({"reference": "def run(:"}, "not Python"),
        ({"axes": {"num_rows": {"type": "var"}}}, "which is not an axis"),
        ({"axes": {"num_rows": {"type": "var"}, "hidden_size": {"type": "const"}}}, "has no value"),
        ({"axes": {"num_rows": {"type": "var"}, "hidden_size": {"type": "const", "value": -1}}}, "value"),
        ({"outputs": {"x": {"shape": [], "dtype": "float32"}}}, "an input and an output"),
        ({"outputs": {"y y": {"shape": [], "dtype": "float32"}}}, "cannot be an argument"),
        ({"outputs": {"lambda": {"shape": [], "dtype": "float32"}}}, "cannot be an argument"),
        ({"outputs": {"y": {"shape": [], "dtype": "float4_e2m1"}}}, "gdnbench has not"),
        ({"inputs": {"n": {"shape": None, "dtype": "int32"}}}, "fp32 scalars"),
        ({"inputs": None}, "inputs"),
        ({"name": ""}, "name"),
    ],
    ids=str,
)
def test_a_definition_that_does_not_fit_is_refused_in_words(take, tmp_path, change, said):
    done = take(definition=definition(**change))
    assert done.code in {ExitCode.USAGE, ExitCode.BUILD}
    assert "".join(said.split()) in "".join(done.err.split())
    assert not (tmp_path / "kernels").exists()


@pytest.mark.parametrize(
    ("documents", "options", "said"),
    [
        ({"solution": solution()}, (), "is not among the files"),
        ({"solution": solution(language="tilelang"), "definition": definition()}, (), "TileLang"),
        ({"solution": solution(entry_point="main.py"), "definition": definition()}, (), "entry_point"),
        ({"solution": solution(entry_point="none.py::run"), "definition": definition()}, (), "is not a source"),
        ({"workloads": [{"definition": "x"}]}, (), "line 1"),
        ({"definition": definition(), "workloads": [line(3) | {"workload": {"axes": {}, "inputs": {}, "uuid": "u"}}]},
         (), "lacks the axis num_rows"),
        ({"definition": definition()}, ("--name", "x"), "there are 0 Solutions"),
        ({"workloads": [line(3)]}, (), "no Definition and no Solution"),
        ({"definition": definition(), "solution": solution()}, ("--op", "decode"), "not those of decode"),
        ({"definition": definition(), "solution": solution()}, ("--op", "nothing"), "no op nothing"),
        ({"definition": definition(), "solution": solution()}, ("--name", "decode-v4"), "there is a kernel decode-v4"),
        ({"definition": definition(), "again": definition(op_type="other")}, (), "another Definition"),
    ],
    ids=str,
)  # fmt: skip
def test_what_does_not_go_together_is_refused_in_words(take, tmp_path, documents, options, said):
    done = take(*options, **documents)
    assert done.code == ExitCode.USAGE, done.err
    assert not list((tmp_path / "kernels").glob("*"))
    assert "".join(said.split()) in "".join(done.err.split())


def test_the_same_again_changes_nothing_and_another_is_refused(take, tmp_path):
    assert take(definition=definition()).code == 0
    before = tree(tmp_path / "kernels")
    again = take(definition=definition())
    assert again.code == 0
    assert "stays as it is" in again.err
    other = take(definition=definition(op_type="else"))
    assert other.code == ExitCode.USAGE
    assert tree(tmp_path / "kernels") == before


def test_integers_at_random_are_refused_where_kernels_would_index_by_them(bench, take):
    inputs = {**definition()["inputs"], "rows": {"shape": ["num_rows"], "dtype": "int64"}}
    reference = definition()["reference"].replace("weight, eps", "weight, eps, rows")
    assert take(definition=definition(inputs=inputs, reference=reference), solution=solution()).code == 0
    verified = bench("verify", KERNEL, *CPU)
    assert verified.code != 0
    assert "no workload gives its values" in verified.out + verified.err


def test_inputs_from_a_file_are_copied_and_used(bench, take, tmp_path):
    from safetensors import numpy as safetensors

    inputs = {**definition()["inputs"], "rows": {"shape": ["num_rows"], "dtype": "int64"}}
    reference = "def run(x, weight, eps, rows):\n    return x[rows], x.float()[rows].sum(-1)\n"
    main = "def run(x, weight, eps, rows, y, sums):\n    y.copy_(x[rows])\n    sums.copy_(x[rows].float().sum(-1))\n"
    (tmp_path / "files" / "blob").mkdir(parents=True)
    safetensors.save_file({"r": np.array([2, 0, 1])}, tmp_path / "files" / "blob" / "one.safetensors")
    told = {"type": "safetensors", "path": "blob/one.safetensors", "tensor_key": "r"}
    documents = {
        "definition": definition(inputs=inputs, reference=reference),
        "solution": solution({"main.py": main}, entry_point="main.py::run"),
        "workloads": [line(3, rows=told)],
    }
    done = take(**documents)
    assert done.code == 0, done.err
    shutil.rmtree(tmp_path / "files")
    assert bench("verify", KERNEL, *CPU).code == 0
    numerics = ImportedNumerics(tmp_path / "kernels" / OP)
    op = load_catalog([tmp_path / "kernels"]).ops[OP]
    tensors, _ = numerics.make_inputs(op.workload({"numRows": 3}), 0, "cpu", "typical")
    assert tensors["rows"].tolist() == [2, 0, 1]


@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "link"])
def test_inputs_elsewhere_are_refused(take, tmp_path, path):
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "link").symlink_to(tmp_path / "secret")
    told = {"type": "safetensors", "path": path, "tensor_key": "x"}
    done = take(definition=definition(), workloads=[line(3, x=told)])
    assert done.code == ExitCode.USAGE
    assert not (tmp_path / "kernels").exists()


def test_a_trace_is_no_workload(take):
    done = take(definition=definition(), traces=[trace(5, 0.010)])
    assert done.code == 0, done.err
    assert json.loads(done.out)["ops"] == [OP]


def test_a_function_that_insists_on_its_types_is_run_as_it_is():
    def strict(x):
        assert x.dtype == torch.float32
        return x / 3

    x = torch.tensor([1.0])
    assert float(in_float64(strict, [x])) == float(x / 3)
    assert float(in_float64(lambda x: (x.bfloat16() / 3).to(torch.float16), [x])) == 1 / 3
    assert torch.get_default_dtype() == torch.float32


def test_a_type_in_float64_is_no_other_reading_of_bits():
    bits = in_float64(lambda x: x.view(torch.int32), [torch.ones(2)])
    assert bits.dtype == torch.int32
