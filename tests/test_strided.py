"""Tensors whose members lie apart: a kernel that claims to take strides is held to it, and no other is."""

import pytest
from bundled import CATALOG
from faults import Gdnbench
from write_kernels import write_changed, write_kernel

from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.catalog.entry import without_claims
from gdnbench.model.status import Status
from gdnbench.verify.family import extent_of, find_family
from gdnbench.verify.programs import EventProgram, draw_program
from gdnbench.verify.replay import Replay, replay_and_shrink

BUNDLED = default_roots()[0]
OP = """from gdnbench import Axis, ExactGate, Op, TensorSpec, WorkloadSpec

op = Op(
    name="add",
    title="adds one to some members of a pool",
    workloads=WorkloadSpec(axes=(Axis("B", default=3), Axis("N", default=32, compile_time=True))),
    macro_prefix="",
    inputs=(TensorSpec("pool", (8, "N"), "fp32"), TensorSpec("slot", ("B",), "int32")),
    outputs=(TensorSpec("new_pool", (8, "N"), "fp32"),),
    gates=(ExactGate("new_pool"),),
)
"""
NUMERICS = """import torch


def make_inputs(shape, seed, device, scenario):
    random = torch.Generator().manual_seed(seed)
    slot = 1 + torch.randperm(7, generator=random)[: shape.B].int()
    return {"pool": torch.randn(8, shape.N, generator=random).to(device), "slot": slot.to(device)}, {}


def oracle(tensors, scalars):
    found = tensors["pool"].clone()
    found[tensors["slot"].long()] += 1.0
    return {"new_pool": found}
"""
CUDA = """extern "C" __global__ void add(const int* slot, float* new_pool{more}) {{
  float* const member = new_pool + slot[blockIdx.x] * {stride};
  for (int at = threadIdx.x; at < N; at += 32) member[at] += 1.f;
  {last}
}}
"""
TRITON = """import triton
import triton.language as tl


@triton.jit
def add(slot, new_pool{more}, N: tl.constexpr):
    at = new_pool + tl.load(slot + tl.program_id(0)) * {stride} + tl.arange(0, N)
    tl.store(at, tl.load(at) + 1.0)
"""
TORCH = """def bind(t, w, params):
    def call():
        {body}
        return (t.new_pool,)
    return call
"""
LAUNCH = 'entry="add", grid=lambda shape, p: (shape.B,), '
IN_PLACE = 'in_place={"new_pool": "pool"}, '
ON_CUDA = f"""from gdnbench import CudaKernel, CudaLaunch

launch = CudaLaunch({LAUNCH}block=lambda shape, p: 32, arguments=("slot", "new_pool"MORE))
kernel = CudaKernel(launches=(launch,), {IN_PLACE}"""
TAKEN, STRIDE_TAKEN = ON_CUDA.replace("MORE", ""), ON_CUDA.replace("MORE", ', "new_pool_stride"')
ON_TRITON = f"from gdnbench import TritonKernel\n\nkernel = TritonKernel({LAUNCH}{IN_PLACE}"
ON_TORCH = f"from gdnbench import TorchKernel\n\nkernel = TorchKernel({IN_PLACE}"
CLAIM = 'strided=("new_pool",), '
WHOLE = "t.new_pool[t.slot.long()] += 1.0"
FLAT = "t.new_pool.as_strided((8, w.N), (w.N, 1), 0)[t.slot.long()] += 1.0"
OF_BOTH, PACKED = 'strided=("new_pool", "slot"), ', ".slot.as_strided((w.B,), (1,)).clamp(0, 7)"
BEHIND = "if (threadIdx.x == 0 && new_pool_stride > N) member[N] = 0.f;"
CONTIGUOUS = CUDA.format(more="", stride="N", last="")
STRIDED = {"more": ", long long new_pool_stride", "stride": "new_pool_stride"}
KERNELS = {
    "cuda-strided": (STRIDE_TAKEN + CLAIM, CUDA.format(**STRIDED, last="")),
    "cuda-contiguous": (TAKEN + CLAIM, CONTIGUOUS),
    "cuda-unclaimed": (TAKEN, CONTIGUOUS),
    "cuda-behind": (STRIDE_TAKEN + CLAIM, CUDA.format(**STRIDED, last=BEHIND)),
    "triton-strided": (ON_TRITON + CLAIM, TRITON.format(more=", new_pool_stride", stride="new_pool_stride")),
    "triton-contiguous": (ON_TRITON + CLAIM, TRITON.format(more="", stride="N")),
    "torch-strided": (ON_TORCH + CLAIM, TORCH.format(body=WHOLE)),
    "torch-contiguous": (ON_TORCH + CLAIM, TORCH.format(body=FLAT)),
    "torch-unclaimed": (ON_TORCH, TORCH.format(body=FLAT)),
    "torch-strided-slots": (ON_TORCH + OF_BOTH, TORCH.format(body=WHOLE)),
    "torch-contiguous-slots": (ON_TORCH + OF_BOTH, TORCH.format(body=WHOLE.replace(".slot", PACKED))),
    "unknown": (ON_TORCH + CLAIM.replace("new_pool", "polo"), TORCH.format(body=WHOLE)),
    "not-given": (ON_TORCH + CLAIM.replace("new_pool", "pool"), TORCH.format(body=WHOLE)),
}


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    root = tmp_path_factory.mktemp("strided")
    (root / "add").mkdir()
    (root / "add" / "op.py").write_text(OP)
    (root / "add" / "numerics.py").write_text(NUMERICS)
    for name, (declared, source) in KERNELS.items():
        write_kernel(root / "add" / name, f'{declared}name="test-{name}")\n', source)
    return Gdnbench(tmp_path_factory.mktemp("bench"), (root,), in_process=True)


