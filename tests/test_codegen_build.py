"""Compiles for two GPUs that need not be here: the catalog's kernels, and kernels that fail as kernels do.

The first run of the tests compiles, and each after a change to the kernels, the compilers or gdnbench's `codegen`.
"""

import io
import re
from itertools import product
from pathlib import Path

import pytest
from able_workloads import able_workload
from decode_workloads import decode_at

from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.catalog.select import find_variant
from gdnbench.codegen.build import Job, build
from gdnbench.codegen.cubin import disassemble
from gdnbench.codegen.nvrtc import compile_cuda, compile_ptx
from gdnbench.codegen.triton import arguments, compile_triton
from gdnbench.errors import BuildError, UsageError
from gdnbench.model.kernel import CudaKernel, CuteKernel, TritonKernel

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent / "data" / "binary" / "kernels"
CATALOG = load_catalog([default_roots()[0], ROOT])
COMPILED = [
    entry
    for entry in CATALOG.entries.values()
    if isinstance(entry.kernel, CudaKernel | TritonKernel)
    and not entry.missing()
    and not entry.folder.is_relative_to(ROOT)
]
ARCHS = ("sm_90", "sm_100")
# Four bf16 a lane are a row of a warp; and of each of four lanes of the products to come a thread widens a word.
LOADS = {"gdn_epilogue_v1": 64, "gdn_layer_epilogue": 64, "nvfp4_gemm_v1_widen": 32, "nvfp4_gemm_v3_widen": 32}
LOADS |= {"nvfp4_dual_gemm_v1_widen": 32, "nvfp4_grouped_gemm_v1_widen": 32}
# Two rows of 128 floats a thread are the first one's idea, and more than 255 registers. What follows spills 8 to 288 B.
SPILLING = {
    *(("decode-rowreg-w2", "gdn_decode_rowreg", arch) for arch in ("sm_90", "sm_100")),
    *((f"prefill-triton{more}", "prologue", "sm_100") for more in ("", "-segments")),
    *(("kda-prefill-triton", "prologue", arch) for arch in ("sm_90", "sm_100")),
    ("prefill-checkpoints-v1", "gdn_checkpoints", "sm_90"),
    ("fp8-gemm-pos-tma-wide", "fp8_gemm_pos_tma", "sm_100"),
    ("prefill-v6", "gdn_prefill", "sm_90"),
    ("nvfp4-grouped-gemm-v2", "nvfp4_grouped_gemm_v2_multiply", "sm_90"),
    *(("prefill-v9", f"gdn_prefill{more}", "sm_90") for more in ("", "_first")),
}


@pytest.fixture(scope="module", autouse=True)
def _nothing_of_tritons_own(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("triton")))
        patch.delenv("TRITON_INTERPRET", raising=False)
        yield


def _build(name, arch="sm_90", workload=decode_at()):  # noqa: B008 - frozen
    entry = CATALOG.entries[name]
    return build(Job(entry, entry.default, workload, arch))


def _variant(label, arch):
    entry, variant = find_variant(CATALOG, "decode", label)
    return build(Job(entry, variant, decode_at(), arch))


def _failure(name, arch="sm_90"):
    with pytest.raises(BuildError) as caught:
        _build(name, arch)
    return caught.value


def test_the_kernels_of_this_test_are_found():
    assert not CATALOG.broken


