"""Functions of lone files: how they and their inputs are named, what is refused, and that a wrong one gets no time."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from functions_data import write_files

from gdnbench.catalog.catalog import load_catalog
from gdnbench.errors import DeclarationError, ExitCode, GdnbenchError, UsageError
from gdnbench.functions.ask import FunctionsRequest, make_functions_op
from gdnbench.functions.load import bind_function
from gdnbench.functions.reference import parse_functions, parse_tensors, workloads_of
from gdnbench.launch.numerics import load_numerics
from gdnbench.launch.workspace import Workspace
from gdnbench.verify.check import check_outputs, consult_oracle

INPUTS = "x=bf16[M=4,K=8],w=bf16[K]"
FLOATS = "x=fp32[M=4,K=64],w=fp32[K]"
RUN = ("--rounds", "2", "--samples", "3", "--gpu", "cpu", "--quiet")


@pytest.fixture(autouse=True)
def _forked(monkeypatch):
    monkeypatch.setattr("gdnbench.functions.load._places", [])  # this process is no worker, whatever it loads


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(write_files(tmp_path))
    return tmp_path


def made(*functions, **more):
    """The catalog of the op made of functions, and the op."""
    answer = make_functions_op(FunctionsRequest(functions, **{"inputs": INPUTS, **more}), None, 30)
    catalog = load_catalog([Path(answer.root)])
    assert not catalog.broken
    return catalog, catalog.ops[answer.op]


@pytest.mark.parametrize(
    ("text", "shapes", "tensors", "workloads"),
    [
        ("x=bf16[4096,512]", "", [("x", "bf16", ("x0", "x1"))], ["x0=4096 x1=512"]),
        ("x=bfloat16[ M = 2 , K = 3 ], w=fp32[K]", "", [("x", "bf16", ("M", "K")), ("w", "fp32", ("K",))], ["M=2 K=3"]),
        ("x=fp16[M]", "M=1,8", [("x", "fp16", ("M",))], ["M=1", "M=8"]),
        ("x=fp16[M=2,K=3]", "K=5", [("x", "fp16", ("M", "K"))], ["M=2 K=5"]),
        ("s=fp32[],x=bool[4]", "", [("s", "fp32", ()), ("x", "bool", ("x0",))], ["x0=4"]),
        ("ids=int64[N=3]<100", "", [("ids", "int64", ("N",))], ["N=3 idsbelow=100"]),
        ("A_log=fp32[2]", "", [("A_log", "fp32", ("Alog0",))], ["Alog0=2"]),
    ],
)
def test_inputs_are_read_and_their_sizes_are_the_workload(text, shapes, tensors, workloads):
    axes = {}
    assert [(each.name, each.dtype, each.dims) for each in parse_tensors(text, "--inputs", axes)] == tensors
    assert [str(each) for each in workloads_of(axes, shapes)] == workloads


@pytest.mark.parametrize(
    ("text", "shapes", "why"),
    [
        *((text, "", "cannot read") for text in ("", "x", "x=bf16", "x=bf16[4", "x=bf16[4]y=bf16[4]", "x=bf16[4]<0")),
        *((text, "", "not a size") for text in ("x=bf16[4,]", "x=bf16[0]", "x=bf16[-1]", "x=bf16[4;4]", "x=bf16[M=]")),
        ("x=bf8[4]", "", "unknown dtype"),
        ("x=fp4x2[4]", "", "unknown dtype"),
        ("x=int32[4]", "", "integers need a limit"),
        ("x=int8[4]<129", "", "at most 128"),
        ("x=bf16[4]<9", "", "only integers"),
        ("x=bf16[M=4],y=bf16[M=5]", "", "4 and 5 at once"),
        ("x=bf16[4],x=bf16[4]", "", "two tensors"),
        ("x=bf16[x=4]", "", "an axis, too"),
        ("x=bf16[M,K=2]", "", "M has no size"),
        ("x=bf16[M=4]", "L=2", "no axis L"),
        ("x=bf16[]", "", "no input has a size"),
    ],
)
def test_other_inputs_are_refused_with_what_to_write(text, shapes, why):
    with pytest.raises(UsageError, match=why) as refused:
        axes = {}
        parse_tensors(text, "--inputs", axes)
        workloads_of(axes, shapes)
    assert refused.value.hint


@pytest.mark.parametrize(
    ("texts", "labels"),
    [
        (["mine.py::fast", "mine.py::slow", "mine.py::fast"], ["fast", "slow"]),
        (["mine.py::Ops.doubled", "package/ops.py::doubled"], ["Ops.doubled", "doubled"]),
        (["mine.py::_f", "g=beside.py::f"], ["f", "g"]),
        (["torch.nn.functional::silu", "s=torch::neg"], ["silu", "s"]),
        (["a=mine.py::fast", "b=mine.py::fast"], ["a", "b"]),
    ],
)
def test_functions_have_a_name_each(home, texts, labels):
    assert [each.label for each in parse_functions(texts)] == labels


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("mine.py::fast", 2, "mine.py::fast(x, w, eps=1e-06) needs --inputs hint: name them as it does: --inputs 'x="),
        ("mine.py::fast --inputs x=bf16[4]", 2, "does not take the inputs x: missing a required argument: 'w'"),
        (f"mine.py::fats --inputs {INPUTS}", 2, "mine.py has no function fats hint: did you mean"),
        (f"absent.py::fast --inputs {INPUTS}", 2, "there is no file absent.py"),
        (f"mine.py::fast decode-v4 --inputs {INPUTS}", 2, "decode-v4 names no function"),
        (f"mine.py:fast --against mine.py::slow --inputs {INPUTS}", 2, "mine.py:fast names no function"),
        (f"a=mine.py::fast a=mine.py::slow --inputs {INPUTS}", 2, "two functions are called a"),
        (f"mine.py::raises --inputs {INPUTS}", 6, "mine.py::raises fails: mine.py:"),
        (f"mine.py::infinite --inputs {INPUTS}", 6, "returns NaN or infinity"),
        (f"mine.py::text --inputs {INPUTS}", 6, "returns a str, which cannot be compared"),
        (f"mine.py::nothing --inputs {INPUTS}", 6, "returns a NoneType"),
        (f"mine.py::parts --inputs {INPUTS} --shape M=2,8", 0, ""),
        (f"exits.py::f --inputs {INPUTS}", 6, "exits.py cannot be loaded: it ends its process"),
        (f"dies.py::f --inputs {INPUTS}", 6, "the process that loads the functions ended (exit code 3)"),
        (f"broken.py::f --inputs {INPUTS}", 6, "broken.py cannot be loaded: broken.py:3: SyntaxError"),
        ("measures.py::f --inputs x=fp32[4]", 6, "measures them itself"),
        (f"mine.py::fast --op decode --inputs {INPUTS}", 2, "--op is of kernels of an op"),
        (f"mine.py::fast --on lab --inputs {INPUTS}", 2, "functions are measured on this machine"),
        (f"mine.py::fast --grid M --inputs {INPUTS}", 2, "--grid is of a kernel in a .cu file"),
        (f"mine.py::fast --output y=bf16[M] --inputs {INPUTS}", 2, "leave --output out"),
        ("mine.py::fast --inputs absent.safetensors", 2, "there is no such file"),
        ("decode-v4 --grid M", 2, "--grid is of a lone file's kernel"),
        (f"mine.cu::scaled --against mine.py::wrong --inputs {FLOATS} --grid M", 2, "--block is given 0 times"),
        ("mine.cu::scaled --grid M --block 128 --output y=fp32[M]", 2, "--inputs: cannot read"),
        (f"mine.cu::scaled --inputs {FLOATS} --grid M --block 128", 2, "say --output y=bf16[M,K]"),
        (f"mine.cu::scald --against mine.py::wrong --inputs {FLOATS} --grid M --block 9", 2, "it has scaled, constant"),
        (f"mine.cu::constant --against mine.py::wrong --inputs {FLOATS} --grid M --block 9", 2, "the parameter eps"),
        (f"mine.cu::silent --against mine.py::wrong --inputs {FLOATS} --grid M --block 9", 2, "no parameter for out"),
        (f"mine.cu::scaled --against mine.py::wrong --inputs {FLOATS} --grid M*L --block 9", 2, "L is not a size"),
        (f"mine.cu::scaled --against mine.py::wrong --inputs {FLOATS} --grid (M --block 9", 2, "that is not a size"),
        (
            f"mine.cu::scaled --against mine.py::wrong --inputs {FLOATS} --grid M --block M.real",
            2,
            "real is not a size",
        ),
        (f"mine.cu::scaled --against mine.py::wrong --inputs {FLOATS} --grid M --block 128", 5, "needs a GPU"),
    ],
)
def test_what_cannot_be_measured_is_refused_with_the_reason(home, command_line, words, code, said):
    got, _, err = command_line("run", *words.split(), *RUN, "--dry-run" if code == 0 else "--yes")
    assert (got, said in " ".join(err.split())) == (code, True), err


def test_a_function_is_timed_and_one_that_is_wrong_is_not(home, command_line):
    named = [f"mine.py::{name}" for name in ("fast", "wrong", "zeros", "short", "in_place", "once")]
    code, out, _ = command_line("run", *named, "--against", "mine.py::slow", "--inputs", INPUTS, *RUN, "--json")
    document = json.loads(out)
    rows = {row["kernel"]: row for row in document["measurements"] if row["role"] != "control"}
    assert code == ExitCode.WRONG_NUMBERS
    assert {name: row["status"] for name, row in rows.items()} == {
        **{"slow": "ok", "fast": "ok", "wrong": "wrong-numbers", "zeros": "wrong-numbers"},
        **{"short": "failed", "in_place": "changed-input", "once": "wrong-numbers"},
    }
    assert {name for name, row in rows.items() if row.get("time_us")} == {"slow", "fast"}
    assert document["run"]["op"] == "mine-bf16"
    _, out, _ = command_line("show", document["run"]["run_id"])
    assert f"next: gdnbench run {' '.join(named)} --against mine.py::slow" in out
    stored = Path("results", document["run"]["run_id"], "run.json")
    stored.write_text(stored.read_text().replace('"complete": true', '"complete": false'))
    refused = {
        ("history", "mine.py::fast"): "gdnbench compare RUN RUN",
        ("history", "fast"): "gdnbench compare RUN RUN",
        ("run", "--resume", stored.parent.name): "begin it anew: gdnbench run",
    }
    for words, said in refused.items():
        code, _, err = command_line(*words)
        assert (code, said in " ".join(err.split())) == (ExitCode.USAGE, True), err


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32", "fp64"])
def test_numbers_are_held_to_their_type(home, dtype):
    """0.8 of what the page says passes, 1.25 of it does not, for the largest element and for one near zero."""
    relative = {"bf16": 2**-6, "fp16": 2**-8, "fp32": 2**-16, "fp64": 2**-45}[dtype]
    catalog, op = made("torch::clone", inputs=f"input={dtype}[N=4096]")
    numerics = load_numerics(op, catalog.op_folders[op.name])
    at = Workspace.make(op, numerics, op.default, seed=1, device="cpu", scenario="typical")
    expected = consult_oracle(at, numerics)
    right = at.inputs["input"].double()
    rms = right.square().mean().sqrt()
    for place in (right.abs().argmax(), right.abs().argmin()):
        for factor, passes in ((0.0, True), (0.8, True), (1.25, False)):
            near = right.clone()
            near[place] += factor * relative * (right[place].abs() + rms)
            got = (near.to(at.inputs["input"].dtype),)
            assert all(gate.passed for gate in check_outputs(op, got, expected, "typical")) is passes, factor


def test_outputs_have_the_sizes_of_the_inputs_where_those_vary(home):
    _, op = made("mine.py::parts", shapes="M=2,8")
    assert [(each.name, each.dims, each.dtype) for each in op.outputs] == [
        *(("out0", ("M", 2), "bf16"), ("out1", ("M",), "fp32"), ("out2", (), "bool"))
    ]
    with pytest.raises(UsageError, match="size of 2, 4"):
        made("torch::flatten", inputs="input=fp32[N=1,2]", shapes="N=1,2")


def test_drawn_integers_keep_below_their_limit_and_the_limit_is_of_the_workload(home):
    catalog, op = made("mine.py::gathered", inputs="table=fp32[V=5,4],rows=int32[N=1000]<5")
    drawn, _ = load_numerics(op, catalog.op_folders[op.name]).make_inputs(op.default, 1, "cpu", "typical")
    assert set(drawn["rows"].tolist()) == set(range(5))
    assert op.default.axes["rowsbelow"] == 5


def test_a_function_of_a_package_imports_from_it(home):
    made("package/ops.py::doubled", against="mine.py::Ops.doubled", inputs="x=fp32[4]")


def test_sources_are_part_of_the_kernel_and_a_change_during_the_run_is_seen(home):
    catalog, _ = made("mine.py::fast", "mine.py::slow")
    before = catalog.entries["fast"].known_source()
    tensors = SimpleNamespace(x=torch.ones(2, 2), w=torch.ones(2))
    (home / "beside.py").write_text("gain = 2.0")
    assert made("mine.py::fast", "mine.py::slow")[0].entries["fast"].known_source() != before
    files = {str(home / "beside.py"): "the hash of what it was"}
    with pytest.raises(DeclarationError, match=r"beside\.py has changed"):
        bind_function(tensors, ["x", "w"], str(home / "mine.py"), "wrong", files)


def test_a_lone_kernel_gets_its_parameters_by_name_and_is_compiled(home, command_line):
    words = ["mine.cu::scaled", "same=mine.py::wrong", "--against", "mine.py::wrong", "--inputs", FLOATS]
    code, out, err = command_line("run", *words, "--grid", "M,(K+127)//128", "--block", "128", *RUN, "--json")
    assert code == ExitCode.OK, err
    builds = {build["status"] for build in json.loads(out)["builds"] if build["kernel"] == "scaled"}
    assert builds == {"ok"}
    catalog, op = made(
        *("mine.cu::scaled",), inputs=FLOATS, output="y=fp32[M,K]", grid=("M,(K+127)//128",), block=("128",)
    )
    launch = catalog.entries["scaled"].kernel.launches[0]
    assert launch.arguments == ("x", "w", "y", "K")
    assert (launch.grid(op.default, {}), launch.block(op.default, {})) == ((4, 1), 128)
    assert any(path == home / "types.cuh" for _, path in catalog.entries["scaled"].source_files())


def test_a_cache_that_cannot_be_written_is_told(home, monkeypatch):
    (home / "cache").write_text("")
    monkeypatch.setenv("GDNBENCH_CACHE", str(home / "cache"))
    with pytest.raises(GdnbenchError, match="cannot write to"):
        made("mine.py::fast")
