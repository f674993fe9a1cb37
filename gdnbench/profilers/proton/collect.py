"""Records a trace: limits its launches, and runs the worker that makes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from pathlib import Path

from gdnbench.catalog.catalog import Catalog
from gdnbench.errors import UsageError
from gdnbench.model.case import Case
from gdnbench.model.gpu import Gpu
from gdnbench.model.kernel import CudaKernel, TritonKernel
from gdnbench.profilers.files import make_folder, profile_name
from gdnbench.profilers.process import ProfileTask, check_left, run_worker
from gdnbench.profilers.proton.recording import WARM_UPS

# Six scopes are 1.5 KB of trace for each warp of each launch: 100 MB in all before gzip.
_MOST_WARPS = 65536


def check_is_no_cuda(catalog: Catalog, case: Case) -> None:
    """Raises UsageError for a CUDA kernel: Proton instruments what Triton compiles."""
    kernel, label = catalog.entries[case.variant.kernel].kernel, case.label
    if isinstance(kernel, CudaKernel):
        raise UsageError(f"{label} is written in CUDA, and Proton sees into Triton kernels", f"gdnbench phases {label}")


def limit_launches(catalog: Catalog, case: Case, wanted: int, note: Callable[[str], None]) -> int:
    """Returns `wanted`, or as many launches as keep the trace readable; raises UsageError if one is too large."""
    kernel, params = catalog.entries[case.variant.kernel].kernel, case.variant.params
    if not isinstance(kernel, TritonKernel) or len(kernel.launches) > 1:  # nothing is traced
        return wanted
    blocks, warps = (
        prod(kernel.launches[0].grid(case.workload, params)),
        kernel.launches[0].warps(case.workload, params),
    )
    fitting = _MOST_WARPS // (blocks * warps) - WARM_UPS
    if fitting < 1:
        large = f"{blocks} blocks of {warps} warps are too many to trace, at 1.5 KB a warp and launch"
        raise UsageError(
            large, f"all blocks do the same: trace a smaller {case.workload.spec.x} than {case.workload.x}"
        )
    if fitting < wanted:
        note(f"tracing {fitting} of {wanted} launches: {blocks} blocks of {warps} warps make a large trace")
    return min(wanted, fitting)


def record_trace(assignment: ProfileTask, gpu: Gpu, profiles: Path, *, limit_s: float) -> Path:
    """Runs the worker; returns the file to read as a `Recording`. Raises ProfilerError if the worker fails."""
    case = assignment.case
    path = make_folder(profiles, "proton", case.label) / f"{profile_name(case, gpu.slug)}.json"
    ended = run_worker(replace(assignment, result=str(path.resolve())), gpu, limit_s=limit_s)
    check_left(ended, path, f"{case.label} could not be traced", f"gdnbench verify {case.label}")
    return path
