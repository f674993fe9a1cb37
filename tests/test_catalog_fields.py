"""Declarations whose fields are of other types, or name files and names that they may not: broken, by the field."""

import dataclasses
import shutil
from itertools import product

import pytest
from test_catalog_catalog import BUNDLED, add_kernel

import gdnbench
from gdnbench.catalog.catalog import load_catalog

# For each class a declaration that is whole, and what may stand in none of its fields but those named.
KERNELS = {
    "CudaKernel": {"name": "'decode-x'", "entry": "'f'", "grid": "lambda s, p: (1,)", "block": "lambda s, p: 32"},
    "TritonKernel": {"name": "'decode-x'", "entry": "'f'", "grid": "lambda s, p: (1,)"},
    "TorchKernel": {"name": "'decode-x'"},
}
WRONG = (
    *("5", "1.5", "b'x'", "object()", "('a', 5)", "[5]", "{5: 5}", "{'a': object()}", "float('nan')", "True"),
    "'é\\0'",
)
EVERY_KERNEL = [
    (kind, field.name) for kind in KERNELS for field in dataclasses.fields(getattr(gdnbench, kind)) if field.init
]
SOURCES = (
    *("/etc/hostname", "../../decode/x.py", "a/../../../x.py", "/dev/zero", "//kernel.py"),
    *("", ".", "\\0", "kernel.py/x"),
)


@pytest.fixture(scope="module")
def op_alone(tmp_path_factory):
    root = tmp_path_factory.mktemp("op")
    shutil.copytree(BUNDLED / "decode", root / "decode", ignore=lambda at, _: ["v4"] if at.endswith("decode") else [])
    for folder in (root / "decode").iterdir():
        if folder.is_dir():
            shutil.rmtree(folder)
    return root


def _declare(kind, fields):
    return f"from gdnbench import {kind}\nkernel = {kind}({', '.join(f'{name}={value}' for name, value in fields)})\n"


def _load_kernels(op_alone, tmp_path, declarations):
    for number, text in enumerate(declarations):
        folder = add_kernel(tmp_path, f"k{number:03}", variant=text)
        (folder / "kernel.cu").write_text("")
    return load_catalog([op_alone, tmp_path])


@pytest.mark.parametrize(("kind", "field"), EVERY_KERNEL, ids=lambda each: each)
def test_a_kernels_field_of_another_type_is_broken_and_named(op_alone, tmp_path, kind, field):
    may = {"params": ("{}",), "presets": ("{}",), "launches": ()}.get(field, ())
    tried = [value for value in WRONG if value not in may]
    catalog = _load_kernels(
        op_alone, tmp_path, (_declare(kind, {**KERNELS[kind], field: value}.items()) for value in tried)
    )
    assert catalog.entries == {}
    assert len(catalog.broken) == len(tried)
    assert all(field in broken.reason or "variant.py:2" in broken.reason for broken in catalog.broken)


@pytest.mark.parametrize("kind", KERNELS)
@pytest.mark.parametrize("source", SOURCES)
def test_a_source_outside_of_its_folder_is_broken(op_alone, tmp_path, kind, source):
    [broken] = _load_kernels(
        op_alone, tmp_path, [_declare(kind, {**KERNELS[kind], "source": f"'{source}'"}.items())]
    ).broken
    assert "source" in broken.reason
    assert ("lies outside" in broken.reason) == (source.startswith("/") or ".." in source)


DISPATCHERS = [
    ("source", "5"),
    ("source", "'/etc/hostname'"),
    ("source", "'../../x.toml'"),
    ("params", "[5]"),
    ("in_place", "('a', 5)"),
    ("requires", "'fla'"),
    ("check", "5"),
    ("name", "'all'"),
    ("name", "None"),
]


@pytest.mark.parametrize(("field", "value"), DISPATCHERS)
def test_a_dispatchers_field_of_another_type_is_broken(op_alone, tmp_path, field, value):
    fields = {"name": "'decode-x'", field: value}
    assert len(_load_kernels(op_alone, tmp_path, [_declare("DispatchKernel", fields.items())]).broken) == 1


