"""What is wrong with an op or a kernel is told of it: numerics, folders, macros, and arguments that do not fit."""

import json

import pytest
from refused_launches import CUDA, NUMERICS, OP, TRITON, write_kernels

from gdnbench.catalog.catalog import load_catalog
from gdnbench.codegen.triton import compile_triton
from gdnbench.errors import DeclarationError, ExitCode, GdnbenchError, tell_raised
from gdnbench.launch import Workspace, load_numerics
from gdnbench.launch.bind import load
from gdnbench.launch.interpret import InterpretedCuda
from gdnbench.model.declaration import check_name


@pytest.fixture
def root(tmp_path, monkeypatch):
    folder = tmp_path / "kernels"
    write_kernels(folder)
    monkeypatch.setenv("GDNBENCH_KERNELS", str(folder))
    return folder


@pytest.mark.parametrize("given", ["{'x': x}", "None", "({'x': x}, {}, {})", "(x, 1.0)"])
def test_numerics_that_give_no_pair_are_named(root, command_line, given):
    changed = NUMERICS.replace('return {"x": torch', "x = torch", 1).replace(
        ".to(device)}, {}", f".to(device)\n    return {given}"
    )
    (root / "twice" / "numerics.py").write_text(changed)
    _, out, err = command_line("verify", "twice-good", "--gpu", "cpu", "--shape", "M=2", columns="300")
    assert "make_inputs() in numerics.py of twice must give two values" in out + err


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("None", "oracle() in numerics.py of twice gives None; it must give tensors by name: y"),
        ("1 / 0", "oracle() in numerics.py of twice fails: numerics.py:10: ZeroDivisionError: division by zero"),
    ],
)
def test_an_oracle_that_fails_is_told_of_the_numerics(root, command_line, given, told):
    changed = NUMERICS.replace('return {"y": 2 * tensors["x"].double()}', f"return {given}")
    (root / "twice" / "numerics.py").write_text(changed)
    _, out, err = command_line("verify", "twice-good", "--gpu", "cpu", "--shape", "M=2", columns="300")
    assert told in " ".join((out + err).split())


@pytest.mark.parametrize("words", [("verify", "twice-*", "--gpu", "cpu"), ("inspect", "twice-g*")])
def test_a_glob_of_folders_that_do_not_load_says_why(root, command_line, words):
    for folder in (root / "twice").iterdir():
        if folder.is_dir():
            declared = folder / "variant.py"
            declared.write_text(declared.read_text().replace("grid=", "gird="))
    code, _, err = command_line(*words, columns="300")
    assert code != 0
    assert "could not be loaded" in err
    assert "gird" in err


@pytest.mark.parametrize(
    "words",
    [
        *(("run", *more, "--gpu", "cpu") for more in (["--op", "twice"], ["twice-good"], ["twice-*"])),
        ("verify", "twice", "--gpu", "cpu"),
        ("verify", "decode-v1,twice-good:N=1", "--gpu", "cpu"),
        *(("list", *more) for more in (["twice"], ["--op", "twice"], ["twice-good"], ["twice-g*"])),
        ("inspect", "twice-good"),
        ("score", "twice-good"),
        ("new", "twice-mine", "--from", "twice-good"),
        ("exchange", "export", "--op", "twice", "--to", "files"),
    ],
    ids=" ".join,
)
def test_an_op_that_does_not_load_is_named_with_file_and_line_wherever_it_is_meant(root, command_line, words):
    (root / "twice" / "op.py").write_text(OP.replace("gates=", "gates=1 / 0 or "))
    code, out, err = command_line(*words, columns="300")
    line = 1 + OP[: OP.index("gates=")].count("\n")
    assert code == ExitCode.BUILD
    assert f"op.py:{line}: ZeroDivisionError" in out + err
    assert f"mend {root / 'twice'}\n" in out + err


def test_an_op_that_loads_is_meant_where_another_of_its_name_does_not(root, command_line, monkeypatch, tmp_path):
    (tmp_path / "more" / "twice").mkdir(parents=True)
    (tmp_path / "more" / "twice" / "op.py").write_text("1 / 0")
    monkeypatch.setenv("GDNBENCH_KERNELS", f"{root}:{tmp_path / 'more'}")
    code, out, _ = command_line("list", "--op", "twice")
    assert (code, "twice-good" in out) == (0, True)


def test_numerics_that_do_not_load_are_named_with_the_line(root, command_line):
    (root / "twice" / "numerics.py").write_text("\ndef oops(:\n")
    code, out, _ = command_line("verify", "twice-good", "--gpu", "cpu", "--shape", "M=2", columns="300")
    assert code != 0
    assert "numerics.py of twice does not load: numerics.py:2: SyntaxError" in out


def test_what_the_compiler_refuses_ends_with_the_macros_there_are(root, command_line):
    source = root / "twice" / "good" / "kernel.cu"
    source.write_text(source.read_text().replace("AXIS_N", "GDN_N"))
    code, out, _ = command_line("inspect", "twice-good", "--arch", "sm_90", "--shape", "N=24", columns="300")
    assert code == ExitCode.BUILD
    assert 'identifier "GDN_N" is undefined' in out
    assert "macros here: AXIS_N=24\n" in out


