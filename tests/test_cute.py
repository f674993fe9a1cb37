"""Kernels in CuTe DSL: built for GPUs that need not be here, refused where they are wrong, and interpreted."""

import json
import re
import sys
from importlib import import_module
from types import SimpleNamespace

import pytest
from bundled import CATALOG
from cuda.bindings.driver import CUstream
from decode_workloads import decode_at
from faults import Gdnbench
from write_kernels import write_changed

from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.codegen.ahead import build_all
from gdnbench.codegen.build import Job, build, build_key, compile_ptx
from gdnbench.codegen.cache import load_build
from gdnbench.codegen.cute import compile_cute
from gdnbench.errors import BuildError, UsageError
from gdnbench.exchange.schema import DTYPE_NAMES
from gdnbench.model.case import Case, arguments_of
from gdnbench.model.declaration import FACTS
from gdnbench.model.kernel import launch_of
from gdnbench.profile.collect import marked_launches

cutlass = pytest.importorskip("cutlass", reason="no CuTe DSL here: pip install 'gdnbench[cute]'")
pytestmark = pytest.mark.slow

NVFP4 = ("nvfp4-gemm-cute", "nvfp4-dual-gemm-cute", "nvfp4-dual-gemm-native", "nvfp4-gemm-native")
NAMES = ("decode-cute", "prefill-cute", *NVFP4)
OURS, PREFILL, GEMM, DUAL, NATIVE, ONE_NATIVE = (CATALOG.entries[name] for name in NAMES)
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
    "ptxas": (("@never trap;", "@never tarp;"), "kernel.py: error: ptxas: .*tarp"),
    "shared": (IN_SHARED, "allocates 4,096 bytes of shared memory, and its launch has 0"),
    "import": (("from cutlass", "from .absent import x\nfrom cutlass"), "kernel.py:3: ModuleNotFoundError"),
}


def _changed(root, *changes, name="decode-changed", entry=OURS):
    write_changed(entry, name, root, *changes)
    return load_catalog([default_roots()[0], root]).entries[name]


@pytest.mark.parametrize("arch", ["sm_90", "sm_100"])
@pytest.mark.parametrize(("entry", "threads", "registers"), [(OURS, 128, 80), (PREFILL, 256, 128)], ids=NAMES[:2])
def test_it_is_built_for_a_gpu_that_is_not_here(entry, threads, registers, arch):
    made = build(Job(entry, entry.default, entry.op.default, arch))
    assert made.symbol == f"{launch_of(entry.kernel, '').entry}_0"
    assert (made.shared_bytes, made.spill_bytes, made.load_bits) == (0, 0, 128)
    assert made.required_threads == threads
    assert 32 < made.registers < registers


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


@pytest.mark.parametrize("place", ["decode/changed/parts", "decode/parts", "include/gdn/parts"])
def test_a_build_is_of_its_threads_and_of_what_it_imports(tmp_path, place):
    """The DSL compiles for a number of threads, which only `variant.py` says, and sources may lie in several files."""
    module = "gdn.parts" if "gdn" in place else "parts"
    entry = _changed(tmp_path, ("from cutlass import", f"from .{module} import LOG2_E\nfrom cutlass import"))
    own = "LOG2_E = 1.442695041\n"
    entry.source.write_text(entry.source.read_text().replace(own, ""))
    parts = tmp_path / f"{place}.py"
    parts.parent.mkdir(parents=True, exist_ok=True)
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
    lines = (line.strip() for line in compiled[0].splitlines())
    return [line for line in lines if line and not line.startswith((".loc", ".file", "//"))]


MARKED = (
    ("from cutlass import", "from .gdnbench.phases import PhaseClock\nfrom cutlass import"),
    ("    rows = WARPS", '    clock = PhaseClock("load", "sums", "store")\n    rows = WARPS'),
    ("    loads_first(B)\n", '    loads_first(B)\n    clock.mark("load", s[0], v_row)\n'),
    ("    sk, sq, qk = sums\n", '    sk, sq, qk = sums\n    clock.mark("sums", sk)\n'),
    ("    if lane == 0:\n", '    if lane == 0:\n        clock.mark("store")\n'),
    ("delta * qk)).to(BFloat16)\n", "delta * qk)).to(BFloat16)\n    clock.end()\n"),
)