@pytest.mark.parametrize(
    ("entry", "arch"),
    [
        pytest.param(entry, arch, id=f"{entry.kernel.name}-{arch}")
        for entry in COMPILED
        for arch in ARCHS
        if entry.kernel.fits(arch)
    ],
)
def test_every_kernel_and_preset_compiles_and_none_spills_but_by_design(entry, arch):
    for variant, launch in product((entry.default, *entry.presets), entry.kernel.launches):
        built = build(Job(entry, variant, able_workload(entry), arch, launch=launch.entry))
        assert built.arch == arch
        assert 1 <= built.registers <= 255
        assert (built.spill_bytes > 0) == ((variant.label, launch.entry, arch) in SPILLING)
        assert built.serialized_because == ""
        assert built.load_bits == (0 if entry.kernel.floor == "empty" else LOADS.get(launch.entry, 128))
        assert built.code_bytes == Path(built.cubin).stat().st_size
        assert Path(built.cubin).read_bytes().startswith(b"\x7fELF")
        assert built.symbol == launch.entry + ("_0" if isinstance(entry.kernel, CuteKernel) else "")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("decode-v4", {"LDG.E.128.CONSTANT", "STG.E.128"}),
        ("decode-v5", {"LDG.E.NA.128", "LDG.E.EL.64", "STG.E.EF.128"}),
        ("decode-v5i", {"LDG.E.EF.128", "LDG.E.64.CONSTANT", "STG.E.EF.128"}),
        ("decode-v5:HINT=none", {"LDG.E.128.CONSTANT", "STG.E.128"}),
        ("decode-v6", {"LDGSTS.E.BYPASS.128", "STG.E.128"}),
    ],
)
def test_the_state_moves_as_the_kernels_idea_says(name, expected):
    built = _variant(name, "sm_90")
    assert expected <= set(disassemble(Path(built.cubin), built.symbol).split())


def test_the_head_layout_is_compiled_in():
    assert _build("decode-v4").cubin != _build("decode-v4", workload=decode_at(HQ=16, HV=32)).cubin  # named by content


def test_spills_are_told():
    assert _build("test-spills").spill_bytes >= 4 * (200 - 32)


def _products(built):
    """Of each warpgroup product whether it ends its group, and how often the code waits for groups."""
    sass = disassemble(Path(built.cubin), built.symbol)
    products = re.findall(r"HGMMA\.\S+ R\d+,.*;", sass)
    return ["gsb0" in product for product in products], sass.count("WARPGROUP.DEPBAR.LE gsb0, 0x0")


@pytest.mark.parametrize(
    ("label", "is_serialized", "each_is_waited_for"),
    [
        ("test-warpgroup:TOUCHED=1", True, True),
        ("test-triton-sums", True, True),
        ("test-warpgroup", False, False),
        ("test-triton-sums:COLUMNS=64", False, False),
        ("test-warpgroup:PRODUCTS=1", False, True),  # by its source, so that the code is alike
    ],
)
def test_products_that_ptxas_serializes_are_told_with_its_reason(label, is_serialized, each_is_waited_for):
    built = _variant(label, "sm_90")
    why = "insufficient register resources for the wgmma pipeline"
    assert built.serialized_because == (why if is_serialized else "")
    ends, waits = _products(built)
    assert ends
    assert waits == sum(ends)
    assert all(ends) is each_is_waited_for
    assert _variant(label, "sm_90") == built, "the cache keeps it"


def test_what_ptxas_says_of_a_triton_kernel_is_there_also_where_tritons_cache_has_the_kernel():
    entry, log = CATALOG.entries["test-triton-sums"], io.StringIO()
    compiled = [compile_triton(entry, entry.default.params, decode_at(), "sm_90", log=to) for to in (None, log)]
    assert "are serialized" in log.getvalue()
    assert len({one.hash for one in compiled}) == 1, "who launches it finds it in that cache"


@pytest.mark.parametrize("arch", ["sm_86", "sm_90", "sm_100"])
def test_shared_memory_is_what_the_kernel_declares(arch):
    assert _build("test-shared", arch).shared_bytes == 256


def test_an_error_names_file_line_and_macros_and_nothing_else():
    error = _failure("test-syntax-error")
    source = CATALOG.entries["test-syntax-error"].source
    first, *rest = error.message.splitlines()
    assert first == f'{source}:5: error: identifier "undefined_name" is undefined'
    macros = "macros here: GDN_HQ=4, GDN_HV=8, GDN_K=128, GDN_V=128"
    assert [line.strip() for line in rest] == ["output[0] = undefined_name;", "^", macros]


