"""The packages that build and time the kernels; torch has a file of its own."""

from __future__ import annotations

from gdnbench.doctor.check import Check, Level
from gdnbench.doctor.loading import Loaded
from gdnbench.model import Gpu


def check_triton(triton: Loaded) -> Check:
    """Whether Triton loads; without it only the Triton kernels are lost."""
    if triton.is_missing:
        return Check("triton", Level.WARN, "not installed: no Triton kernels", "pip install triton")
    if triton.problem:
        return Check("triton", Level.WARN, f"does not load: {triton.problem}", "pip install --force-reinstall triton")
    return Check("triton", Level.OK, triton.version)


def check_nvrtc(nvrtc: Loaded, core_version: str | None, nvrtc_version: str | None) -> Check:
    """Whether NVRTC, through cuda-core, builds a kernel; without it the CUDA kernels are lost."""
    if core_version is None or nvrtc_version is None:
        missing = [
            package
            for package, version in (("cuda-core", core_version), ("nvidia-cuda-nvrtc", nvrtc_version))
            if version is None
        ]
        return Check("NVRTC", Level.WARN, "not installed: no CUDA kernels", f"pip install {' '.join(missing)}")
    versions = f"{nvrtc_version} with cuda-core {core_version}"
    if nvrtc.problem:
        remedy = "pip install --force-reinstall cuda-core nvidia-cuda-nvrtc"
        return Check("NVRTC", Level.WARN, f"{versions}, builds no kernel: {nvrtc.problem}", remedy)
    return Check("NVRTC", Level.OK, f"{versions}, builds for sm_90")


def check_nvbench(nvbench: Loaded, libcuda: Loaded, version: str | None, gpu: Gpu | None) -> Check:
    """Whether NVBench, which times GPU kernels, loads.

    Where the driver is missing, cuda-bench's own message blames the CUDA version; this says what is the matter.
    """
    level = Level.FAIL if gpu else Level.WARN
    if version is None:
        remedy = "pip install 'cuda-bench[cu13]'"
        return Check("cuda-bench", level, "not installed: no GPU kernel can be timed", remedy, needed_to_measure=True)
    if not nvbench.problem:
        return Check("cuda-bench", Level.OK, f"{version}, loads", needed_to_measure=True)
    if libcuda.problem and gpu is None:
        finding = f"{version}, not needed without a GPU (it loads only where a driver brings libcuda.so.1)"
        return Check("cuda-bench", Level.OK, finding)
    if libcuda.problem:
        remedy = "in a container, start it with NVIDIA_DRIVER_CAPABILITIES=compute,utility"
        return Check("cuda-bench", level, f"{version}, does not load: no libcuda.so.1 here", remedy, True)
    cause = nvbench.problem.rpartition("Original error: ")[2]
    remedy = "pip install --force-reinstall 'cuda-bench[cu13]'"
    return Check("cuda-bench", level, f"{version}, does not load: {cause}", remedy, needed_to_measure=True)


def check_fla(version: str | None) -> Check:
    """Whether the FLA baseline is there to compare with."""
    if version is None:
        return Check("FLA", Level.WARN, "not installed: no FLA baseline", "pip install 'gdnbench[fla]'")
    return Check("FLA", Level.OK, f"fla-core {version}")
