"""The GPUs of this machine, read through NVML without touching CUDA: no context, no memory, no clock change."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from gdnbench.machine.visible import visible_gpus
from gdnbench.model import Gpu

# FP32 cores per SM by compute capability: the row "32-bit floating-point add, multiply, multiply-add" of the
# CUDA programming guide's table of arithmetic throughput. NVML counts cores, not SMs.
_CORES_PER_SM = {
    (7, 0): 64, (7, 2): 64, (7, 5): 64, (8, 0): 64,
    (8, 6): 128, (8, 7): 128, (8, 9): 128, (9, 0): 128,
    (10, 0): 128, (10, 3): 128, (11, 0): 128, (12, 0): 128, (12, 1): 128,
}  # fmt: skip


class NvmlReader:
    """NVML's functions as questions: the answer, or None where the driver refuses or the GPU has no such thing."""

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml

    def ask(self, function: str, *args: Any) -> Any:
        """Calls `nvml<function>`; None where NVML says no."""
        try:
            return getattr(self._nvml, f"nvml{function}")(*args)
        except self._nvml.NVMLError:
            return None


@contextmanager
def open_nvml() -> Iterator[NvmlReader | None]:
    """Opens NVML for reading; None where there is no NVML library or no driver."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        yield None
        return
    try:
        yield NvmlReader(pynvml)
    finally:
        pynvml.nvmlShutdown()


def list_gpus(environ: Mapping[str, str] | None = None) -> tuple[Gpu, ...]:
    """Lists the GPUs that a CUDA program started from here would see.

    They come in PCI bus order, or in the order that `CUDA_VISIBLE_DEVICES` gives; `Gpu.index` is always the
    position in PCI bus order. The L2 size is 0: NVML does not know it.

    Args:
        environ: where to look for `CUDA_VISIBLE_DEVICES`; the process's own environment if None.

    Returns:
        The GPUs; none where there is no driver or no GPU. A GPU that has fallen off the bus is left out.
    """
    with open_nvml() as nvml:
        if nvml is None:
            return ()
        found = [_read_gpu(nvml, index) for index in range(nvml.ask("DeviceGetCount") or 0)]
    variables = os.environ if environ is None else environ
    return visible_gpus(tuple(gpu for gpu in found if gpu), variables.get("CUDA_VISIBLE_DEVICES"))


def _read_gpu(nvml: NvmlReader, index: int) -> Gpu | None:
    handle = nvml.ask("DeviceGetHandleByIndex", index)
    uuid = nvml.ask("DeviceGetUUID", handle)
    capability = nvml.ask("DeviceGetCudaComputeCapability", handle)
    if handle is None or uuid is None or capability is None:
        return None
    major, minor = capability
    memory = nvml.ask("DeviceGetMemoryInfo", handle)
    return Gpu(
        index=index,
        name=nvml.ask("DeviceGetName", handle) or "NVIDIA GPU",
        uuid=uuid,
        capability=(major, minor),
        sms=_count_sms(nvml.ask("DeviceGetNumGpuCores", handle), (major, minor)),
        memory_bytes=memory.total if memory else 0,
    )


def _count_sms(cores: int | None, capability: tuple[int, int]) -> int:
    per_sm = _CORES_PER_SM.get(capability)
    return cores // per_sm if cores and per_sm else 0