NESTED = {
    "launch-entry": ("CudaKernel", "launches", "(CudaLaunch(entry=5, grid=g, block=b),)", "launches.entry: 5"),
    "launch-arguments": (
        "CudaKernel",
        "launches",
        "(CudaLaunch(entry='f', grid=g, block=b, arguments='A'),)",
        "launches.arguments: 'A', expected tuple of text or TensorMap or None",
    ),
    "requirement": ("TorchKernel", "requires", "(Requirement(5),)", "requires.module: 5, expected text"),
    "requirement-as-text": ("TorchKernel", "requires", "'fla'", "requires: 'fla', expected tuple of Requirement"),
    "param-doc": (
        "TorchKernel",
        "params",
        "{'P': Param(default=1, choices=(1,), doc=5)}",
        "params.doc: 5, expected text",
    ),
    "floor": ("TorchKernel", "floor", "'copied'", "floor: 'copied', expected one of '', 'empty', 'copy', 'ablation'"),
    "device": ("TorchKernel", "runs_on", "('gpu',)", "runs_on: ('gpu',), expected tuple of one of 'cuda', 'cpu'"),
    "target": ("CudaKernel", "target", "90", "target 90 is not an architecture"),
    "target-in-words": ("CudaKernel", "target", "'hopper'", "target 'hopper' is not an architecture"),
    "entry": ("TorchKernel", "entry", "'my bind'", "entry: 'my bind' is not the name of a function"),
    "check": ("TorchKernel", "check", "'never'", "check: 'never', expected function"),
}


@pytest.mark.parametrize("kind", NESTED)
def test_what_is_wrong_within_a_field_is_named(op_alone, tmp_path, kind):
    cls, field, value, told = NESTED[kind]
    whole = {"name": "'decode-x'"} if field == "launches" else KERNELS[cls]
    text = "from gdnbench import *\ng = lambda s, p: (1,)\nb = lambda s, p: 32\n"
    text += _declare(cls, {**whole, field: value}.items())
    [broken] = _load_kernels(op_alone, tmp_path, [text]).broken
    assert told in broken.reason


OP = """
from gdnbench import *
op = Op(**{{**dict(
    name="toy", title="A copy.", workloads=WorkloadSpec(axes=(Axis("N", 4),)),
    inputs=(TensorSpec("x", ("N",), "fp32"),), outputs=(TensorSpec("y", ("N",), "fp32"),), gates=(ExactGate("y"),),
), {name!r}: {value}}})
"""
OP_FIELDS = [field.name for field in dataclasses.fields(gdnbench.Op)]


def _op(root, name, value):
    (root / "toy").mkdir(parents=True)
    (root / "toy" / "op.py").write_text(OP.format(name=name, value=value))
    (root / "toy" / "numerics.py").write_text("")
    return load_catalog([root])


@pytest.mark.parametrize(
    ("field", "value"),
    # A title is any text, and whether there is a file or a kernel of a name shows later.
    [each for each in product(OP_FIELDS, WRONG) if each not in product(("title", "numerics", "floor"), WRONG[-1:])],
)
def test_an_ops_field_of_another_type_is_broken(tmp_path, field, value):
    catalog = _op(tmp_path, field, value)
    assert catalog.ops == {}
    [broken] = catalog.broken
    assert broken.reason


@pytest.mark.parametrize("file", ["/etc/passwd", "../../x.csv", "/dev/zero"])
@pytest.mark.parametrize("field", ["numerics", "suites"])
def test_an_ops_file_outside_of_its_folder_is_broken(tmp_path, field, file):
    [broken] = _op(tmp_path, field, f"{{'mine': {file!r}}}" if field == "suites" else repr(file)).broken
    assert "outside" in broken.reason


@pytest.mark.parametrize("kind", KERNELS)
@pytest.mark.parametrize("where", ["name", "presets"])
def test_a_name_that_means_every_kernel_is_broken(op_alone, tmp_path, kind, where):
    fields = {**KERNELS[kind], where: "'all'" if where == "name" else "{'all': {}}"}
    [broken] = _load_kernels(op_alone, tmp_path, [_declare(kind, fields.items())]).broken
    assert "'all' means all that there are" in broken.reason