def test_a_triton_kernel_is_compiled_for_no_architecture_before_its_instructions():
    entry = CATALOG.entries["nvfp4-gemm-scaled"]
    with pytest.raises(BuildError, match="nvfp4-gemm-scaled has instructions that GPUs have from sm_100 on"):
        build(Job(entry, entry.default, entry.op.default, "sm_90"))


@pytest.mark.parametrize("op", ["nvfp4-gemm", "nvfp4-dual-gemm", "nvfp4-grouped-gemm"])
@pytest.mark.parametrize(
    ("kernel", "arch", "product"),
    [("scaled", "sm_100", "UTCOMMA.4X"), ("upcast", "sm_90", "HGMMA"), ("upcast", "sm_100", "UTCHMMA")],
)
def test_products_in_nvfp4_are_tensor_cores_of_four_bits_or_of_fp16(op, kernel, arch, product):
    """UTCOMMA.4X is `tcgen05.mma` of the kind mxf4nvf4 with four scales for 64 numbers."""
    entry = CATALOG.entries[f"{op}-{kernel}"]
    built = build(Job(entry, entry.default, entry.op.default, arch, launch=entry.kernel.launches[0].entry))
    found = set(re.findall(r"\b\w*MMA(?:\.4X)?\b", disassemble(Path(built.cubin), built.symbol)))
    assert found == {product}


@pytest.mark.parametrize("compile_it", [compile_cuda, compile_ptx])
def test_instructions_of_one_architecture_alone_are_compiled_for_no_other(compile_it):
    entry = CATALOG.entries["prefill-v3"]
    assert entry.kernel.fits("sm_90")
    assert not entry.kernel.fits("sm_100")
    with pytest.raises(BuildError, match="prefill-v3 has instructions that sm_90a alone knows"):
        compile_it(entry, entry.default.params, entry.op.default, "sm_100")


def test_an_entry_that_is_not_in_the_source():
    error = _failure("test-no-such-entry")
    assert error.message.endswith("kernel.cu defines no kernel missing")
    assert "variant.py" in error.hint


def test_an_error_in_a_triton_function_that_the_kernel_calls():
    error = _failure("test-wrong-line")
    source = CATALOG.entries["test-wrong-line"].source
    first, *rest = error.message.splitlines()
    assert first.startswith(f"{source}:9: error: AttributeError")
    assert rest == ["    return x.nothing()", "           ^"]


def test_a_triton_argument_that_nothing_provides():
    error = _failure("test-unknown-argument")
    assert "takes BLOCK" in error.message
    assert "HQ: int" in error.message or "HQ: constexpr" in error.message
    assert "new_state" in error.message


def test_a_source_that_raises_when_imported():
    error = _failure("test-import-error")
    source = CATALOG.entries["test-import-error"].source
    assert error.message == f"{source}:5: RuntimeError: no table for this GPU"


@pytest.mark.parametrize("name", ["decode-v4", "decode-triton"])
def test_what_is_no_architecture(name):
    with pytest.raises(UsageError, match="not an architecture"):
        _build(name, "h200")


def test_an_architecture_that_the_compiler_does_not_know():
    with pytest.raises(UsageError, match="does not know sm_35") as caught:
        _build("decode-v4", "sm_35")
    assert "sm_90" in caught.value.hint
    assert "sm_35" in _failure("decode-triton", "sm_35").message


def test_arguments_of_a_triton_launch_come_in_the_functions_order():
    entry = CATALOG.entries["decode-triton"]
    compiled = compile_triton(entry, entry.default.params, decode_at(), "sm_90")
    names = [tensor.name for tensor in (*entry.op.inputs, *entry.op.outputs)]
    given = arguments(compiled, {name: name for name in (*names, "scale")})
    assert given == (*names[:8], "scale", *names[8:], 4, 8, 128, 128, 8)
