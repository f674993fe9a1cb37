"""What is wrong with an op is told of the op: its numerics, its folders that do not load, its lack of macros."""

import json

import pytest
from refused_launches import NUMERICS, OP, write_kernels

from gdnbench.errors import DeclarationError, ExitCode, tell_raised
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