def test_marks_leave_code_in_a_stamped_build_alone(tmp_path):
    """One stands in a branch, through which the clock goes as other values do."""
    entry, bare = (_changed(tmp_path, *changes, name=f"decode-{len(changes)}") for changes in (MARKED, ()))
    plain, stamped, noting = (
        compile_cute(entry, PARAMS, decode_at(), "sm_90", stamped=stamped)[1] for stamped in range(3)
    )
    assert _code((plain,)) == _code(compile_ptx(bare, PARAMS, decode_at(), "sm_90")["gdn_decode_cute"])
    assert (stamped.count("%clock"), noting.count("%clock")) == (5, 5)  # begin, three marks and end
    assert ("gdnbench_phase_passes" in stamped, "gdnbench_phase_passes" in noting) == (False, True)
    names = ", ".join(map(str, b"load, sums, store"))
    assert re.search(rf"\.b8 gdnbench_phase_names\[\d+\] = \{{{names}", stamped)
    assert marked_launches(entry, Case(entry.default, entry.op.default), "sm_90") == ("gdn_decode_cute",)
    with pytest.raises(UsageError, match="has no marks") as caught:
        marked_launches(bare, Case(bare.default, bare.op.default), "sm_90")
    assert "import .gdnbench.phases" in caught.value.hint
    assert {name for name, _ in entry.source_files()} == {"6/kernel.py", "6/variant.py"}


def test_a_mark_of_another_phase_is_told(tmp_path):
    entry = _changed(tmp_path, *MARKED[:3], ('mark("load"', 'mark("loads"'))
    with pytest.raises(BuildError, match=r"kernel.py:\d+: error: there is no phase loads, there are load, sums, store"):
        build(Job(entry, entry.default, decode_at(), "sm_90"))


def test_it_is_interpreted_and_watched(tmp_path, same_folder):
    row = "own_part(new_state, Int64(row)"
    _changed(same_folder, (row, f"{row} + 1"), name="decode-writes-past")
    _changed(same_folder, ("decay * s[i]", "s[i]"), name="decode-forgets-not")
    gdnbench = Gdnbench(tmp_path, (same_folder,), in_process=True)
    names = "decode-cute,decode-cute:LANES=16:WARPS=16,decode-writes-past,decode-forgets-not"
    done = gdnbench("verify", "--kernel", names, "--quick", "--json")
    assert done.code == 3, done
    said = {row["label"]: (row["status"], row["reason"]) for row in done.document["gates"]}
    statuses = [said[name][0] for name in names.split(",")]
    assert statuses == ["ok", "ok", "unsafe", "wrong-numbers"]
    lines = (same_folder / "decode" / "writes-past" / "kernel.py").read_text().splitlines()
    line = next(at for at, text in enumerate(lines, 1) if "Int64(row) + 1" in text)
    assert f"kernel.py:{line}: thread " in said["decode-writes-past"][1]


