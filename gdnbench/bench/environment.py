"""The environment of workers: which device they see, and where they find gdnbench."""

from __future__ import annotations

import os
from pathlib import Path

import gdnbench
from gdnbench.model import CPU, Device, Gpu

ARCHS_WITHOUT_GPU = ("sm_90", "sm_100")  # Hopper and Blackwell: what people without one still write for


def archs_of(gpu: Gpu | None) -> tuple[str, ...]:
    """What kernels are compiled for."""
    return (gpu.arch,) if gpu else ARCHS_WITHOUT_GPU


def device_of(gpu: Gpu | None) -> Device:
    """Where work runs: on the GPU if there is one."""
    return "cuda" if gpu else "cpu"


def slug_of(gpu: Gpu | None) -> str:
    """What the device is called in run ids, results and dispatchers' tables: `h200`, or `cpu`."""
    return gpu.slug if gpu else CPU


def worker_environment(gpu: Gpu | None, *, interpret: bool = False) -> dict[str, str]:
    """Variables on top of this process's: one GPU, or none, and this very gdnbench.

    Args:
        gpu: the GPU that the worker sees; None for none.
        interpret: whether Triton kernels run in Triton's interpreter.
    """
    package_parent = str(Path(gdnbench.__file__).resolve().parent.parent)
    paths = [package_parent, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {
        # By UUID: CUDA numbers GPUs by speed unless told otherwise, and NVML by bus.
        "CUDA_VISIBLE_DEVICES": gpu.uuid if gpu else "",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
        **({"TRITON_INTERPRET": "1"} if interpret else {}),
    }
