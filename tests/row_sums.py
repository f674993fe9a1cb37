"""A toy op, sums of rows, for kernels in CUDA C++ and in Triton that a test writes."""

import json
from dataclasses import dataclass

from faults import Gdnbench

OP = '''"""y = the sums of the rows of x, which has N columns."""

from gdnbench import Axis, Op, RoundoffGate, Shape, TensorSpec, WorkloadSpec

op = Op(
    name="rowsum",
    title="sums of rows",
    workloads=WorkloadSpec(
        axes=(Axis("M", default=4, doc="rows"), Axis("N", default=32, doc="columns", compile_time=True)),
    ),
    inputs=(TensorSpec("x", ("M", "N"), "fp32"),),
    outputs=(TensorSpec("y", ("M",), "fp32"),),
    gates=(RoundoffGate("y"),),
    suites={"verify": (Shape(M=4),)},
)
'''
NUMERICS = '''"""In float64."""

import torch


def make_inputs(workload, seed, device, scenario):
    drawn = torch.randn(workload.M, workload.N, generator=torch.Generator().manual_seed(seed))
    return {"x": drawn.to(device)}, {}


def oracle(tensors, scalars):
    return {"y": tensors["x"].double().sum(1)}


def roundoff(tensors, scalars):
    return {"y": 8 * tensors["x"].double().abs().sum(1)}
'''
CUDA = '''"""{name}"""

from gdnbench import CudaKernel, CudaLaunch, TensorSpec

kernel = CudaKernel(name="rowsum-{name}", scratch=({scratch}), launches=({launches}))
'''
TRITON = '''"""{name}"""

from gdnbench import TensorSpec, TritonKernel, TritonLaunch

kernel = TritonKernel(name="rowsum-{name}", scratch=({scratch}), launches=({launches}))
'''


@dataclass(frozen=True)
class Launch:
    """Of a CUDA kernel.

    Attributes:
        grid: in Python, of the workload `w`.
        block: threads, likewise.
        arguments: by name.
        entry: the function.
    """

    grid: str = "w.M"
    block: str = "32"
    arguments: tuple[str, ...] = ("x", "y")
    entry: str = "k"

    def __str__(self):
        functions = f"grid=lambda w, p: ({self.grid},), block=lambda w, p: {self.block}"
        return f'CudaLaunch(entry="{self.entry}", {functions}, arguments={self.arguments!r}), '


@dataclass(frozen=True)
class Made:
    """A kernel of a test.

    Attributes:
        source: in CUDA C++, or a module in Triton.
        status: that it should end with.
        words: that the reason should have.
        launches: of a CUDA kernel.
        scratch: declarations of tensors, in Python.
        grid: of a Triton kernel's launches, in Python; none for a CUDA kernel.
        entries: likewise their functions.
    """

    source: str
    status: str = "ok"
    words: str = ""
    launches: tuple[Launch, ...] = (Launch(),)
    scratch: str = ""
    grid: str = ""
    entries: tuple[str, ...] = ("k",)

    def declaration(self, name):
        if self.grid:
            launches = "".join(
                f'TritonLaunch(entry="{each}", grid=lambda w, p: {self.grid}), ' for each in self.entries
            )
            return TRITON.format(name=name, launches=launches, scratch=self.scratch)
        return CUDA.format(name=name, scratch=self.scratch, launches="".join(map(str, self.launches)))


def made(folder, kernels):
    """The command line with the op and kernels by name, whose folders are written."""
    op = folder / "kernels" / "rowsum"
    op.mkdir(parents=True)
    (op / "op.py").write_text(OP)
    (op / "numerics.py").write_text(NUMERICS)
    for name, kernel in kernels.items():
        (op / name).mkdir()
        (op / name / "variant.py").write_text(kernel.declaration(name))
        (op / name / ("kernel.py" if kernel.grid else "kernel.cu")).write_text(kernel.source)
    return Gdnbench(folder, (folder / "kernels",), in_process=True)


def verdicts(bench, gpu="cpu"):
    """Status and reason of each kernel, by name; without a GPU unless one is named, and on that at hand for none."""
    where = ("--gpu", gpu) if gpu else ()
    done = bench("verify", "rowsum-*", *where, "-q", "--json")
    rows = json.loads(done.out)["gates"]
    return {row["kernel"].removeprefix("rowsum-"): (row["status"], row["reason"]) for row in rows}