@pytest.fixture(scope="module")
def cases(bench):
    """By kernel its status, its reason, and the gates that were asked, verified without a GPU."""
    done = bench("verify", "--op", "add", "--gpu", "cpu", "-q", "--json", "--seed", "1")
    found = {}
    for gate in done.document["gates"]:
        name = gate["kernel"].removeprefix("test-")
        found.setdefault(name, (gate["status"], gate["reason"], set()))[2].add(gate["gate"])
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cuda-strided", "triton-strided", "torch-strided", "torch-strided-slots"])
def test_a_kernel_that_takes_strides_passes(cases, name):
    status, reason, gates = cases[name]
    assert (status, reason) == ("ok", "")
    assert "new_pool padding unchanged" in gates


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cuda-contiguous", "triton-contiguous", "torch-contiguous"])
def test_a_claim_that_assumes_contiguity_is_refused_by_tensor_and_element(cases, name):
    status, reason, _ = cases[name]
    assert status == "wrong-numbers"
    assert "new_pool exact: fails for 96 elements, first at [" in reason
    assert "(typical, strided inputs)" in reason


@pytest.mark.slow
def test_numbers_of_slots_may_lie_apart_too(cases):
    status, reason, _ = cases["torch-contiguous-slots"]
    assert status == "wrong-numbers"
    assert "(typical, strided inputs)" in reason


@pytest.mark.slow
def test_what_lies_behind_a_member_is_nobodys(cases):
    status, reason, _ = cases["cuda-behind"]
    assert status == "unsafe"
    assert "new_pool padding unchanged: fails for 3 elements" in reason


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cuda-unclaimed", "torch-unclaimed"])
def test_nothing_is_asked_without_a_claim(cases, name):
    status, _, gates = cases[name]
    assert status == "ok"
    assert not any("padding" in gate for gate in gates)


@pytest.mark.slow
def test_a_claim_is_of_a_tensor_that_the_kernel_is_given(bench):
    done = bench("list", "--op", "add")
    assert "strided: the kernel is given no tensor polo" in done.out + done.err
    assert "strided: the kernel is given no tensor pool\n" in done.out + done.err


def test_a_line_that_claims_strides_is_no_part_of_the_source():
    text = b'kernel = TorchKernel(\n    name="a",\n    strided=("new_pool", "new_k_cache"),\n)\n'
    assert without_claims(text) == b'kernel = TorchKernel(\n    name="a",\n)\n'


HONEST = """from gdnbench.launch.numerics import load_file
from gdnbench.origin import bundled_kernels

HONEST = load_file(bundled_kernels() / "decode-pool" / "reference" / "kernel.py")


def bind(t, w, params):
    run = HONEST.bind(t, w, params)
    def call():
        output, pool = run()
        {more}
        return output, pool
    return call
"""


@pytest.fixture(scope="module")
def catalog(tmp_path_factory):
    """With a kernel in torch, one that writes behind slots, and decode-pool-v1 with a stride."""
    root = tmp_path_factory.mktemp("pool")
    for name, more in (
        ("test-honest", ""),
        ("test-behind", "pool.as_strided((1,), (1,), pool.stride(0) - 1)[0] = 1.0"),
    ):
        write_kernel(root / "decode-pool" / name, f'{ON_TORCH}{CLAIM}name="{name}")\n', HONEST.format(more=more))
    folder = write_changed(
        *(CATALOG.entries["decode-pool-v1"], "test-v1-strided", root),
        ("(GDN_POOL_ARGUMENTS)", "(GDN_POOL_ARGUMENTS, long long new_pool_stride)"),
        ("(static_cast<size_t>(place) * GDN_HV + head) * gdn::HEAD", "place * new_pool_stride + head * gdn::HEAD"),
    )
    declared = (folder / "variant.py").read_text()
    (folder / "variant.py").write_text(declared.replace("    invariant", f"    {CLAIM}\n    invariant"))
    return load_catalog([BUNDLED, root])


def replayed(catalog, label, shape, *, program="", device="cpu", slots=64):
    family = find_family(catalog, [label], shape)
    extent = extent_of(family, slots, events=60, batch=8)
    drawn = EventProgram.parse(program, extent) if program else draw_program(1, list(family), extent)
    return replay_and_shrink(Replay(catalog, family, seed=1, slots=slots, device=device), drawn)


def test_slots_of_a_program_lie_apart_where_the_kernels_claim_it(catalog):
    found = replayed(catalog, "test-honest", "K=16 V=16")
    assert (found.status, found.reason) == (Status.OK, "")
    found = replayed(catalog, "test-behind", "K=16 V=16")
    assert (found.program, found.reason) == ("d1", "other slots unchanged: what lies behind slot 0 has changed")


@pytest.mark.slow
def test_an_interpreted_kernel_with_a_stride_passes(catalog):
    found = replayed(catalog, "test-v1-strided", "K=32 V=32", program="d1,0,63 d63,2 c2>3 d3,1")
    assert (found.status, found.reason) == (Status.OK, "")


@pytest.mark.gpu
def test_a_strided_pool_beyond_two_to_the_31_elements(catalog):
    slots = (2**31 // (2 * 128 * 128)) + 64
    found = replayed(catalog, "test-v1-strided", "state=bf16", device="cuda", slots=slots)
    assert (found.status, found.reason) == (Status.OK, "")
