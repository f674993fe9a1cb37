"""Nsight Systems: records a timeline of a kernel's launches, with NVTX ranges that name them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gdnbench.doctor.profilers import newest_installed
from gdnbench.errors import MachineError
from gdnbench.model.gpu import Gpu
from gdnbench.profilers.files import make_folder, profile_name
from gdnbench.profilers.process import ProfileTask, check_left, run_worker

_ELSEWHERE = "gdnbench ncu and gdnbench run do without it"


def find_nsys(root: Path = Path("/")) -> Path | None:
    """Finds Nsight Systems: on the PATH, else the newest of those that the toolkit and its own installer leave.

    Args:
        root: the folder that holds `usr` and `opt`.
    """
    return newest_installed("nsys", root, "opt/nvidia/nsight-systems*/*/bin/nsys", "usr/local/cuda*/bin/nsys")


def nsys_command(nsys: Path, report: Path) -> Sequence[str]:
    """The profiler's command line, which the worker's follows.

    CPU sampling is off: it needs a kernel setting that few machines have, and the timeline is about the GPU.
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
    """Records a timeline of a kernel's launches.

    Args:
        assignment: what to launch, and how often.
        gpu: where.
        nsys: Nsight Systems; None where it is not installed.
        profiles: the folder that holds profiles.
        limit_s: seconds that it may take.

    Returns:
        The report, `profiles/nsys/<kernel>/<run>.nsys-rep`.

    Raises:
        MachineError: if Nsight Systems is not installed.
        ProfilerError: if it or the worker failed.
    """
    if nsys is None:
        remedy = f"install it: https://developer.nvidia.com/nsight-systems, or give --nsys PATH; {_ELSEWHERE}"
        raise MachineError("Nsight Systems (nsys) is not installed here", remedy)
    folder = make_folder(profiles, "nsys", assignment.case.label)
    report = folder / f"{profile_name(assignment.case, gpu.slug)}.nsys-rep"
    ended = run_worker(assignment, gpu, limit_s=limit_s, wrapper=nsys_command(nsys, report))
    check_left(ended, report, f"nsys left no timeline of {assignment.case.label}", "see `gdnbench doctor`")
    return report