def test_an_op_without_macros_builds(root, command_line):
    (root / "twice" / "op.py").write_text(OP.replace(", compile_time=True", ""))
    source = root / "twice" / "good" / "kernel.cu"
    source.write_text(source.read_text().replace("AXIS_N", "N").replace("int M)", "int M, int N)"))
    code, _, err = command_line("inspect", "twice-good", "--arch", "sm_90")
    assert (code, err.count("error")) == (0, 0)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "backend='inductor' raised:\nInvalidCxxCompiler: none found\n\nmore",
            "raised: InvalidCxxCompiler: none found",
        ),
        ("one line:", "one line:"),
        ("first\nsecond", "first"),
    ],
)
def test_a_reason_below_the_first_line_is_told(text, told):
    assert tell_raised(RuntimeError(text)).endswith(told)


def test_a_name_that_is_too_long_is_told_by_its_length():
    with pytest.raises(DeclarationError, match="81 characters"):
        check_name("x" * 81)


@pytest.mark.parametrize("name", ["proton.hatchet", "proton.json", "rows.chrome_trace"])
def test_the_default_format_of_proton_is_refused_by_its_name(command_line, tmp_path, name):
    frame = {"children": [], "frame": {"name": "ROOT", "type": "function"}, "metrics": {"count": 0}}
    (tmp_path / name).write_text(json.dumps([frame, {"CUDA": {}}]))
    code, _, err = command_line("proton", "--import", tmp_path / name, columns="300")
    assert code == ExitCode.PROFILER
    assert "hatchet" in err.replace(name, "")


ROWS = "grid=lambda workload, p: (workload.M,)"
CALL = "twice(x: fp32[M, N], y: fp32[M, N], M: int)"
PLAIN = CUDA % {"head": ""}
CUDA_KERNELS = {
    "one too few": (
        "None",
        PLAIN.replace(", int M", "").replace("(M)", "(4)"),
        "takes 2 parameters, and its launch gives 3",
    ),
    "one too many": ("None", PLAIN.replace("int M", "int M, int Q"), "takes 4 parameters, and its launch gives 3"),
    "a wider one": ("None", PLAIN.replace("int M", "long long M"), "8, 8, 8 bytes, and its launch gives 8, 8, 4"),
    "one that is none": ('("x", "q")', PLAIN, "twice takes q, and there is no such"),
}
TORCH_KERNELS = {
    "bind(tensors, workload)": "bind(tensors, workload) in kernel.py; expected: bind(tensors, workload, params)",
    "bind(tensors, workload, params, more)": "bind(tensors, workload, params), where tensors has (x: fp32[M, N]",
    "bind(*, tensors, workload, params)": "expected: bind(tensors, workload, params)",
}
BOUND = {
    "None": "gives a NoneType; expected: a function () that returns (y: fp32[M, N])",
    "lambda a: (a,)": "gives a function of (a); expected: a function () that returns (y: fp32[M, N])",
    "(tensors.q,)": "there is no q; expected: x, y",
}


@pytest.fixture
def told(tmp_path):

    def tell(declared, file, source, load_it=load):
        op = tmp_path / "twice"
        (op / "mine").mkdir(parents=True)
        for path, content in (("op.py", OP), ("numerics.py", NUMERICS), (f"mine/{file}", source)):
            (op / path).write_text(content)
        (op / "mine" / "variant.py").write_text(f"from gdnbench import *\nkernel = {declared}\n")
        entry = load_catalog([tmp_path]).entries["twice-mine"]
        workload = entry.op.workload({"M": 2})
        make = {"seed": 1, "device": "cpu", "scenario": "typical"}
        workspace = Workspace.make(entry.op, load_numerics(entry.op, op), workload, **make)
        with pytest.raises((GdnbenchError, AttributeError)) as caught:
            load_it(entry, entry.default, workload)(workspace)
        return str(caught.value)

    return tell


@pytest.mark.parametrize("fault", CUDA_KERNELS)
def test_a_cuda_launch_that_does_not_fit_its_function(told, fault):
    arguments, source, said = CUDA_KERNELS[fault]
    launch = f'CudaLaunch(entry="twice", arguments={arguments}, {ROWS}, block=lambda workload, p: 128)'
    kernel = f'CudaKernel(name="twice-mine", launches=({launch},))'
    message = told(kernel, "kernel.cu", source, lambda *case: InterpretedCuda(*case, "sm_90").run)
    assert said in message
    assert f"expected: {CALL}" in message


def test_a_triton_function_that_takes_what_nothing_provides(told):
    kernel = f'TritonKernel(name="twice-mine", entry="twice", {ROWS})'

    def compiled(entry, variant, workload):
        return compile_triton(entry, variant.params, workload, "sm_90")

    message = told(kernel, "kernel.py", TRITON.replace("(x, y", "(x, y, q"), compiled)
    assert "takes q, which nothing provides" in message
    assert "(x: fp32[M, N], y: fp32[M, N], N: constexpr, M: int)" in message


@pytest.mark.parametrize("head", TORCH_KERNELS)
def test_a_function_that_takes_other_parameters(told, head):
    message = told('TorchKernel(name="twice-mine")', "kernel.py", f"def {head}: ...\n")
    assert TORCH_KERNELS[head] in message


@pytest.mark.parametrize("bound", BOUND)
def test_a_function_that_gives_none_to_launch(told, bound):
    source = f"def bind(tensors, workload, params):\n    return {bound}\n"
    assert BOUND[bound] in told('TorchKernel(name="twice-mine")', "kernel.py", source)
