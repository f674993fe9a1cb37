"""Kernels of an op whose declaration asks for a launch that CUDA refuses, one kind of fault each, and good ones."""

from dataclasses import dataclass

OP = '''"""twice: each element times two."""

from gdnbench import Axis, Op, RoundoffGate, Shape, TensorSpec, WorkloadSpec

op = Op(
    name="twice",
    title="twice",
    workloads=WorkloadSpec(
        axes=(Axis("M", default=4, doc="rows"), Axis("N", default=256, doc="columns", compile_time=True)),
    ),
    inputs=(TensorSpec("x", ("M", "N"), "fp32"),),
    outputs=(TensorSpec("y", ("M", "N"), "fp32"),),
    gates=(RoundoffGate("y"),),
    suites={"default": (Shape(M=4),), "verify": (Shape(M=2), Shape(M=4))},
)
'''
NUMERICS = """import torch


def make_inputs(workload, seed, device, scenario):
    generator = torch.Generator().manual_seed(seed)
    return {"x": torch.randn(workload.M, workload.N, generator=generator).to(device)}, {}


def oracle(tensors, scalars):
    return {"y": 2 * tensors["x"].double()}


def roundoff(tensors, scalars):
    return {"y": 2 * tensors["x"].abs()}
"""
CUDA = """extern "C" __global__ void %(head)s twice(const float* __restrict__ x, float* __restrict__ y, int M) {
  const size_t blocks = static_cast<size_t>(gridDim.x) * gridDim.y * gridDim.z;
  const size_t block = (static_cast<size_t>(blockIdx.z) * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  for (size_t at = block * blockDim.x + threadIdx.x; at < static_cast<size_t>(M) * AXIS_N; at += blocks * blockDim.x)
    y[at] = 2.f * x[at];
}
"""
TRITON = """import triton
import triton.language as tl


@triton.jit
def twice(x, y, M, N: tl.constexpr):
    program = tl.program_id(0).to(tl.int64) * tl.num_programs(1) + tl.program_id(1)
    at = program * N + tl.arange(0, N)
    tl.store(y + at, 2.0 * tl.load(x + at, mask=at < M * N), mask=at < M * N)
"""
ROWS = "grid=lambda workload, p: (workload.M,), "
BLOCK = "block=lambda workload, p: %s, "


@dataclass(frozen=True)
class Refused:
    """A kernel.

    Attributes:
        declared: the rest of its declaration.
        told: a word of why it is refused; empty for a good one.
        head: what stands before the function's name.
        is_triton: whether it is in Triton.
    """

    declared: str
    told: str
    head: str = ""
    is_triton: bool = False


KERNELS = {
    "grid-y": Refused("grid=lambda w, p: (1, w.M << 15), " + BLOCK % 64, "y takes 1 to 65,535"),
    "grid-z": Refused("grid=lambda w, p: (1, 1, w.M << 15), " + BLOCK % 64, "z takes 1 to 65,535"),
    "threads": Refused(ROWS + BLOCK % 2048, "a block of 2,048 threads"),
    "no-threads": Refused(ROWS + BLOCK % 0, "a block of 0 threads"),
    "shared": Refused(ROWS + BLOCK % 64 + "shared_bytes=lambda w, p: 300_000, ", "300,000 bytes of shared memory"),
    "bounds": Refused(ROWS + BLOCK % 256, "__launch_bounds__ are 128", "__launch_bounds__(AXIS_N / 2)"),
    "bounds-macro": Refused(ROWS + BLOCK % 256, "__launch_bounds__ are 96", "BOUNDED"),
    "cluster-large": Refused("grid=lambda w, p: (16,), " + BLOCK % 64, "a cluster of 16", "__cluster_dims__(16)"),
    "cluster-part": Refused("grid=lambda w, p: (w.M + 1,), " + BLOCK % 64, "no whole clusters", "__cluster_dims__(2)"),
    "triton-grid": Refused("grid=lambda w, p: (1, w.M << 15), ", "y takes 0 to 65,535", is_triton=True),
    "triton-warps": Refused(ROWS + "warps=lambda w, p: 64, ", "2,048 threads", is_triton=True),
    "good": Refused(ROWS + BLOCK % 128, "", "__launch_bounds__(128)"),
    "good-wide": Refused(ROWS + BLOCK % 1024, ""),
    "good-cluster": Refused("grid=lambda w, p: (8,), " + BLOCK % 64, "", "__cluster_dims__(8)"),
    "good-large": Refused("grid=lambda w, p: (1, 65_535), " + BLOCK % 1, ""),
    "good-shared": Refused(ROWS + BLOCK % 64 + "shared_bytes=lambda w, p: 227 * 1024, ", ""),
    "good-either": Refused(ROWS + BLOCK % 256, "", "EITHER"),
    "good-triton": Refused(ROWS + "warps=lambda w, p: 4, ", "", is_triton=True),
}
_EITHER = """#if AXIS_N < 256
extern "C" __global__ void __launch_bounds__(64) twice(const float* x, float* y, int M) {}
#else
%s#endif
"""


def write_kernels(root):
    """The op with every kernel, `twice-NAME`."""
    op = root / "twice"
    op.mkdir(parents=True)
    (op / "op.py").write_text(OP)
    (op / "numerics.py").write_text(NUMERICS)
    for name, kernel in KERNELS.items():
        kind = "TritonKernel" if kernel.is_triton else "CudaKernel"
        (op / name).mkdir()
        (op / name / "variant.py").write_text(
            f'"""A test\'s."""\n\nfrom gdnbench import {kind}\n\n'
            f'kernel = {kind}(name="twice-{name}", entry="twice", {kernel.declared})\n'
        )
        file, source = ("kernel.py", TRITON) if kernel.is_triton else ("kernel.cu", _cuda(kernel.head))
        (op / name / file).write_text(source)


def _cuda(head):
    if head == "EITHER":
        return _EITHER % CUDA % {"head": ""}
    if head == "BOUNDED":
        return "#define BOUNDED __launch_bounds__(96)\n" + CUDA % {"head": head}
    return CUDA % {"head": head}