PARTS = "    part_a, part_b = mma.make_fragment_A(shared_a), mma.make_fragment_B(shared_b)\n"
ZEROS = """
    its_sums, zeros = sums[(None, None), 0, 0], cute.make_rmem_tensor(COLUMNS, cutlass.Float32)
    zeros.fill(0.0)
    atom = cute.make_copy_atom(tcgen05.St32x32bOp(tcgen05.Repetition(COLUMNS)), cutlass.Float32)
    clear = tcgen05.make_tmem_copy(atom, its_sums).get_slice(thread)
    own_zeros = cute.make_tensor(zeros.iterator, clear.partition_S(its_sums).layout)
    cute.copy(clear, own_zeros, clear.partition_D(its_sums))
    cute.arch.fence_view_async_tmem_store()
    fence_tensor("before")
    cute.arch.sync_threads()
    fence_tensor("after")
"""
ON_SM_100 = {
    "right": (("", ""), "ok", ""),
    "never-adds": (("chunk > 0 if part == 0 else True", "False"), "wrong-numbers", ""),
    "adds-to-nothing": (("chunk > 0 if part == 0 else True", "True"), "unsafe", "tensor memory that nobody wrote"),
    "adds-to-zeros": ((PARTS, PARTS + ZEROS), "ok", ""),
    "unfenced": (("        cute.arch.fence_view_async_shared()\n", ""), "unsafe", "no `fence.proxy.async` between"),
    "no-wait": (("        cute.arch.mbarrier_wait(barrier, chunk % 2)\n", ""), "unsafe", "no barrier between"),
    "no-commit": (("                tcgen05.commit(barrier)", "                pass"), "unsafe", "never completes"),
    "keeps": (
        ("cute.arch.dealloc_tmem(held, columns, is_two_cta=blocks == 2)", "pass"),
        "unsafe",
        "has not given back",
    ),
    "small": (("begin(warp, reserved", "begin(warp, 32"), "unsafe", "beside the columns"),
    "gives-back-more": (("end(warp, reserved", "end(warp, 128"), "unsafe", "not reserved"),
    "one-quarter": (("get_slice(thread)", "get_slice(thread % 32)"), "unsafe", "another quarter of the lanes"),
}
LOAD = "    own = load_sums(sums[(None, None), 0, 0], thread, COLUMNS)\n"
BY_SHAPE = """
    its_sums, places = sums[(None, None), 0, 0], cute.make_identity_tensor((ROWS, COLUMNS))
    by_shape = cute.make_copy_atom(tcgen05.Ld{}Op(tcgen05.Repetition(2)), cutlass.Float32)
    part = tcgen05.make_tmem_copy(by_shape, its_sums).get_slice(thread)
    at = part.partition_D(places)
    got = cute.make_rmem_tensor(at.shape, cutlass.Float32)
    cute.copy(part, part.partition_S(its_sums), got)
    cute.arch.fence_view_async_tmem_load()
    for i in range_constexpr(cute.size(got)):
        if at[i][0] < M and at[i][1] < N:
            number = (got[i] * 2.0**16).to(cutlass.Float16)
            cute.make_tensor(C, cute.make_layout(M * N))[at[i][0] * N + at[i][1]] = number
    M = Int32(0)  # so that rows are not stored as well
"""
SHAPES = ("16x64b", "16x128b", "16x256b")
ON_SM_100 |= {f"by-{shape}": ((LOAD, LOAD + BY_SHAPE.format(shape)), "ok", "") for shape in SHAPES}
OF_TWO_BLOCKS = {
    "pairs": (("", ""), "ok", ""),
    "apart": (("meet(CTAS)\n        if warp", "meet(1)\n        if warp"), "unsafe", "no barrier between"),
    "alone": (("commit(barrier, 3, ", "commit(barrier, 1, "), "unsafe", "never completes"),
    "same-half": (("rank * share", "0"), "wrong-numbers", ""),
    "halves-swapped": (("rank * share", "(1 - rank) * share"), "wrong-numbers", ""),
    "second-begins": (("rank == 0", "rank == 1"), "unsupported", "tcgen05.mma.cta_group::2"),
    "ends-early": (("    meet(blocks)\n    if warp", "    if warp"), "unsafe", ""),
    "whole-barrier": (("tcgen05.commit(barrier, 3, ", "tcgen05.commit(barrier, None, "), "unsafe", "never completes"),
}
LAST_WAIT = "    cute.arch.mbarrier_wait(barriers + (steps - 1) % STAGES, (steps - 1) // STAGES % 2)\n"
DUAL_ON_SM_100 = {
    "right": (("", ""), "ok", ""),
    "other-gate": (("silu(gate) * value", "silu(value) * gate"), "wrong-numbers", ""),
    "no-wait": (("if chunk >= STAGES:", "if chunk >= steps:"), "unsafe", "is overwritten while the `tcgen05`"),
    "sums-early": ((LAST_WAIT, ""), "unsafe", "of a product that it has not waited for"),
    "other-phase": (("(chunk // STAGES - 1) % 2", "chunk // STAGES % 2"), "unsafe", "never completes"),
    "one-barrier": (("commit(barriers + stage)", "commit(barriers)"), "unsafe", "never completes"),
}
BROUGHT = """    bring_scales(shared, held, thread)
    bring_scales(shared + SCALES * 2, held + HELD // 2, thread)
    cute.arch.fence_view_async_tmem_store()
"""
SHOWN = """    cute.arch.fence_view_async_shared()
    fence_tensor("before")
    cute.arch.sync_threads()
"""
IN_NVFP4 = {
    "right": (("", ""), "ok", ""),
    "no-wait": (("if ahead >= STAGES and ahead < steps", "if ahead >= STAGES + steps"), "unsafe", "`tcgen05`"),
    "not-met": ((BROUGHT + SHOWN, SHOWN + BROUGHT), "unsafe", "another thread stores, with no barrier between"),
    "scales-early": (("bring_all_scales(at_scales + stage", "bring_all_scales(at_scales + 0 * stage"), "unsafe", ""),
    "sums-early": ((LAST_WAIT, ""), "unsafe", "of a product that it has not waited for"),
    "copies-early": (("wait_group(ahead_by)", "wait_group(ahead_by + 1)"), "unsafe", "without waiting for the copy"),
    "unfenced": (("    cute.arch.fence_view_async_shared()\n", ""), "unsafe", "no `fence.proxy.async` between"),
    "one-quarter": ((" + (warp << 21), thread)", ", thread)"), "unsafe", "another quarter of the lanes"),
    "other-scales": (("at % 32 * 4 + at // 32", "at"), "wrong-numbers", ""),
    "other-pieces": (("(piece ^ row % 8)", "piece"), "wrong-numbers", ""),
}
OF_PAIRS = {
    "right": (("", ""), "ok", ""),
    "first-of-b": (("(B, sfb, pair,", "(B, sfb, pair * 0,"), "wrong-numbers", ""),
    "scales-swapped": (("(of_a, of_b), first", "(of_b, of_a), first"), "wrong-numbers", ""),
    "part-of-a-tile": (("(rows + ROWS - 1) // ROWS * ROWS if", "rows if"), "wrong-numbers", ""),
    "into-the-first": (("Int64(pair) * M + row", "Int64(row)"), "unsafe", ""),
}
WATCHED = {
    "one": (GEMM, "", "M=3 N=48 K=256", ON_SM_100),
    "pair": (GEMM, ":CTAS=2", "M=260 N=48 K=256", OF_TWO_BLOCKS),
    "two": (DUAL, "", "M=3 N=48 K=256", DUAL_ON_SM_100),
    "native": (NATIVE, ":STAGES=3", "M=3 N=48 K=1280", IN_NVFP4),
    "native-one": (ONE_NATIVE, ":STAGES=3", "M=3 N=48 K=256 L=2 scales=tiled", OF_PAIRS),
}


