"""Nsight Systems: records a timeline of a kernel's launches, with NVTX ranges that name them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gdnbench.doctor.software import newest_installed
from gdnbench.errors import MachineError
from gdnbench.model.gpu import Gpu
from gdnbench.profile.files import make_folder, profile_name
from gdnbench.profile.process import ProfileTask, check_left, run_worker

_ELSEWHERE = "gdnbench ncu and gdnbench run do without it"


def find_nsys(root: Path = Path("/")) -> Path | None:
    """Finds Nsight Systems on the PATH, else the newest installed in `usr` or `opt` of `root`."""
    return newest_installed("nsys", root, "opt/nvidia/nsight-systems*/*/bin/nsys", "usr/local/cuda*/bin/nsys")


def nsys_command(nsys: Path, report: Path) -> Sequence[str]:
    """Returns the profiler's command line, which the worker's follows.

    CPU sampling is off: it needs a kernel setting that few machines have.
    """
    return (
        str(nsys),
        "profile",
        "--trace=cuda,nvtx",
        "--sample=none",
        "--cpuctxsw=none",
        "--force-overwrite=true",
        f"--output={report}",
    )


def record_timeline(assignment: ProfileTask, gpu: Gpu, nsys: Path | None, profiles: Path, *, limit_s: float) -> Path:
    """Records a timeline of a kernel's launches in `profiles/nsys/<kernel>/<run>.nsys-rep`; raises ProfilerError."""
    if nsys is None:
        remedy = f"install it: https://developer.nvidia.com/nsight-systems, or give --nsys PATH; {_ELSEWHERE}"
        raise MachineError("Nsight Systems (nsys) is not installed here", remedy)
    folder = make_folder(profiles, "nsys", assignment.case.label)
    report = folder / f"{profile_name(assignment.case, gpu.slug)}.nsys-rep"
    ended = run_worker(assignment, gpu, limit_s=limit_s, wrapper=nsys_command(nsys, report))
    check_left(ended, report, f"nsys left no timeline of {assignment.case.label}", "see `gdnbench doctor`")
    return report
