"""Kernels in CuTe DSL: built for GPUs that need not be here, refused where they are wrong, and interpreted."""

import sys

import pytest
from changed_kernels import write_changed
from decode_workloads import decode_at
from faults import Gdnbench

from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.codegen.ahead import build_all
from gdnbench.codegen.build import Job, build, build_key, compile_ptx
from gdnbench.codegen.cache import load_build
from gdnbench.errors import BuildError

pytest.importorskip("cutlass", reason="no CuTe DSL here: pip install 'gdnbench[cute]'")
pytestmark = pytest.mark.slow

OURS = load_catalog([default_roots()[0]]).entries["decode-cute"]
PARAMS = OURS.default.params
IN_SHARED = (
    "    sums = [",
    """    from cutlass.memory import SmemAllocator

    shared = SmemAllocator().allocate_tensor(Float32, cute.make_layout(1024), 128)
    shared[thread] = qk
    cute.arch.sync_threads()
    qk = shared[thread]
    sums = [""",
)
WRONG = {
    "name": (("k_row, q_row = widened", "k_row, q_row = wide"), "kernel.py:{line}: error: .*'wide' is not defined"),
    "order": (("q: cute.Pointer, k: cute.Pointer", "k: cute.Pointer, q: cute.Pointer"), "takes k, q, v, .* expected: "),
    "constant": (("WARPS: Constexpr", "ROWS: Constexpr"), "takes .*ROWS; expected: .*WARPS: constexpr"),
    "no-kernel": (("@cute.kernel", "@cute.jit"), "kernel.py: error: a kernel is decorated with @cute.kernel"),
    "plain": (("@cute.kernel", ""), "is a function, not a kernel"),
    "shared": (IN_SHARED, "allocates 4,096 bytes of shared memory, and its launch has 0"),
    "import": (("from cutlass", "from .absent import x\nfrom cutlass"), "kernel.py:3: ModuleNotFoundError"),
}


def _changed(root, change, name="decode-changed"):
    write_changed(OURS, name, change, root)
    return load_catalog([default_roots()[0], root]).entries[name]


@pytest.mark.parametrize("arch", ["sm_90", "sm_100"])
def test_it_is_built_for_a_gpu_that_is_not_here(arch):
    made = build(Job(OURS, OURS.default, decode_at(), arch))
    assert (made.symbol, made.shared_bytes, made.spill_bytes, made.load_bits) == ("gdn_decode_cute_0", 0, 0, 128)
    assert made.required_threads == 128
    assert 32 < made.registers < 80


def test_a_builder_leaves_what_a_worker_looks_for(monkeypatch, tmp_path):
    """A worker that compiled would load the DSL, seconds of its start."""
    monkeypatch.setenv("GDNBENCH_CACHE", str(tmp_path))
    job = Job(OURS, OURS.default, decode_at(), "sm_90", disassembled=False)
    made = build_all([job])[job]
    assert load_build(job.key) == made


@pytest.mark.parametrize("mistake", WRONG)
def test_a_mistake_is_told_with_its_place(tmp_path, mistake):
    change, said = WRONG[mistake]
    entry = _changed(tmp_path, change)
    lines = entry.source.read_text().splitlines()
    line = next((at for at, text in enumerate(lines, 1) if change[1] in text), 0)
    with pytest.raises(BuildError, match=said.format(line=line)):
        build(Job(entry, entry.default, decode_at(), "sm_90"))


def test_a_build_is_of_its_threads_and_of_what_it_imports(tmp_path):
    """The DSL compiles for a number of threads, which only `variant.py` says, and sources may lie in several files."""
    entry = _changed(tmp_path, ("from cutlass import", "from .parts import LOG2_E\nfrom cutlass import"))
    own = "LOG2_E = 1.442695041\n"
    entry.source.write_text(entry.source.read_text().replace(own, ""))
    parts = entry.folder / "parts.py"
    parts.write_text(own)
    ours = compile_ptx(OURS, PARAMS, decode_at(), "sm_90")["gdn_decode_cute"]
    split = compile_ptx(entry, PARAMS, decode_at(), "sm_90")["gdn_decode_cute"]
    assert _code(split) == _code(ours)
    key = build_key(entry, PARAMS, decode_at(), "sm_90")
    assert key != build_key(entry, PARAMS.__class__({**PARAMS, "WARPS": 8}), decode_at(), "sm_90")
    assert key == build_key(entry, PARAMS, decode_at(B=7), "sm_90")
    parts.write_text("LOG2_E = 1.5\n")
    assert key != build_key(entry, PARAMS, decode_at(), "sm_90")
    other = compile_ptx(entry, PARAMS, decode_at(), "sm_90")["gdn_decode_cute"]
    assert _code(other) != _code(ours)


def _code(compiled):
    return [line for line in compiled[0].splitlines() if not line.lstrip().startswith((".loc", ".file", "//"))]


def test_it_is_interpreted_and_watched(tmp_path):
    root = tmp_path / "more"
    _changed(root, ("own_part(new_state, Int64(row)", "own_part(new_state, Int64(row) + 1"), "decode-writes-past")
    _changed(root, ("decay * s[i]", "s[i]"), "decode-forgets-not")
    gdnbench = Gdnbench(tmp_path, (root,), in_process=True)
    names = "decode-cute,decode-cute:LANES=16:WARPS=16,decode-writes-past,decode-forgets-not"
    done = gdnbench("verify", "--kernel", names, "--quick", "--json")
    assert done.code == 3, done
    said = {row["label"]: (row["status"], row["reason"]) for row in done.document["gates"]}
    statuses = [said[name][0] for name in names.split(",")]
    assert statuses == ["ok", "ok", "unsafe", "wrong-numbers"]
    lines = (root / "decode" / "writes-past" / "kernel.py").read_text().splitlines()
    line = next(at for at, text in enumerate(lines, 1) if "Int64(row) + 1" in text)
    assert f"kernel.py:{line}: thread " in said["decode-writes-past"][1]


def test_without_the_package_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cutlass", None)
    with pytest.raises(BuildError, match=r"^needs nvidia-cutlass-dsl; pip install 'gdnbench\[cute\]'"):
        compile_ptx(OURS, PARAMS, decode_at(), "sm_90")
