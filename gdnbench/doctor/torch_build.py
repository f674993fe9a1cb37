"""Torch: without it nothing can be measured."""

from __future__ import annotations

from gdnbench.doctor.check import Check, Level
from gdnbench.doctor.loading import Loaded
from gdnbench.doctor.versions import as_numbers
from gdnbench.model import Gpu

_CUDA_BUILD = "pip install --force-reinstall torch --index-url https://download.pytorch.org/whl/cu130"


def check_torch(torch: Loaded, gpu: Gpu | None, driver_cuda: str | None) -> Check:
    """Whether torch loads and, where there is a GPU, computes on it.

    Args:
        torch: how loading it went.
        gpu: the GPU to measure on; None for the CPU.
        driver_cuda: the newest CUDA the driver supports, `13.0`; None where unknown.
    """
    if torch.is_missing:
        return _fail("not installed", "pip install torch")
    if torch.problem:
        return _fail(f"does not load: {torch.problem}", "pip install --force-reinstall torch")
    built = f"{torch.version}, built for {f'CUDA {torch.cuda}' if torch.cuda else 'the CPU'}"
    if gpu is None:
        return Check("torch", Level.OK, built, needed_to_measure=True)
    if torch.gpu_problem:
        return _explain_gpu_problem(torch, built, gpu, driver_cuda)
    return Check("torch", Level.OK, f"{built}, computes on the {gpu.name}", needed_to_measure=True)


def _explain_gpu_problem(torch: Loaded, built: str, gpu: Gpu, driver_cuda: str | None) -> Check:
    if torch.cuda is None:
        return _fail(f"{built}: it cannot use the {gpu.name}", _CUDA_BUILD)
    if driver_cuda and as_numbers(torch.cuda)[0] > as_numbers(driver_cuda)[0]:
        return _fail(f"{built}, but the driver goes up to CUDA {driver_cuda}", "update the NVIDIA driver")
    return _fail(f"{built}, cannot compute on the {gpu.name}: {torch.gpu_problem}", "see what nvidia-smi says")


def _fail(finding: str, remedy: str) -> Check:
    return Check("torch", Level.FAIL, finding, remedy, needed_to_measure=True)