@pytest.mark.parametrize("which", WATCHED)
def test_products_of_sm_100_are_interpreted_and_watched(tmp_path, same_folder, which):
    entry, params, shape, changes = WATCHED[which]
    op = entry.op.name
    for name, (change, _, _) in changes.items():
        write_changed(entry, f"{op}-{name}", same_folder, change)
    if (cleared := same_folder / op / "adds-to-zeros" / "kernel.py").exists():
        cleared.write_text(cleared.read_text().replace("chunk > 0 if part == 0 else True", "True"))
    gdnbench = Gdnbench(tmp_path, (same_folder,), in_process=True)
    names = ",".join(f"{op}-{name}:COLUMNS=64{params}" for name in changes)
    done = gdnbench("verify", "--kernel", names, "--quick", "--shape", shape, "--json")
    said = {row["kernel"].removeprefix(f"{op}-"): (row["status"], row["reason"]) for row in done.document["gates"]}
    assert {name: status for name, (status, _) in said.items()} == {name: each[1] for name, each in changes.items()}
    for name, (_, _, reason) in changes.items():
        assert reason in said[name][1]


@pytest.mark.parametrize("entry", [GEMM, DUAL, NATIVE, ONE_NATIVE], ids=NVFP4)
def test_a_gpu_without_the_instructions_is_named(entry):
    for arch in ("sm_90", "sm_120"):
        with pytest.raises(BuildError, match=f"has instructions that sm_100a alone knows, .* compiled for {arch}"):
            build(Job(entry, entry.default, entry.op.default, arch))


