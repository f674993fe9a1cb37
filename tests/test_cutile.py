"""Kernels in cuTile: built for GPUs that need not be here, refused where they are wrong, and interpreted."""

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from bundled import CATALOG
from decode_workloads import decode_at
from faults import Gdnbench
from write_kernels import write_changed

from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.codegen.build import Job, build, build_key, compile_ptx
from gdnbench.codegen.cutile import ptx_in
from gdnbench.errors import BuildError, DeclarationError
from gdnbench.model.case import arguments_of, check_arguments

OURS = CATALOG.entries["decode-cutile"]
PARAMS = OURS.default.params
needs_cutile = pytest.mark.skipif(find_spec("cuda.tile") is None, reason="no cuTile: pip install 'gdnbench[cutile]'")
WRONG = {
    "name": (("k_row, 1,", "k_now, 1,"), "kernel.py: error: .*k_now"),
    "order": (("q, k, v, state", "k, q, v, state"), "takes k, q, v, .* expected: "),
    "constant": (("K: ct.Constant", "D: ct.Constant"), "takes .*D, ROWS; expected: .*K: constexpr"),
    "no-kernel": (("@ct.kernel", "@ct.function"), "is a .*, not a kernel"),
    "import": (("import cuda.tile", "from .absent import x\nimport cuda.tile"), "kernel.py:3: ModuleNotFoundError"),
}


def _changed(root, *changes, name="decode-changed"):
    write_changed(OURS, name, root, *changes)
    return load_catalog([default_roots()[0], root]).entries[name]


@needs_cutile
@pytest.mark.parametrize("arch", ["sm_90", "sm_100"])
def test_it_is_built_for_a_gpu_that_is_not_here(arch):
    made = build(Job(OURS, OURS.default, decode_at(), arch))
    assert (made.symbol, made.required_threads) == ("gdn_decode_cutile", 128)
    assert (made.spill_bytes, made.load_bits) == (0, 128)
    assert made.shared_bytes < 48 << 10
    [(text, symbol)] = compile_ptx(OURS, PARAMS, decode_at(), arch).values()
    assert symbol == made.symbol
    assert text == ptx_in(Path(made.cubin).read_bytes())


@needs_cutile
@pytest.mark.parametrize("mistake", WRONG)
def test_a_mistake_is_told_with_its_place(tmp_path, mistake):
    change, said = WRONG[mistake]
    entry = _changed(tmp_path, change)
    with pytest.raises(BuildError, match=said):
        build(Job(entry, entry.default, decode_at(), "sm_90"))


@needs_cutile
def test_blocks_have_the_threads_that_the_compiler_gave_them(tmp_path):
    entry = _changed(tmp_path)
    declaration = entry.folder / "variant.py"
    declaration.write_text(declaration.read_text().replace("_p: 128", "_p: 256"))
    entry = load_catalog([default_roots()[0], tmp_path]).entries["decode-changed"]
    assert build_key(entry, PARAMS, decode_at(), "sm_90") != build_key(OURS, PARAMS, decode_at(), "sm_90")
    with pytest.raises(BuildError, match="compiled for blocks of 128 threads, and its launch has 256"):
        build(Job(entry, entry.default, decode_at(), "sm_90"))


@needs_cutile
def test_it_is_interpreted_and_watched(tmp_path):
    root = tmp_path / "more"
    _changed(root, ("new_state, (batch, head, part, 0)", "new_state, (batch, head, part + 1, 0)"), name="decode-past")
    _changed(root, ("s = g * s", "s = 1.0 * s"), name="decode-forgets-not")
    _changed(root, ("output, (batch, 0, head, part)", "output, (batch, 0, 0, part)"), name="decode-one-head")
    done = Gdnbench(tmp_path, (root,), in_process=True)(
        "verify", "--kernel", "decode-cutile,decode-past,decode-forgets-not,decode-one-head", "--quick", "--json"
    )
    said = {row["label"].removeprefix("decode-"): (row["status"], row["reason"]) for row in done.document["gates"]}
    statuses = {name: status for name, (status, _) in said.items()}
    assert statuses == {"cutile": "ok", "past": "unsafe", "forgets-not": "wrong-numbers", "one-head": "unsafe"}
    assert "`new_state`" in said["past"][1]


def test_a_tensor_is_passed_with_its_sizes_and_strides():
    [launch] = OURS.kernel.launches
    passed = arguments_of(OURS.op, OURS.kernel, launch)
    assert [each for each in passed if isinstance(each, str)][:4] == ["q", "k", "v", "state"]
    q, *extents = passed[:9]
    assert q == "q"
    assert [(each.tensor, each.axis, each.is_stride) for each in extents] == [
        ("q", axis, is_stride) for is_stride in (False, True) for axis in range(4)
    ]
    tensors = {each.name for each in OURS.op.tensors}
    sizes = [8 if each in tensors else 4 for each in passed]
    check_arguments(OURS.op, OURS.kernel, launch, sizes)
    with pytest.raises(DeclarationError, match=r"takes 75 parameters, and its launch gives 76; expected: .*q: bf16\["):
        check_arguments(OURS.op, OURS.kernel, launch, sizes[1:])


def test_ptx_is_read_where_a_cubin_has_it():
    """NVRTC leaves it there, too, with line tables."""
    entry = CATALOG.entries["decode-v9"]
    cubin = Path(build(Job(entry, entry.default, decode_at(), "sm_90")).cubin).read_bytes()
    assert ".visible .entry gdn_decode_v9(" in ptx_in(cubin)
    assert ptx_in(cubin.replace(b".nv_debug_ptx_txt", b".nv_debug_any_txt")) == ""


def test_no_solution_has_it(tmp_path):
    done = Gdnbench(tmp_path, in_process=True)("exchange", "export", "decode-cutile", "--to", str(tmp_path))
    assert done.code == 2
    assert "decode-cutile is in cuTile, which no Solution has" in done.err


def test_without_the_package_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cuda.tile", None)
    with pytest.raises(BuildError, match=r"^needs cuda-tile; pip install 'gdnbench\[cutile\]'"):
        compile_ptx(OURS, PARAMS, decode_at(), "sm_90")
