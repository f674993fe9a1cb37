"""Rows divided by their root mean square: y = x / sqrt(mean(x²) + eps) * w.

An op is this contract and `numerics.py`, which says what is right; each folder beside them holds a kernel. Write your
own tensors, sizes and gates here, then your formula there.
"""

from gdnbench import Axis, Op, RoundoffGate, Shape, TensorSpec, WorkloadSpec

op = Op(
    name="example",
    title="rows divided by their root mean square, times weights",
    workloads=WorkloadSpec(
        axes=(
            # An axis is an `int` argument of CUDA functions; a compile-time axis is a macro instead, AXIS_N, and a
            # `tl.constexpr` in Triton. `--shape M=1,64` sets them.
            Axis("M", default=64, doc="rows"),
            Axis("N", default=256, doc="columns", compile_time=True),
        )
    ),
    # In the order of CUDA arguments: inputs, scalars (fp32), outputs, axes that are not compile-time.
    inputs=(TensorSpec("x", ("M", "N"), "bf16"), TensorSpec("w", ("N",), "bf16")),
    scalars=("eps",),
    outputs=(TensorSpec("y", ("M", "N"), "bf16"),),
    gates=(RoundoffGate("y"),),  # how near the oracle each element must be; `roundoff` in numerics.py says how near
    scenarios=("typical", "large", "small"),  # the kinds of inputs that `make_inputs` draws; the first is timed
    flops=lambda workload: {"fp32": 4 * workload.M * workload.N},  # with the bytes of all tensors, the bound of times
    baselines=("example-torch",),  # what other kernels are compared with
    suites={
        "default": (Shape(M=1), Shape(M=64), Shape(M=4096)),  # what `run` measures
        "verify": (Shape(M=1), Shape(M=5, N=200)),  # odd sizes find wrong indices
    },
)