def test_what_the_interpreter_does_not_know_is_named(tmp_path):
    shift = "{ .reg .b32 t; mov.b32 t, 0; tcgen05.shift.cta_group::1.down [t]; }"
    change = ('f"tcgen05.fence::{way}_thread_sync;"', f'"{shift}"')
    entry = _changed(tmp_path, change, name="nvfp4-gemm-shifts", entry=GEMM)
    done = Gdnbench(tmp_path, (tmp_path,), in_process=True)("verify", entry.kernel.name, "--quick")
    assert "`tcgen05.shift.cta_group::1.down` cannot be interpreted" in done.out, done


def _definition(op):
    """As the contest has it: the op's names, and a reference that stands alone."""
    axes = {dim: {"type": "var"} for each in op.tensors for dim in each.dims}
    axes |= {name: {"type": "const", "value": size} for name, size in op.default.compile_time.items()}
    tensors = {each.name: {"shape": each.dims, "dtype": DTYPE_NAMES[each.dtype]} for each in op.tensors}
    outputs = {each.name: tensors.pop(each.name) for each in op.outputs}
    inputs = tensors | {name: {"shape": None, "dtype": "float32"} for name in op.scalars}
    said = {"name": "gdn", "op_type": op.name, "reference": "def run(*tensors): raise NotImplementedError"}
    return {**said, "axes": axes, "inputs": inputs, "outputs": outputs}


@pytest.mark.parametrize(("entry", "shape"), [(OURS, "B=1"), (PREFILL, "lengths=5+3")], ids=NAMES[:2])
def test_what_goes_out_and_comes_back_compiles_to_the_same_code(tmp_path, monkeypatch, entry, shape):
    """It asks for the package, by whatever name a Solution has for it."""
    gdnbench, op, back = Gdnbench(tmp_path, in_process=True), entry.op, f"{entry.op.name}-back"
    words = f"exchange export {entry.kernel.name} --shape {shape} --to {tmp_path}"
    if entry is PREFILL:  # whose own oracle needs gdnbench
        (tmp_path / "theirs.json").write_text(json.dumps(_definition(op)))
        words += f" --definition {tmp_path / 'theirs.json'}"
    done = gdnbench(*words.split())
    assert done.code == 0, done.err
    [stored], [defined] = (list(tmp_path.glob(f"{kind}/**/*.json")) for kind in ("solutions", "definitions"))
    solution = json.loads(stored.read_text())
    assert solution["spec"]["dependencies"] == ["cutlass"]
    solution["spec"]["dependencies"] += ["nvidia-cutlass-dsl", "torch"]
    stored.write_text(json.dumps(solution))
    took = f"exchange import {stored} {defined} --op {op.name} --name {back} --to {tmp_path / 'kernels'}"
    assert gdnbench(*took.split()).code == 0
    imported = load_catalog([default_roots()[0], tmp_path / "kernels"]).entries[back]
    assert imported.kernel.requires == entry.kernel.requires
    monkeypatch.syspath_prepend(tmp_path / "kernels")
    module, launch = import_module(f"{op.name}.back.source.solution"), launch_of(entry.kernel, "")
    address, kinds = SimpleNamespace(data_ptr=lambda: 0), {spec.name: FACTS[spec.dtype].cute for spec in op.tensors}
    values = {name: module.pointer(address, getattr(cutlass, kind)) for name, kind in kinds.items()}
    values |= {"scale": cutlass.Float32(1.0), "B": cutlass.Int32(1)}
    given = [values.get(name, cutlass.Int64(1)) for name in arguments_of(op, entry.kernel, launch)]
    grid = [cutlass.Int32(size) for size in launch.grid(op.default, entry.default.params)]
    function, options = getattr(module, f"launch_{launch.entry}"), f"--gpu-arch sm_90 --keep-ptx --dump-dir {tmp_path}"
    compiled = cutlass.cute.compile(function, *given, *grid, CUstream(0), options=options)
    ours, symbol = compile_ptx(entry, entry.default.params, op.default, "sm_90")[launch.entry]
    theirs = re.sub(r"kernel_cutlass_\w+?_0(?=\W|_param)", symbol, compiled.__ptx__)
    assert _code((theirs,)) == _code((ours,))


def test_without_the_package_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cutlass", None)
    with pytest.raises(BuildError, match=r"^needs nvidia-cutlass-dsl; pip install 'gdnbench\[cute\]'"):
        compile_ptx(OURS, PARAMS, decode_at(), "sm_90")
