"""Kernels of a small op, good and flawed, and stored runs of them, made up."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from run_data import case, failed, measured, round_rows, store, versus

from gdnbench.catalog.catalog import load_catalog
from gdnbench.model.status import Role
from gdnbench.store.samples import write_rounds

TOYS = Path(__file__).parent / "toys"
ROUNDS = 12
VARIANT = '''"""An element a thread."""

from gdnbench import CudaKernel

kernel = CudaKernel(
    name="gemm-{name}",
    entry="element",
    grid=lambda workload, p: (-(-workload.M * workload.N // 64),),
    block=lambda workload, p: 64,
)
'''
SOURCE = """#include <cuda_bf16.h>

extern "C" __global__ void element(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C, int M) {
    int at = blockIdx.x * 64 + threadIdx.x;
    if (at >= M * AXIS_N) return;
    const __nv_bfloat16* a = A + at / AXIS_N * AXIS_Kd;
    const __nv_bfloat16* b = B + at % AXIS_N * AXIS_Kd;
    float sum = 0.f;
    for (int k = 0; k < AXIS_Kd; ++k) sum += __bfloat162float(a[k]) * __bfloat162float(b[k]);
    C[at] = __float2bfloat16(sum);
}
"""


def write_kernel(root, name, source=SOURCE, variant=VARIANT):
    """A kernel `gemm-NAME` in a folder of kernels, beside the op."""
    folder = root / "gemm" / name
    folder.mkdir(parents=True)
    (folder / "variant.py").write_text(variant.format(name=name))
    (folder / "kernel.cu").write_text(source)
    return folder


def write_op(root):
    """The toy op with torch's own product, its baseline."""
    (root / "gemm").mkdir(parents=True)
    for name in ("op.py", "numerics.py", "grid.csv"):
        shutil.copy(TOYS / "gemm" / name, root / "gemm" / name)
    shutil.copytree(TOYS / "gemm" / "torch", root / "gemm" / "torch")


@dataclass(frozen=True)
class Stored:
    """Writes runs into a folder of results.

    Attributes:
        results: that folder.
        root: the folder of kernels; empty for the bundled ones.
        baseline: what they are compared with.
    """

    results: Path
    baseline: str
    root: Path | None = None

    def __call__(
        self, label, suite="default", *, run_id="20260102-030405-h200-gemm", speedup=1.25, wrong=None, leave=0, **more
    ):
        """A run of a kernel and its baseline at all workloads of a suite but the last few; some may have failed."""
        catalog = load_catalog([self.root] if self.root else None)
        entry = catalog.owner(label)
        op = entry.op
        workloads = op.suite(suite).workloads
        rows = []
        for workload in workloads[: len(workloads) - leave]:
            rows.append(measured(case(self.baseline, Role.BASELINE, workload), 4.0 * speedup))
            own = case(label, workload=workload)
            rows.append(failed(own, wrong) if wrong else measured(own, 4.0, versus(speedup)))
        folder = self.results / run_id
        folder.mkdir(parents=True)
        sources = {name: catalog.entries[name].source_hash() for name in (entry.kernel.name, self.baseline)}
        described = {"op": op.name, "workloads": op.workloads, "sources": sources, "baseline": self.baseline}
        store(folder, rows, run_id=run_id, **{**described, **more})
        random = np.random.default_rng(1)
        rounds = [
            round_rows(run_id, row.case.id, row.timing.time_us * (1 + 0.001 * random.normal(size=ROUNDS)), samples=40)
            for row in rows
            if row.timing
        ]
        write_rounds(folder, [each for of_case in rounds for each in of_case])
        return folder
