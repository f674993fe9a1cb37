"""Is there a GPU, and a driver new enough for what is built for it?"""

from __future__ import annotations

from collections.abc import Sequence

from gdnbench.doctor.check import Check, Level
from gdnbench.doctor.loading import TorchGpu
from gdnbench.doctor.versions import as_numbers
from gdnbench.machine import GpuState
from gdnbench.model import Gpu

_OLDEST_DRIVER = {12: "525", 13: "580"}  # that supports a CUDA major version at all


def check_absence(hidden: Sequence[Gpu], torch_gpus: Sequence[TorchGpu]) -> Check:
    """Why no GPU was found, and what works without one.

    Args:
        hidden: the GPUs there are when `CUDA_VISIBLE_DEVICES` is left out of account.
        torch_gpus: those that torch sees; some where NVML sees none means that NVML is missing.
    """
    if hidden:
        names = ", ".join(f"{gpu.index}: {gpu.name}" for gpu in hidden)
        return Check("GPU", Level.WARN, f"CUDA_VISIBLE_DEVICES hides what there is ({names})", "unset it")
    if torch_gpus:
        finding = f"torch sees the {torch_gpus[0].name}, but NVML (libnvidia-ml.so.1) is not here"
        remedy = "in a container, start it with NVIDIA_DRIVER_CAPABILITIES=compute,utility"
        return Check("GPU", Level.WARN, finding, remedy)
    finding = "none here: `gdnbench run` times the torch kernels on the CPU and builds the rest for sm_90 and sm_100"
    return Check("GPU", Level.WARN, finding)


def check_driver(state: GpuState, nvrtc_version: str | None) -> Check:
    """Whether the driver takes the code that the compiler at hand makes.

    Within one CUDA major version it does, whatever the minor; across major versions it does not.
    """
    supported = state.cuda_driver_version
    if supported is None:
        return Check("driver", Level.WARN, f"{state.driver_version or 'version unknown'}: it does not say its CUDA")
    finding = f"{state.driver_version}, for CUDA up to {supported}"
    needed = as_numbers(nvrtc_version)[0] if nvrtc_version else 0
    if needed > as_numbers(supported)[0]:
        oldest = _OLDEST_DRIVER.get(needed)
        remedy = f"install driver {oldest} or newer" if oldest else "update the NVIDIA driver"
        finding += f", but kernels are built with CUDA {needed}"
        return Check("driver", Level.FAIL, finding, remedy, needed_to_measure=True)
    return Check("driver", Level.OK, finding, needed_to_measure=True)
